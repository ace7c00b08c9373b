//! Tests GPU-hours if kube-state-metrics was not scraped for a third of the time, at three
//! different intervals, and of a pod with a sidecar.

use serde_json::{Value, json};

use crate::past::{HOUR, Sample, ask, hours_ago, rows, store};
use crate::support::{cluster, near};

/// The pods: namespace, name, node, first device, GPUs of the main container, GPUs of the sidecar,
/// second of the end, and utilization.
type TornPod = (
    &'static str,
    &'static str,
    &'static str,
    i64,
    i64,
    i64,
    i64,
    f64,
);

const PODS: [TornPod; 3] = [
    ("torn", "long", "t1", 0, 8, 0, 4 * HOUR, 50.0),
    ("torn-side", "side", "t2", 0, 1, 1, 4 * HOUR, 80.0),
    ("torn-gone", "gone", "t2", 2, 2, 0, 3000, 10.0),
];

/// Whether kube-state-metrics was scraped: in the first 40 minutes of each hour, every 30, 60 and 5
/// seconds, and for a minute after three hours.
fn is_scraped(at: i64) -> bool {
    let interval = match at / HOUR {
        0 => 30,
        1 => 60,
        2 => 5,
        _ => return (3 * HOUR..3 * HOUR + 60).contains(&at) && at % 5 == 0,
    };
    at % HOUR < 2400 && at % interval == 0
}

fn history(begin: i64) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut put = |series: String, at: i64, value: String| {
        samples.push(Sample { series, at, value });
    };
    for at in (0..4 * HOUR).filter(|at| is_scraped(*at)) {
        for node in ["t1", "t2"] {
            let labels = format!("node=\"{node}\",resource=\"nvidia_com_gpu\",unit=\"integer\"");
            put(
                format!("kube_node_status_capacity{{{labels}}}"),
                at,
                "8".to_owned(),
            );
        }
        for (namespace, name, node, _, main, sidecar, end, _) in PODS {
            if at >= end {
                continue;
            }
            let id = format!("namespace=\"{namespace}\",pod=\"{name}\",uid=\"uid-{name}\"");
            let request = format!("node=\"{node}\",resource=\"nvidia_com_gpu\",unit=\"integer\"");
            put(
                format!(
                    "kube_pod_container_resource_requests{{{id},container=\"main\",{request}}}"
                ),
                at,
                main.to_string(),
            );
            if sidecar > 0 {
                let init = format!("{id},container=\"mps\"");
                put(
                    format!("kube_pod_init_container_resource_requests{{{init},{request}}}"),
                    at,
                    sidecar.to_string(),
                );
                put(
                    format!("kube_pod_init_container_info{{{init},restart_policy=\"Always\"}}"),
                    at,
                    "1".to_owned(),
                );
            }
            put(
                format!("kube_pod_status_phase{{{id},phase=\"Running\"}}"),
                at,
                "1".to_owned(),
            );
            put(
                format!("kube_pod_owner{{{id},owner_kind=\"<none>\",owner_name=\"<none>\"}}"),
                at,
                "1".to_owned(),
            );
            let created = (begin - 2 * HOUR).to_string();
            put(format!("kube_pod_created{{{id}}}"), at, created);
        }
    }
    for (namespace, name, node, first, main, sidecar, end, value) in PODS {
        for device in first..first + main + sidecar {
            for at in (7..end.min(3 * HOUR)).step_by(30) {
                let labels = format!(
                    "Hostname=\"{node}\",gpu=\"{device}\",UUID=\"GPU-{node}-{device}\",\
                     modelName=\"m\",namespace=\"{namespace}\",pod=\"{name}\",container=\"main\""
                );
                put(
                    format!("DCGM_FI_DEV_GPU_UTIL{{{labels}}}"),
                    at,
                    value.to_string(),
                );
            }
        }
    }
    samples
}

