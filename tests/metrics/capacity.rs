//! Tests the capacity of reports, their groups of nodes, and prices by GPU type and pool. The
//! history has a node that was added and later deleted, a cordoned node, a broken GPU and a gap of
//! kube-state-metrics.

use std::path::PathBuf;

use gpuctl_sandbox::Persona;
use serde_json::{Value, json};

use crate::past::{HOUR, Sample, ask, hours_ago, store};
use crate::support::{Run, cluster, file, gpuctl, near, run};

/// When kube-state-metrics was down, in seconds after the begin.
const GAP: std::ops::Range<i64> = 5400..6000;

/// A node of the history. `since` is in seconds after the begin.
struct PastNode {
    name: &'static str,
    gpus: i64,
    since: i64,
    /// Labels in `kube_node_labels`.
    labels: &'static str,
    /// The product that the exporter names.
    product: &'static str,
}

const NODES: [PastNode; 2] = [
    PastNode {
        name: "cap-a",
        gpus: 8,
        since: 0,
        labels: "label_nvidia_com_gpu_product=\"NVIDIA-A100-SXM4-80GB\",label_gpuctl_pool=\"batch\"",
        product: "",
    },
    // Only its exporter names its type.
    PastNode {
        name: "cap-b",
        gpus: 4,
        since: HOUR,
        labels: "",
        product: ",modelName=\"NVIDIA H100 80GB HBM3\"",
    },
];

/// Three hours. On `cap-a`, a pod without a pool holds four GPUs. On `cap-b`, which was added after
/// one hour, a pod of the pool `spot` holds one.
fn history() -> Vec<Sample> {
    let mut samples = Vec::new();
    for at in (0..3 * HOUR).step_by(30) {
        let mut put = |series: String, value: i64| {
            samples.push(Sample {
                series,
                at,
                value: value.to_string(),
            });
        };
        let last_hour = at >= 2 * HOUR;
        for node in NODES.iter().filter(|node| node.since <= at) {
            let (name, is_a) = (node.name, node.name == "cap-a");
            let (pod, team, held) = match is_a {
                true => ("train-0", "label_team=\"research\"", 4),
                false => (
                    "serve-0",
                    "label_team=\"web\",label_gpuctl_pool=\"spot\"",
                    1,
                ),
            };
            for gpu in 0..held {
                let device = format!("Hostname=\"{name}\",gpu=\"{gpu}\",UUID=\"GPU-{name}-{gpu}\"");
                let labels = format!("namespace=\"cap\",pod=\"{pod}\",{device}{}", node.product);
                put(format!("DCGM_FI_DEV_GPU_UTIL{{{labels}}}"), 50);
            }
            if GAP.contains(&at) {
                continue;
            }
            let gpus = "resource=\"nvidia_com_gpu\",unit=\"integer\"";
            put(
                format!("kube_node_status_capacity{{node=\"{name}\",{gpus}}}"),
                node.gpus,
            );
            // One GPU of `cap-a` breaks in the last hour, and `cap-b` is cordoned.
            put(
                format!("kube_node_status_allocatable{{node=\"{name}\",{gpus}}}"),
                node.gpus - i64::from(is_a && last_hour),
            );
            put(
                format!("kube_node_spec_unschedulable{{node=\"{name}\"}}"),
                i64::from(!is_a && last_hour),
            );
            let ready = "condition=\"Ready\",status=\"true\"";
            put(
                format!("kube_node_status_condition{{node=\"{name}\",{ready}}}"),
                1,
            );
            let comma = if node.labels.is_empty() { "" } else { "," };
            put(
                format!("kube_node_labels{{node=\"{name}\"{comma}{}}}", node.labels),
                1,
            );
            let id = format!("namespace=\"cap\",pod=\"{pod}\",uid=\"u-{pod}\"");
            put(
                format!(
                    "kube_pod_container_resource_requests{{{id},container=\"c\",node=\"{name}\",{gpus}}}"
                ),
                held,
            );
            put(
                format!("kube_pod_status_phase{{{id},phase=\"Running\"}}"),
                1,
            );
            put(
                format!("kube_pod_owner{{{id},owner_kind=\"Job\",owner_name=\"{pod}\"}}"),
                1,
            );
            put(format!("kube_pod_labels{{{id},{team}}}"), 1);
        }
    }
    samples
}

