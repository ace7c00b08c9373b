//! What commands cost that ask Prometheus as well, beside promtool and the API server's own time: every device of the fleet, scraped as often
//! as real clusters do.

use std::thread;
use std::time::Duration;

use gpuctl_sandbox::exporter::Exporter;
use gpuctl_sandbox::{Cluster, load};
use serde_json::{Value, json};

use crate::measure::{Contestant, Server, in_turn};

const SCRAPE: Duration = Duration::from_secs(15);
const ROWS: [&str; 3] = ["get overview", "get nodes", "get heatmap"];

/// `floor` is what the API server needs to answer alone.
pub fn show(cluster: &Cluster, server: &Server, nodes: &[Value], floor: Contestant) {
    let exporter = Exporter::start().expect("a port is free");
    let gpus = load::devices(nodes);
    println!(
        "\n{} devices, scraped every {} s\n\n| | time, ms | CPU, ms | peak, MiB |\n|---|---:|---:|---:|",
        gpus.len(),
        SCRAPE.as_secs()
    );
    exporter.change(|fleet| fleet.gpus = gpus);
    let targets = json!([{"targets": [exporter.address()]}]);
    let scrapes = json!([{"job_name": "gpu-exporter", "honor_labels": true, "static_configs": targets}]);
    let global = json!({"scrape_interval": format!("{}s", SCRAPE.as_secs())});
    let prometheus =
        cluster.prometheus_with("fleet", &json!({"global": global, "scrape_configs": scrapes})).expect("Prometheus starts");
    // The second scrape meets series that are there already.
    thread::sleep(SCRAPE * 3);
    let promtool = cluster.binary("promtool").display().to_string();
    let query = ["query", "instant", &prometheus, "DCGM_FI_DEV_GPU_UTIL"];
    let mut contestants = vec![floor, Contestant::new("promtool query instant, utilization of each device", &promtool, &query)];
    for row in ROWS {
        let words: Vec<&str> = ["--prometheus", &prometheus].into_iter().chain(row.split(' ')).collect();
        contestants.push(Contestant::new(&format!("gpuctl {row}"), env!("CARGO_BIN_EXE_gpuctl"), &words));
    }
    for (contestant, cost) in contestants.iter().zip(in_turn(&contestants, cluster, server)) {
        let (name, peak) = (&contestant.name, cost.peak);
        println!("| `{name}` | {} | {} | {peak:.0} |", cost.wall.as_millis(), cost.cpu.as_millis());
    }
}