#[test]
fn gpu_hours_survive_torn_scrapes_and_include_sidecars() {
    let begin = hours_ago(6);
    let prometheus = store("torn-scrapes", history(begin), begin);
    let cache = cluster().folder().join("torn-cache");
    let (start, end) = (begin.to_string(), (begin + 3 * HOUR).to_string());
    let span = ["--start", &start, "--end", &end, "-o", "json"];
    // 20 minutes of each of the three hours. `long` and `side` existed on both sides of each gap:
    // (8 + 2) GPUs · 1 h. `gone` was seen before the first gap only: 2 GPUs · 20 min.
    let report = ask(&prometheus, &cache, &[&["report"], &span[..]].concat())
        .ok()
        .says("no samples for 1.0 of 3.0 hours")
        .says("HELD contains 10.0 GPU-hours")
        .says("HELD lacks up to 0.7 GPU-hours")
        .json();
    let group = |name: &str| -> &Value {
        let mut groups = rows(&report["items"]).iter();
        groups.find(|group| group["group"] == name).unwrap()
    };
    let long = group("torn");
    // 8 GPUs for 3 h at 50 %.
    near(&long["held_gpu_hours"], 24.0);
    near(&long["used_gpu_hours"], 12.0);
    near(&long["unknown_gpu_hours"], 0.0);
    near(&long["bridged_gpu_hours"], 8.0);
    near(&long["unseen_gpu_hours"], 0.0);
    near(&long["coverage_percent"], 100.0);
    // One GPU of the main container and one of the sidecar for 3 h at 80 %.
    let side = group("torn-side");
    near(&side["held_gpu_hours"], 6.0);
    near(&side["used_gpu_hours"], 4.8);
    // 2 GPUs were seen for 40 min, and may have been held for 20 min more: 4/3 of 2 GPU-hours.
    let gone = group("torn-gone");
    near(&gone["held_gpu_hours"], 4.0 / 3.0);
    near(&gone["unseen_gpu_hours"], 2.0 / 3.0);
    near(&gone["coverage_percent"], 200.0 / 3.0);
    near(&report["sum"]["held_gpu_hours"], 24.0 + 6.0 + 4.0 / 3.0);

    let eff = ask(
        &prometheus,
        &cache,
        &[&["eff", "torn-side/side"], &span[..]].concat(),
    )
    .ok()
    .says("the workload began at")
    .json();
    near(&eff["held_gpu_hours"], 6.0);
    near(&eff["used_gpu_hours"], 4.8);
    near(&eff["bridged_gpu_hours"], 2.0);
    assert_ne!(eff["began_before_range"], Value::Null);
    assert_eq!(eff["samples_dropped"], json!(0));
    // Without `--start`, a workload of the last seven days is complete.
    let eff = ask(
        &prometheus,
        &cache,
        &["eff", "torn-side/side", "--end", &end, "-o", "json"],
    )
    .ok()
    .json();
    assert_eq!(eff["began_before_range"], Value::Null);
}

/// A pod of 8 GPUs for four days, sampled every five minutes. kube-state-metrics was down for most
/// of two hours after three days.
fn old_pod(begin: i64) -> Vec<Sample> {
    let down = 72 * HOUR..74 * HOUR - 600;
    let times = (0..96 * HOUR).step_by(300).filter(|at| !down.contains(at));
    let id = "namespace=\"old\",pod=\"old\",uid=\"uid-old\"";
    let device = "node=\"o1\",resource=\"nvidia_com_gpu\",unit=\"integer\"";
    let request = format!("{id},container=\"main\",{device}");
    let series = [
        (format!("kube_node_status_capacity{{{device}}}"), 8),
        (
            format!("kube_pod_container_resource_requests{{{request}}}"),
            8,
        ),
        (
            format!("kube_pod_status_phase{{{id},phase=\"Running\"}}"),
            1,
        ),
        (
            format!("kube_pod_owner{{{id},owner_kind=\"<none>\",owner_name=\"<none>\"}}"),
            1,
        ),
        (format!("kube_pod_created{{{id}}}"), begin),
    ];
    let samples = times.flat_map(|at| {
        series.iter().map(move |(series, value)| Sample {
            series: series.clone(),
            at,
            value: value.to_string(),
        })
    });
    samples.collect()
}

#[test]
fn eff_extends_its_range_to_the_creation_of_the_workload() {
    // Ten days ago, so that the default range of seven days starts in the outage.
    let begin = hours_ago(240);
    let prometheus = store("old-pod", old_pod(begin), begin);
    let cache = cluster().folder().join("old-pod-cache");
    let end = (begin + 96 * HOUR).to_string();
    let eff = ask(
        &prometheus,
        &cache,
        &["eff", "old/old", "--end", &end, "-o", "json"],
    )
    .ok()
    .json();
    // 8 GPUs · 96 h, and 8 · (2 h - 10 min) of them are bridged.
    near(&eff["held_gpu_hours"], 768.0);
    near(&eff["bridged_gpu_hours"], 8.0 * (2.0 - 1.0 / 6.0));
    assert_eq!(eff["began_before_range"], Value::Null);
    // The range of `report` starts in the outage, too.
    let start = (begin + 73 * HOUR).to_string();
    let range = ["report", "--start", &start, "--end", &end, "-o", "json"];
    let report = ask(&prometheus, &cache, &range).ok().json();
    // 23 h. 50 minutes of them have no samples.
    near(&report["sum"]["held_gpu_hours"], 8.0 * 23.0);
    near(&report["gaps"]["window_hours"], 23.0);
    near(&report["gaps"]["unobserved_hours"], 0.83);
    assert_eq!(report["gaps"]["clock_hours_without_data"], json!(0));
}