/// Reports of the history.
struct Reports {
    store: String,
    cache: PathBuf,
    start: String,
    end: String,
}

impl Reports {
    fn new(name: &str) -> Self {
        let begin = hours_ago(5);
        Self {
            store: store(name, history(), begin),
            cache: cluster().folder().join(format!("{name}-cache")),
            start: begin.to_string(),
            end: (begin + 3 * HOUR).to_string(),
        }
    }

    fn run(&self, arguments: &[&str]) -> Run {
        let report = ["report", "--start", &self.start, "--end", &self.end];
        ask(&self.store, &self.cache, &[&report[..], arguments].concat())
    }

    fn json(&self, arguments: &[&str]) -> Value {
        self.run(&[arguments, &["-o", "json"]].concat()).ok().json()
    }
}

/// Checks the capacity of a group and that its parts add up.
fn check(group: &Value, capacity: f64, idle: f64, cordoned: f64, lost: f64) {
    let hours = &group["capacity"];
    let number = |key: &str| {
        let value = &hours[key];
        value.as_f64().unwrap_or_else(|| panic!("{key}: {group:#}"))
    };
    near(&hours["capacity_gpu_hours"], capacity);
    near(&hours["idle_gpu_hours"], idle);
    near(&hours["cordoned_gpu_hours"], cordoned);
    near(&hours["lost_gpu_hours"], lost);
    near(
        &hours["allocated_gpu_hours"],
        group["held_gpu_hours"].as_f64().unwrap(),
    );
    let parts = number("allocated_gpu_hours") + idle + number("unseen_gpu_hours");
    assert!((parts - capacity).abs() < 0.02, "{parts}: {group:#}");
}

/// GPU-hours that `gpus` GPUs had outside of the gap (10 minutes), in some hours.
fn seen(gpus: f64, hours: f64) -> f64 {
    gpus * (hours - 600.0 / 3600.0)
}

#[test]
fn reports_by_nodes_show_capacity_and_add_up() {
    let reports = Reports::new("capacity");
    let by_type = reports.json(&["--by", "gpu-type"]);
    let items = by_type["items"].as_array().unwrap();
    let names: Vec<&Value> = items.iter().map(|group| &group["group"]).collect();
    assert_eq!(
        names,
        [&json!("a100-80g"), &json!("h100-80g")],
        "{by_type:#}"
    );
    // `cap-a`: 8 GPUs for 3 hours. 4 are idle outside of the gap, and one is broken for an hour.
    // `cap-b`: 4 GPUs for 2 hours. 3 are idle, and the node is cordoned in the last hour.
    check(&items[0], 24.0, seen(4.0, 3.0), 0.0, 1.0);
    check(&items[1], 8.0, seen(3.0, 2.0), 3.0, 0.0);
    check(
        &by_type["sum"],
        32.0,
        seen(4.0, 3.0) + seen(3.0, 2.0),
        3.0,
        1.0,
    );
    let sum = &by_type["sum"]["capacity"];
    assert_eq!(
        (
            &sum["cordoned_nodes"],
            &sum["lost_nodes"],
            &sum["unknown_nodes"]
        ),
        (&json!(["cap-b"]), &json!(["cap-a"]), &json!([]))
    );

    let by_node = reports.json(&["--by", "node"]);
    assert_eq!(by_node["items"][1]["keys"], json!({"node": "cap-b"}));
    check(&by_node["items"][1], 8.0, seen(3.0, 2.0), 3.0, 0.0);
    let by_cluster = reports.json(&["--by", "cluster"]);
    assert_eq!(by_cluster["items"].as_array().unwrap().len(), 1);
    assert_eq!(by_cluster["items"][0]["capacity"], *sum);

    // The job that names no pool gets the pool of its node. The idle GPUs of `cap-b` have none.
    let by_pool = reports.json(&["--by", "pool"]);
    let items = by_pool["items"].as_array().unwrap();
    let names: Vec<&Value> = items.iter().map(|group| &group["group"]).collect();
    assert_eq!(names, [&Value::Null, &json!("batch"), &json!("spot")]);
    check(&items[0], 8.0 - held(&items[2]), seen(3.0, 2.0), 3.0, 0.0);
    check(&items[1], 24.0, seen(4.0, 3.0), 0.0, 1.0);
    check(&items[2], held(&items[2]), 0.0, 0.0, 0.0);
    assert_eq!(by_pool["sum"]["capacity"], *sum);
}

