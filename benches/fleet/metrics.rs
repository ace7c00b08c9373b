//! Measures commands that also query Prometheus. Compares them with promtool, and with plain
//! requests to the API server and to Prometheus. Prometheus scrapes every device at an interval
//! that is common in real clusters.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use gpuctl_sandbox::exporter::Exporter;
use gpuctl_sandbox::{Cluster, Persona, load};
use serde_json::{Value, json};

use crate::measure::{Contestant, Server, measure, measure_alternating};

const SCRAPE: Duration = Duration::from_secs(15);
const ROWS: [&str; 3] = ["get overview", "get nodes", "get heatmap"];

/// Prints the results of the commands, next to `floors`, the plain requests to the API server.
pub fn show(
    cluster: &Cluster,
    server: &Server,
    nodes: &[Value],
    floors: impl IntoIterator<Item = Contestant>,
) {
    let exporter = Exporter::start().expect("a port is free");
    let gpus = load::devices(nodes);
    println!(
        "\n{} devices, scraped every {} s\n\n| | time, ms | CPU, ms | peak, MiB |\n|---|---:|---:|---:|",
        gpus.len(),
        SCRAPE.as_secs()
    );
    exporter.change(|fleet| fleet.gpus = gpus);
    let targets = json!([{"targets": [exporter.address()]}]);
    let scrapes =
        json!([{"job_name": "gpu-exporter", "honor_labels": true, "static_configs": targets}]);
    let log = cluster.folder().join("fleet-queries.log");
    let global =
        json!({"scrape_interval": format!("{}s", SCRAPE.as_secs()), "query_log_file": log});
    let prometheus = cluster
        .prometheus_with(
            "fleet",
            &json!({"global": global, "scrape_configs": scrapes}),
        )
        .expect("Prometheus starts");
    // Later scrapes are cheaper than the first, because the series exist.
    thread::sleep(SCRAPE * 3);
    let promtool = cluster.binary("promtool").display().to_string();
    let query = ["query", "instant", &prometheus, "DCGM_FI_DEV_GPU_UTIL"];
    let mut contestants: Vec<Contestant> = floors.into_iter().collect();
    contestants.push(Contestant::new(
        "promtool query instant, utilization of each device",
        &promtool,
        &query,
    ));
    for row in ROWS {
        let words: Vec<&str> = ["--prometheus", &prometheus]
            .into_iter()
            .chain(row.split(' '))
            .collect();
        contestants.push(Contestant::new(
            &format!("gpuctl {row}"),
            env!("CARGO_BIN_EXE_gpuctl"),
            &words,
        ));
    }
    let overview = contestants
        .iter()
        .find(|contestant| contestant.name.ends_with(ROWS[0]))
        .expect("the command is a contestant");
    contestants.push(parallel_queries(
        &prometheus,
        &queries(overview, cluster, &log),
    ));
    for (contestant, cost) in
        contestants
            .iter()
            .zip(measure_alternating(&contestants, cluster, server))
    {
        let (name, peak) = (&contestant.name, cost.peak);
        println!(
            "| `{name}` | {} | {} | {peak:.0} |",
            cost.wall.as_millis(),
            cost.cpu.as_millis()
        );
    }
}

/// Runs a command and returns the queries that Prometheus logged for it.
fn queries(contestant: &Contestant, cluster: &Cluster, log: &Path) -> Vec<String> {
    let lines = || {
        fs::read_to_string(log)
            .expect("Prometheus logs queries")
            .lines()
            .map(ToOwned::to_owned)
            .collect::<Vec<_>>()
    };
    let before = lines().len();
    measure(
        contestant
            .command()
            .env("KUBECONFIG", cluster.kubeconfig(Persona::Admin)),
    );
    // Give Prometheus time to write its query log.
    thread::sleep(Duration::from_secs(1));
    let query = |line: &String| {
        let entry: Value = serde_json::from_str(line).expect("a line is an object");
        entry["params"]["query"]
            .as_str()
            .expect("an entry has a query")
            .to_owned()
    };
    lines()[before..].iter().map(query).collect()
}

/// Sends all queries concurrently and discards the responses.
fn parallel_queries(prometheus: &str, queries: &[String]) -> Contestant {
    let url = |query: &String| {
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("query", query)
            .finish();
        format!("{prometheus}/api/v1/query?{form}")
    };
    let urls: Vec<String> = queries.iter().map(url).collect();
    let arguments = urls
        .iter()
        .flat_map(|url| ["-o", "/dev/null", url.as_str()]);
    let words: Vec<&str> = ["-sSf", "--parallel"]
        .into_iter()
        .chain(arguments)
        .collect();
    Contestant::new(
        &format!(
            "curl --parallel, the {} queries of {}",
            queries.len(),
            ROWS[0]
        ),
        "curl",
        &words,
    )
}