fn held(group: &Value) -> f64 {
    group["held_gpu_hours"].as_f64().unwrap()
}

#[test]
fn other_reports_name_the_capacity_of_the_cluster() {
    let reports = Reports::new("capacity-note");
    let text = reports
        .run(&["--by", "team,gpu-type"])
        .ok()
        .says("the capacity was 32.0 GPU-hours")
        .says("3.0 idle on cordoned nodes (cap-b); 1.0 idle of lost GPUs (cap-a)");
    assert!(
        text.out.contains("research, a100-80g") && text.out.contains("web, h100-80g"),
        "{}",
        text.out
    );
    let by_team = reports.json(&["--by", "team,gpu-type"]);
    assert_eq!(by_team["items"][0]["capacity"], Value::Null);
    near(&by_team["sum"]["capacity"]["capacity_gpu_hours"], 32.0);
    let csv = reports.run(&["--by", "gpu-type", "-o", "csv"]).ok().out;
    assert!(
        csv.starts_with("group,capacity,allocated,idle,cordoned,lost,unseen,quota,waited,held,"),
        "{csv}"
    );
    let markdown = reports.run(&["-o", "markdown"]).ok().out;
    assert!(
        markdown.contains("\nthe capacity was 32.0 GPU-hours"),
        "{markdown}"
    );
    let page = reports.run(&["--by", "gpu-type", "-o", "html"]).ok().out;
    assert!(
        page.contains("GPU-hours of capacity") && page.contains("The capacity was 32.0"),
        "{page}"
    );
    // A report of one namespace does not cover all pods, so the rest is not idle.
    let mut command = gpuctl(cluster(), Persona::Admin);
    command.args(["--prometheus", &reports.store, "-n", "cap", "report"]);
    command.args(["--start", &reports.start, "--end", &reports.end]);
    command.args(["-o", "json"]);
    assert_eq!(run(command, "").ok().json()["sum"]["capacity"], Value::Null);
}

#[test]
fn prices_depend_on_the_type_and_the_pool() {
    let reports = Reports::new("capacity-prices");
    let priced = |name: &str, prices: &str, more: &[&str]| {
        let path = file(name, prices);
        let arguments = ["--by", "team", "--prices", path.to_str().unwrap()];
        reports.run(&[&arguments[..], more].concat())
    };
    let costs = priced(
        "type-prices.yaml",
        "{a100-80g: 1.8, h100-80g: 3, currency: EUR, pools: {spot: 0.5}}",
        &["-o", "json"],
    );
    let costs = costs.ok().json();
    let (research, web) = (&costs["items"][0], &costs["items"][1]);
    near(&research["cost"], held(research) * 1.8);
    near(&web["cost"], held(web) * 0.5);
    near(
        &costs["sum"]["cost"],
        held(research) * 1.8 + held(web) * 0.5,
    );
    let partial = priced("partial-prices.yaml", "{a100-80g: 1.8}", &["-o", "json"])
        .ok()
        .says("no price is set for these GPUs: h100-80g in pool spot");
    let partial = partial.json();
    near(
        &partial["items"][0]["cost"],
        held(&partial["items"][0]) * 1.8,
    );
    assert_eq!(
        (&partial["items"][1]["cost"], &partial["sum"]["cost"]),
        (&Value::Null, &Value::Null)
    );
    priced("euro-prices.yaml", "{gpu_hour: 2, currency: EUR}", &[])
        .ok()
        .says("costs are in EUR");
    let broken = priced("broken-prices.yaml", "currency: EUR\ngpu_hour: [1]\n", &[])
        .exits(2)
        .says("broken-prices.yaml:2:11: ");
    assert!(!broken.err.contains("error: error"), "{}", broken.err);
    priced("negative-prices.yaml", "h100-80g: -3\n", &[])
        .exits(2)
        .says("`h100-80g` is -3; prices cannot be negative");
}
