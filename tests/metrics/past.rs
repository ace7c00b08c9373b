//! Tests statistics of closed hours. The history is written before Prometheus starts, and every
//! number is computed independently from the written samples.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use gpuctl_sandbox::{Persona, eventually};
use serde_json::{Value, json};

use crate::support::{Run, cluster, gpuctl, near, run};

pub const HOUR: i64 = 3600;
/// Seconds between two scrapes.
const SCRAPE: i64 = 30;

/// The number on the node, and the utilization by second.
type Device = (u32, fn(i64) -> f64);
/// A measurement of a device: node, number, index of the pod, second, percent.
pub type Measured = (String, u32, usize, i64, f64);

/// A pod in the samples of kube-state-metrics. Times are seconds after the begin.
#[derive(Clone)]
struct Pod {
    namespace: &'static str,
    name: &'static str,
    /// Empty if the pod is not scheduled.
    node: &'static str,
    gpus: u64,
    owner: (&'static str, &'static str),
    team: Option<&'static str>,
    /// When the pod's object exists.
    lifetime: (i64, i64),
    /// The phases, each with the second at which it begins.
    phases: Vec<(i64, &'static str)>,
    devices: Vec<Device>,
}

impl Pod {
    fn phase(&self, at: i64) -> &'static str {
        self.phases
            .iter()
            .rev()
            .find(|(from, _)| *from <= at)
            .map_or("Pending", |(_, phase)| phase)
    }

    fn requests(&self, at: i64) -> bool {
        (self.lifetime.0..self.lifetime.1).contains(&at)
            && matches!(self.phase(at), "Pending" | "Running")
    }

    fn holds(&self, at: i64) -> bool {
        self.requests(at) && !self.node.is_empty()
    }
}

/// Whether kube-state-metrics was down.
fn is_state_missing(at: i64) -> bool {
    (HOUR + 2400..HOUR + 2700).contains(&at) || at >= 2 * HOUR
}

/// Whether the exporter of a node was down.
fn is_exporter_down(node: &str, at: i64) -> bool {
    node == "n1" && (600..900).contains(&at)
}

fn pods() -> Vec<Pod> {
    let pod = |namespace, name, node, gpus, owner, lifetime| Pod {
        namespace,
        name,
        node,
        gpus,
        owner,
        team: None,
        lifetime,
        phases: vec![(0, "Running")],
        devices: Vec::new(),
    };
    vec![
        // A job of half an hour on four devices with different utilizations.
        Pod {
            team: Some("research"),
            devices: vec![
                (0, |at| 90.0 + (at % 7) as f64),
                (1, |_| 50.0),
                (2, |at| (at % 90) as f64),
                (3, |_| 10.5),
            ],
            ..pod("ml", "bert-0", "n1", 4, ("Job", "bert"), (0, 1800))
        },
        // A service of two replicas. One moves to another node in the second hour.
        Pod {
            team: Some("web"),
            devices: vec![(0, |_| 30.0)],
            ..pod(
                "inf",
                "web-5d9-a",
                "n2",
                1,
                ("ReplicaSet", "web-5d9"),
                (0, 2 * HOUR),
            )
        },
        Pod {
            team: Some("web"),
            devices: vec![(1, |_| 70.0)],
            ..pod(
                "inf",
                "web-5d9-b",
                "n2",
                1,
                ("ReplicaSet", "web-5d9"),
                (0, HOUR + 1200),
            )
        },
        Pod {
            team: Some("web"),
            devices: vec![(0, |_| 20.0)],
            ..pod(
                "inf",
                "web-5d9-c",
                "n1",
                1,
                ("ReplicaSet", "web-5d9"),
                (HOUR + 1200, 2 * HOUR),
            )
        },
        // This pod cannot pull its image, so it holds two idle devices.
        Pod {
            phases: vec![(0, "Pending")],
            devices: vec![(2, |_| 0.0), (3, |_| 0.0)],
            ..pod("ml", "stuck", "n2", 2, ("<none>", "<none>"), (0, HOUR))
        },
        // Waits for a node.
        Pod {
            phases: vec![(0, "Pending")],
            ..pod("ml", "waits", "", 8, ("Job", "waits"), (0, HOUR))
        },
        // Ends after a quarter of an hour. Its object exists for the rest of the hour.
        Pod {
            phases: vec![(0, "Running"), (900, "Succeeded")],
            devices: vec![(4, |_| 99.0)],
            ..pod("ml", "done", "n2", 1, ("CronJobless", "done"), (0, HOUR))
        },
    ]
}

/// How the same history is exported.
#[derive(Clone, Copy, PartialEq)]
pub enum Variant {
    Plain,
    /// Labels of the scrape clash with those of the exporter, so Prometheus renames them.
    Exported,
    /// Two replicas scrape the same targets ten seconds apart.
    Twice,
    /// Metrics of AMD, without labels of pods.
    Amd,
}

/// A sample. `at` is in seconds after the begin.
pub struct Sample {
    pub series: String,
    pub at: i64,
    pub value: String,
}

/// The power of a device.
fn watts(number: u32) -> f64 {
    100.0 + 50.0 * f64::from(number)
}

/// The samples to write, and the measurements in them without garbage.
pub fn history(variant: Variant) -> (Vec<Sample>, Vec<Measured>) {
    let (mut samples, mut measured) = (Vec::new(), Vec::new());
    let is_exported = variant == Variant::Exported;
    let (namespace_label, pod_label) = if is_exported {
        ("exported_namespace", "exported_pod")
    } else {
        ("namespace", "pod")
    };
    // The target has its own `node` label. An unscheduled pod has an empty node label, which
    // Prometheus drops, so the label of the target remains.
    let node_label = if is_exported { "exported_node" } else { "node" };
    let node_suffix = |node: &str| match (node.is_empty(), is_exported) {
        (true, true) => String::new(),
        _ => format!(",{node_label}=\"{node}\""),
    };
    let target_labels = if is_exported {
        ",namespace=\"monitoring\",pod=\"exporter-x\",node=\"n2\""
    } else {
        ""
    };
    let shifts: &[(i64, &str)] = if variant == Variant::Twice {
        &[
            (0, ",prometheus_replica=\"a\""),
            (10, ",prometheus_replica=\"b\""),
        ]
    } else {
        &[(0, "")]
    };
    for (shift, replica) in shifts {
        let mut put =
            |series: String, at: i64, value: String| samples.push(Sample { series, at, value });
        for at in (0..3 * HOUR)
            .step_by(30)
            .map(|at| at + shift)
            .filter(|at| !is_state_missing(*at))
        {
            for node in ["n1", "n2"] {
                let labels = format!(
                    "{node_label}=\"{node}\",resource=\"nvidia_com_gpu\",unit=\"integer\"{target_labels}{replica}"
                );
                put(
                    format!("kube_node_status_capacity{{{labels}}}"),
                    at,
                    "8".to_owned(),
                );
                let exporter = format!(
                    "{namespace_label}=\"monitoring\",{pod_label}=\"exporter-{node}\",uid=\"x-{node}\",{node_label}=\"{node}\"{target_labels}{replica}"
                );
                put(format!("kube_pod_info{{{exporter}}}"), at, "1".to_owned());
            }
            for pod in pods()
                .iter()
                .filter(|pod| (pod.lifetime.0..pod.lifetime.1).contains(&(at - shift)))
            {
                let id = format!(
                    "{namespace_label}=\"{}\",{pod_label}=\"{}\",uid=\"uid-{}\"{target_labels}{replica}",
                    pod.namespace, pod.name, pod.name
                );
                let request = format!(
                    "{id},container=\"main\"{},resource=\"nvidia_com_gpu\",unit=\"integer\"",
                    node_suffix(pod.node)
                );
                put(
                    format!("kube_pod_container_resource_requests{{{request}}}"),
                    at,
                    pod.gpus.to_string(),
                );
                // A request for GPU memory is not a device.
                let memory = request.replace("nvidia_com_gpu", "nvidia_com_gpumem");
                put(
                    format!("kube_pod_container_resource_requests{{{memory}}}"),
                    at,
                    "4000".to_owned(),
                );
                for phase in ["Pending", "Running", "Succeeded", "Failed"] {
                    let value = i32::from(pod.phase(at - shift) == phase).to_string();
                    put(
                        format!("kube_pod_status_phase{{{id},phase=\"{phase}\"}}"),
                        at,
                        value,
                    );
                }
                let (kind, owner) = pod.owner;
                put(
                    format!(
                        "kube_pod_owner{{{id},owner_kind=\"{kind}\",owner_name=\"{owner}\",owner_is_controller=\"true\"}}"
                    ),
                    at,
                    "1".to_owned(),
                );
                if variant != Variant::Amd {
                    let team = pod
                        .team
                        .map_or(String::new(), |team| format!(",label_team=\"{team}\""));
                    put(format!("kube_pod_labels{{{id}{team}}}"), at, "1".to_owned());
                    put(
                        format!(
                            "kube_pod_annotations{{{id},annotation_cost_center=\"cc-{}\"}}",
                            pod.namespace
                        ),
                        at,
                        "1".to_owned(),
                    );
                }
            }
            let owner_labels = format!(
                "{namespace_label}=\"inf\",replicaset=\"web-5d9\",owner_kind=\"Deployment\",owner_name=\"web\",owner_is_controller=\"true\"{target_labels}{replica}"
            );
            put(
                format!("kube_replicaset_owner{{{owner_labels}}}"),
                at,
                "1".to_owned(),
            );
            let owner_labels = format!(
                "{namespace_label}=\"ml\",job_name=\"bert\",owner_kind=\"CronJob\",owner_name=\"nightly\",owner_is_controller=\"true\"{target_labels}{replica}"
            );
            put(
                format!("kube_job_owner{{{owner_labels}}}"),
                at,
                "1".to_owned(),
            );
        }
        // Devices are scraped seven seconds after kube-state-metrics.
        for (pod_index, pod) in pods().iter().enumerate() {
            for (number, utilization) in &pod.devices {
                for at in (7..2 * HOUR)
                    .step_by(30)
                    .filter(|at| pod.holds(*at) && !is_exporter_down(pod.node, *at))
                {
                    let labels = match variant {
                        Variant::Amd => format!(
                            "hostname=\"{}\",gpu_id=\"{number}\",serial_number=\"s-{}-{number}\",card_model=\"m\"",
                            pod.node, pod.node
                        ),
                        // Without the name of the host, an exporter uses the name of its pod.
                        Variant::Exported => format!(
                            "Hostname=\"exporter-{}\",gpu=\"{number}\",UUID=\"GPU-{}-{number}\",modelName=\"m\"",
                            pod.node, pod.node
                        ),
                        _ => format!(
                            "Hostname=\"{}\",gpu=\"{number}\",UUID=\"GPU-{}-{number}\",modelName=\"m\"",
                            pod.node, pod.node
                        ),
                    };
                    let target_labels = match variant {
                        Variant::Exported => {
                            format!(",namespace=\"monitoring\",pod=\"exporter-{}\"", pod.node)
                        }
                        _ => String::new(),
                    };
                    let id = format!(
                        "{{{labels},{namespace_label}=\"{}\",{pod_label}=\"{}\",container=\"main\"{target_labels}{replica}}}",
                        pod.namespace, pod.name
                    );
                    let [utilization_metric, used_metric, free_metric, power_metric] = match variant
                    {
                        Variant::Amd => [
                            "gpu_gfx_activity",
                            "gpu_used_vram",
                            "gpu_free_vram",
                            "gpu_package_power",
                        ],
                        _ => [
                            "DCGM_FI_DEV_GPU_UTIL",
                            "DCGM_FI_DEV_FB_USED",
                            "DCGM_FI_DEV_FB_FREE",
                            "DCGM_FI_DEV_POWER_USAGE",
                        ],
                    };
                    let value = utilization(at);
                    // One sample per hour is garbage.
                    let garbage = ["NaN", "9223372036854775794", "101"][(at / 30 % 3) as usize];
                    let is_garbage = at % HOUR == 307;
                    put(
                        format!("{utilization_metric}{id}"),
                        at + shift,
                        if is_garbage {
                            garbage.to_owned()
                        } else {
                            value.to_string()
                        },
                    );
                    put(
                        format!("{power_metric}{id}"),
                        at + shift,
                        watts(*number).to_string(),
                    );
                    put(
                        format!("{used_metric}{id}"),
                        at + shift,
                        (1024 * (number + 1)).to_string(),
                    );
                    put(
                        format!("{free_metric}{id}"),
                        at + shift,
                        (16_384 - 1024 * (number + 1)).to_string(),
                    );
                    if *shift == 0 && !is_garbage {
                        measured.push((pod.node.to_owned(), *number, pod_index, at, value));
                    }
                }
            }
        }
    }
    (samples, measured)
}

/// Starts a Prometheus with a variant of the history. Returns its address.
fn prometheus(name: &str, variant: Variant, begin: i64) -> String {
    store(name, history(variant).0, begin)
}

/// Starts a Prometheus with these samples. Returns its address.
pub fn store(name: &str, samples: Vec<Sample>, begin: i64) -> String {
    write(name, samples, begin);
    cluster().another_prometheus(name, &json!([])).unwrap()
}

/// Writes samples into the data folder of a Prometheus that is not started yet.
pub fn write(name: &str, samples: Vec<Sample>, begin: i64) {
    let mut by_series: BTreeMap<String, Vec<(i64, String)>> = BTreeMap::new();
    for Sample { series, at, value } in samples {
        by_series
            .entry(series)
            .or_default()
            .push((begin + at, value));
    }
    let mut text = String::new();
    for (series, mut samples) in by_series {
        samples.sort();
        for (at, value) in samples {
            writeln!(text, "{series} {value} {at}").unwrap();
        }
    }
    text.push_str("# EOF\n");
    let folder = cluster().folder();
    let file = folder.join(format!("{name}.om"));
    std::fs::write(&file, text).unwrap();
    let promtool = Command::new(cluster().binary("promtool"))
        .args(["tsdb", "create-blocks-from", "openmetrics"])
        .args([&file, &folder.join(format!("{name}-tsdb"))])
        .output()
        .unwrap();
    assert!(
        promtool.status.success(),
        "{}{}",
        String::from_utf8_lossy(&promtool.stdout),
        String::from_utf8_lossy(&promtool.stderr)
    );
}

/// Runs gpuctl with a Prometheus and a cache folder.
pub fn ask(prometheus: &str, cache: &PathBuf, arguments: &[&str]) -> Run {
    let mut command = gpuctl(cluster(), Persona::Admin);
    command
        .env("XDG_CACHE_HOME", cache)
        .args(["--prometheus", prometheus])
        .args(arguments);
    run(command, "")
}

/// Checks the times that jobs waited, started and ran, which are sums over scrapes and devices.
fn check_job_times(report: &Value, pods: &[Pod]) {
    let group = report["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|group| group["group"] == "ml")
        .unwrap();
    let step = SCRAPE as f64 / 3600.0;
    let (mut waiting, mut starting, mut running) = (0.0, 0.0, 0.0);
    // Each pod of this namespace is a separate job, and its object exists until it ends.
    for pod in pods.iter().filter(|pod| pod.namespace == "ml") {
        for at in (0..2 * HOUR)
            .step_by(SCRAPE as usize)
            .filter(|at| !is_state_missing(*at) && pod.requests(*at))
        {
            let sum = match (pod.holds(at), pod.phase(at)) {
                (false, _) => &mut waiting,
                (true, "Pending") => &mut starting,
                (true, _) => &mut running,
            };
            *sum += step * pod.gpus as f64;
        }
    }
    let jobs = &group["jobs"];
    near(&jobs["waiting_gpu_hours"], waiting);
    near(&jobs["starting_gpu_hours"], starting);
    near(&jobs["running_gpu_hours"], running);
    near(
        &jobs["effective_training_time_ratio"],
        running / (waiting + starting + running),
    );
    near(&jobs["goodput"], running / (starting + running));
    assert_eq!(
        [
            &jobs["job_count"],
            &jobs["succeeded_count"],
            &jobs["still_waiting_count"],
            &jobs["interruption_count"]
        ],
        // The waiting job was deleted after an hour, so it does not wait any longer.
        [&json!(4), &json!(1), &json!(0), &json!(0)]
    );
    // All jobs existed before the range began, so their waiting times are unknown.
    assert_eq!(jobs["queue_wait_p50_seconds"], Value::Null);
    let services = report["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|group| group["group"] == "inf")
        .unwrap();
    assert_eq!(services["jobs"], Value::Null, "a service has no end");
}

/// Asserts that the documented output of a command has the shape of the printed one, apart from
/// names, numbers and bars.
fn check_documented_output(command: &str, printed: &str) {
    let number = regex::Regex::new(r"[0-9]+(\.[0-9]+)?").unwrap();
    let span = regex::Regex::new(r"([0-9]+h )?[0-9]+[smh]\b").unwrap();
    let shape = |line: &str| -> String {
        let line = number
            .replace_all(&span.replace_all(line, "0s"), "0")
            .replace("GPUs", "GPU");
        let word = |word: &str| match word {
            "-" => "0".to_owned(),
            "Job" | "Deployment" | "StatefulSet" => "KIND".to_owned(),
            word if word.contains('/') => "NAME".to_owned(),
            word if word.chars().all(|c| ('█'..='▏').contains(&c)) => String::new(),
            word => word.to_owned(),
        };
        let mut words: Vec<String> = line
            .split_whitespace()
            .map(word)
            .filter(|word| !word.is_empty())
            .collect();
        // A row of a table begins with a name.
        if words.len() > 9 && words[1] == "0" {
            words.splice(..1, ["NAME".to_owned()]);
        }
        words.join(" ").replace(" (0 samples dropped)", "")
    };
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    let documents = page("README.md") + &page("docs/metrics.md");
    let begin = documents
        .find(&format!("$ gpuctl {command}\n"))
        .unwrap_or_else(|| panic!("the documents have no `{command}`"));
    let documented = documents[begin..].split("```").next().unwrap();
    let actual: Vec<String> = printed.lines().map(shape).collect();
    for line in documented
        .lines()
        .skip(1)
        .filter(|line| !line.trim().is_empty())
    {
        assert!(
            actual.contains(&shape(line)),
            "the documents show `{line}`, but the output is\n{printed}\n{actual:#?} without {}",
            shape(line)
        );
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// A percentile with linear interpolation.
fn percentile(values: &[f64], fraction: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let position = fraction * (sorted.len() as f64 - 1.0);
    let (below, above) = (position.floor() as usize, position.ceil() as usize);
    sorted[below] * (1.0 - position.fract()) + sorted[above] * position.fract()
}

/// The five-minute means of an hour for some pods: the mean over devices of the mean per device.
fn windows(truth: &[Measured], hour: i64, selects: &dyn Fn(usize) -> bool) -> Vec<f64> {
    let mut window_means = Vec::new();
    for window in 0..12 {
        let (from, to) = (hour * HOUR + window * 300, hour * HOUR + (window + 1) * 300);
        let mut devices: BTreeMap<(&str, u32), Vec<f64>> = BTreeMap::new();
        for (node, number, pod, at, value) in truth {
            if selects(*pod) && (from..to).contains(at) {
                devices.entry((node, *number)).or_default().push(*value);
            }
        }
        let means: Vec<f64> = devices.values().map(|values| mean(values)).collect();
        if !means.is_empty() {
            window_means.push(mean(&means));
        }
    }
    window_means
}

/// The mean number of devices held by some pods in an hour, over the scrapes of kube-state-metrics.
fn mean_held(hour: i64, selects: &dyn Fn(usize) -> bool, counts: fn(&Pod, i64) -> bool) -> f64 {
    let (mut scrapes, mut sum) = (0.0, 0.0);
    for at in (hour * HOUR..(hour + 1) * HOUR)
        .step_by(SCRAPE as usize)
        .filter(|at| !is_state_missing(*at))
    {
        scrapes += 1.0;
        for (pod_index, pod) in pods().iter().enumerate() {
            if selects(pod_index) && counts(pod, at) {
                sum += pod.gpus as f64;
            }
        }
    }
    sum / scrapes
}

#[track_caller]
fn check(row: &Value, hour: i64, truth: &[Measured], selects: &dyn Fn(usize) -> bool) {
    near(
        &row["allocated_gpu_count"],
        mean_held(hour, selects, Pod::holds),
    );
    let means = windows(truth, hour, selects);
    assert_eq!(row["sample_count"], means.len(), "{row:#}");
    let samples: Vec<f64> = truth
        .iter()
        .filter(|(_, _, pod, at, _)| selects(*pod) && at / HOUR == hour)
        .map(|(.., value)| *value)
        .collect();
    assert_eq!(row["device_sample_count"], samples.len());
    if means.is_empty() {
        assert!(
            row["avg_utilization"].is_null()
                && row["max_utilization"].is_null()
                && row["p50_utilization"].is_null()
        );
        return;
    }
    near(&row["avg_utilization"], mean(&means));
    near(
        &row["max_utilization"],
        means.iter().copied().fold(f64::MIN, f64::max),
    );
    near(
        &row["min_utilization"],
        means.iter().copied().fold(f64::MAX, f64::min),
    );
    near(&row["p50_utilization"], percentile(&means, 0.5));
    near(&row["p95_utilization"], percentile(&means, 0.95));
    near(&row["device_p50_utilization"], percentile(&samples, 0.5));
    near(&row["device_p95_utilization"], percentile(&samples, 0.95));
}

/// The begin of an earlier hour, in Unix seconds.
pub fn hours_ago(hours: i64) -> i64 {
    (unix_now() / HOUR - hours) * HOUR
}

pub fn unix_now() -> i64 {
    i64::try_from(
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_secs(),
    )
    .unwrap()
}

pub fn rows(list: &Value) -> &Vec<Value> {
    list.as_array().unwrap()
}

#[test]
fn closed_hours_are_exact_and_equal_in_every_variant() {
    let begin = hours_ago(6);
    let (start, end) = (begin.to_string(), (begin + 3 * HOUR).to_string());
    let span = [
        "--start",
        start.as_str(),
        "--end",
        end.as_str(),
        "-o",
        "json",
    ];
    let truth = history(Variant::Plain).1;
    let plain = prometheus("past-plain", Variant::Plain, begin);
    let cache = cluster().folder().join("past-cache");
    let stats = |arguments: &[&str]| {
        ask(&plain, &cache, &[&["stats"], arguments, &span[..]].concat())
            .ok()
            .json()
    };
    let pods = pods();

    let list = stats(&["cluster"]);
    assert_eq!(rows(&list).len(), 3);
    for hour in 0..2 {
        let row = &list[hour as usize];
        check(row, hour, &truth, &|_| true);
        near(
            &row["allocation_rate"],
            mean_held(hour, &|_| true, Pod::holds) / 16.0 * 100.0,
        );
        assert_eq!(
            (&row["total_gpu_capacity"], &row["partial"]),
            (&json!(16), &json!(false))
        );
        let end = timestamp(begin + (hour + 1) * HOUR).unwrap();
        assert_eq!(
            (&row["created_at"], &row["updated_at"]),
            (&json!(end), &json!(end)),
            "a closed hour has the time of its end"
        );
        assert_eq!(row["dropped_sample_count"].as_u64().unwrap() > 0, hour < 2);
    }
    // Over 120 scrapes: 4 devices for half of the hour, 2 + 1 + 1 for all of it, 1 for a quarter.
    near(&list[0]["allocated_gpu_count"], 2.0 + 4.0 + 0.25);
    // The third hour has no data, so its values are null and not zero.
    for key in [
        "total_gpu_capacity",
        "allocated_gpu_count",
        "allocation_rate",
        "avg_utilization",
        "p95_utilization",
    ] {
        assert!(list[2][key].is_null(), "{key}: {:#}", list[2]);
    }
    assert_eq!(list[2]["sample_count"], 0);

    let list = stats(&["namespaces"]);
    let names: Vec<(&str, &str)> = rows(&list)
        .iter()
        .map(|row| {
            (
                row["stat_hour"].as_str().unwrap(),
                row["namespace"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        names.iter().map(|(_, name)| *name).collect::<Vec<_>>(),
        ["inf", "ml", "inf"]
    );
    for (row, (hour, name)) in rows(&list).iter().zip([(0, "inf"), (0, "ml"), (1, "inf")]) {
        check(row, hour, &truth, &|pod_index| {
            pods[pod_index].namespace == name
        });
    }
    assert_eq!(
        (
            &list[0]["active_workload_count"],
            &list[1]["active_workload_count"]
        ),
        (&json!(1), &json!(3))
    );
    let selected = stats(&["namespaces", "-n", "inf"]);
    assert_eq!((rows(&selected).len(), &selected[0]), (2, &list[0]));

    let list = stats(&[
        "labels",
        "--dimension-type",
        "label",
        "--dimension-key",
        "team",
    ]);
    let expected_rows: Vec<(&str, i64)> = vec![("research", 0), ("web", 0), ("web", 1)];
    assert_eq!(rows(&list).len(), 3);
    for (row, (team, hour)) in rows(&list).iter().zip(expected_rows) {
        assert_eq!(
            (
                &row["dimension_value"],
                &row["dimension_key"],
                &row["dimension_type"]
            ),
            (&json!(team), &json!("team"), &json!("label"))
        );
        check(row, hour, &truth, &|pod_index| {
            pods[pod_index].team == Some(team)
        });
    }
    let list = stats(&[
        "labels",
        "--dimension-type",
        "annotation",
        "--dimension-key",
        "cost-center",
        "--dimension-value",
        "cc-ml",
    ]);
    assert_eq!(rows(&list).len(), 1);
    check(&list[0], 0, &truth, &|pod_index| {
        pods[pod_index].namespace == "ml"
    });

    // Workloads by their top owner, with statistics over the samples of their devices.
    let page = stats(&["workloads", "--order-direction", "asc"]);
    assert_eq!(
        (
            &page["total"],
            &page["page"],
            &page["page_size"],
            &page["total_pages"]
        ),
        (&json!(6), &json!(1), &json!(20), &json!(1))
    );
    let workload = |name: &str, hour: i64| {
        let is_searched = |row: &&Value| {
            row["workload_name"] == name
                && row["stat_hour"].as_str() == timestamp(begin + hour * HOUR).as_deref()
        };
        rows(&page["data"])
            .iter()
            .find(is_searched)
            .unwrap_or_else(|| panic!("{name} {hour}: {page:#}"))
    };
    for (name, kind, hour, places, status) in [
        ("nightly", "CronJob", 0, vec![0], "Running"),
        ("web", "Deployment", 0, vec![1, 2], "Running"),
        ("web", "Deployment", 1, vec![1, 2, 3], "Running"),
        ("stuck", "Pod", 0, vec![4], "Pending"),
        ("waits", "Job", 0, vec![5], "Pending"),
        ("done", "CronJobless", 0, vec![6], "Completed"),
    ] {
        let row = workload(name, hour);
        let selects = |pod_index: usize| places.contains(&pod_index);
        assert_eq!(
            (
                &row["workload_type"],
                &row["workload_status"],
                &row["owner_name"]
            ),
            (&json!(kind), &json!(status), &json!(name))
        );
        near(
            &row["allocated_gpu_count"],
            mean_held(hour, &selects, Pod::holds),
        );
        near(
            &row["requested_gpu_count"],
            mean_held(hour, &selects, Pod::requests),
        );
        let samples: Vec<f64> = truth
            .iter()
            .filter(|(_, _, pod, at, _)| selects(*pod) && at / HOUR == hour)
            .map(|(.., value)| *value)
            .collect();
        assert_eq!(row["sample_count"], samples.len());
        if !samples.is_empty() {
            near(&row["avg_utilization"], mean(&samples));
            near(&row["p50_utilization"], percentile(&samples, 0.5));
            near(&row["p95_utilization"], percentile(&samples, 0.95));
            near(&row["avg_gpu_memory_total"], 16.0);
        }
        assert_eq!(
            row.get("owner_uid"),
            Some(&Value::Null),
            "the owner does not exist anymore"
        );
    }
    // The mean of 1, 2, 3 and 4 GiB; every device has the same number of samples.
    near(&workload("nightly", 0)["avg_gpu_memory_used"], 2.5);
    near(&workload("nightly", 0)["max_gpu_memory_used"], 4.0);
    assert_eq!(
        (
            &workload("web", 1)["max_replica_count"],
            &workload("web", 1)["min_replica_count"]
        ),
        (&json!(2), &json!(2))
    );
    assert_eq!(
        workload("nightly", 0)["labels"],
        json!({"team": "research"})
    );
    assert_eq!(
        workload("nightly", 0)["annotations"],
        json!({"cost_center": "cc-ml"})
    );
    let best = stats(&[
        "workloads",
        "--order-by",
        "utilization",
        "--order-direction",
        "desc",
        "--page-size",
        "2",
    ]);
    assert_eq!(
        (&best["data"][0]["workload_name"], &best["total_pages"]),
        (&json!("done"), &json!(3))
    );
    let last = stats(&[
        "workloads",
        "--order-by",
        "utilization",
        "--page",
        "3",
        "--page-size",
        "2",
    ]);
    assert_eq!(
        last["data"][1]["workload_name"], "waits",
        "unknown values sort last"
    );
    assert_eq!(
        stats(&[
            "workloads",
            "--workload-type",
            "deployment",
            "--workload-name",
            "web"
        ])["total"],
        2
    );

    // Snapshots of the held devices every five minutes.
    let list = ask(
        &plain,
        &cache,
        &[
            "snapshot",
            "list",
            "--start",
            &(begin + 300).to_string(),
            "--end",
            &(begin + 2 * HOUR).to_string(),
            "-o",
            "json",
        ],
    )
    .ok()
    .json();
    assert_eq!(rows(&list).len(), 24);
    for (index, row) in rows(&list).iter().enumerate() {
        let at = (index as i64 + 1) * 300;
        // The last scrape before the snapshot, which can be before the gap of kube-state-metrics.
        let scrape = (0..at)
            .rev()
            .find(|at| at % SCRAPE == 0 && !is_state_missing(*at))
            .unwrap();
        let all: u64 = pods
            .iter()
            .filter(|pod| pod.holds(scrape))
            .map(|pod| pod.gpus)
            .sum();
        let expected = if at - scrape > 300 {
            Value::Null
        } else {
            json!(all)
        };
        assert_eq!(
            (&row["allocated_gpu_count"], &row["allocation_details"]),
            (&expected, &json!({})),
            "{at}: {row:#}"
        );
    }
    let at = (begin + 1200).to_string();
    let details = ask(
        &plain,
        &cache,
        &[
            "snapshot",
            "list",
            "--start",
            &at,
            "--end",
            &at,
            "--details",
            "--annotation",
            "cost-center",
            "-o",
            "json",
        ],
    )
    .ok()
    .json();
    let ml = &details[0]["allocation_details"]["namespaces"]["ml"];
    assert_eq!(
        (&ml["allocated_gpu"], &ml["workload_count"]),
        (&json!(6), &json!(2))
    );
    let fourth_window = |selects: &dyn Fn(usize) -> bool| windows(&truth, 0, selects)[3];
    near(
        &ml["utilization"],
        fourth_window(&|pod_index| pods[pod_index].namespace == "ml"),
    );
    assert_eq!(
        details[0]["allocation_details"]["annotations"]["cc-inf"]["allocated_gpu"],
        2
    );

    // Accounts: held hours and their measurements, in steps of thirty seconds.
    let account = |by: &str| {
        ask(
            &plain,
            &cache,
            &[
                "report", "--by", by, "--from", &start, "--to", &end, "-o", "json",
            ],
        )
        .ok()
    };
    let report = account("namespace")
        .says("1 of 3 hours have no kube-state-metrics data")
        .says("no samples for 1.1 of 3.0 hours")
        .json();
    let step = SCRAPE as f64 / 3600.0;
    // The pods of the second hour existed before and after the five minutes without
    // kube-state-metrics, so they held their devices in between too.
    assert_eq!(rows(&report["items"]).len(), 2);
    for (group, namespace) in rows(&report["items"]).iter().zip(["inf", "ml"]) {
        assert_eq!(group["group"], namespace);
        let selects = |pod_index: usize| pods[pod_index].namespace == namespace;
        let gpu_hours = |counts: fn(&Pod, i64) -> bool| -> f64 {
            let gpus_at = |at: i64| {
                pods.iter()
                    .filter(|pod| pod.namespace == namespace && counts(pod, at))
                    .map(|pod| pod.gpus as f64)
                    .sum::<f64>()
            };
            (0..2 * HOUR)
                .step_by(SCRAPE as usize)
                .map(gpus_at)
                .sum::<f64>()
                * step
        };
        let held = gpu_hours(Pod::holds);
        near(&group["held_gpu_hours"], held);
        near(&group["waited_gpu_hours"], gpu_hours(Pod::requests) - held);
        let values: Vec<f64> = truth
            .iter()
            .filter(|(_, _, pod, ..)| selects(*pod))
            .map(|(.., value)| *value)
            .collect();
        let (measured, used) = (
            values.len() as f64 * step,
            values.iter().sum::<f64>() / 100.0 * step,
        );
        near(&group["used_gpu_hours"], used);
        near(&group["wasted_gpu_hours"], measured - used);
        near(&group["unknown_gpu_hours"], held - measured);
        // Two pods with one device each for 300 s: 2 · 300 / 3600.
        let bridged = if namespace == "inf" {
            600.0 / 3600.0
        } else {
            0.0
        };
        near(&group["bridged_gpu_hours"], bridged);
        near(&group["utilization"], used / measured * 100.0);
        // Energy includes samples whose utilization is garbage.
        let mut joules = 0.0;
        for pod in pods.iter().filter(|pod| pod.namespace == namespace) {
            for (number, _) in &pod.devices {
                let times = (7..2 * HOUR)
                    .step_by(SCRAPE as usize)
                    .filter(|at| pod.holds(*at) && !is_exporter_down(pod.node, *at));
                joules += times.count() as f64 * watts(*number) * SCRAPE as f64;
            }
        }
        near(&group["energy_kwh"], joules / 3_600_000.0);
    }
    near(
        &report["sum"]["held_gpu_hours"],
        report["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|group| group["held_gpu_hours"].as_f64().unwrap())
            .sum(),
    );
    let teams = account("team").json();
    assert_eq!(
        rows(&teams["items"])
            .iter()
            .map(|group| group["group"].clone())
            .collect::<Vec<_>>(),
        [Value::Null, json!("research"), json!("web")]
    );
    near(
        &teams["sum"]["held_gpu_hours"],
        report["sum"]["held_gpu_hours"].as_f64().unwrap(),
    );
    let prices = crate::support::file("prices.yaml", "currency: EUR\ngpu_hour: 2\nkwh: 0.5\n");
    let priced_report = ask(
        &plain,
        &cache,
        &[
            "report",
            "--by",
            "team",
            "--from",
            &start,
            "--to",
            &end,
            "--prices",
            prices.to_str().unwrap(),
            "-o",
            "json",
        ],
    )
    .ok()
    .json();
    let web = &priced_report["items"][2];
    near(
        &web["cost"],
        web["held_gpu_hours"].as_f64().unwrap() * 2.0 + web["energy_kwh"].as_f64().unwrap() * 0.5,
    );
    let wrong = crate::support::file("wrong-prices.yaml", "gpu_hours: 2\n");
    ask(
        &plain,
        &cache,
        &["report", "--prices", wrong.to_str().unwrap()],
    )
    .exits(2)
    .says("unknown field `gpu_hours`");
    check_job_times(&account("namespace").json(), &pods);
    let ettr = ask(
        &plain,
        &cache,
        &["report", "--ettr", "--from", &start, "--to", &end],
    )
    .ok()
    .says("without --checkpoint");
    assert!(
        ettr.out.starts_with("GROUP ") && ettr.out.contains("GOODPUT"),
        "{}",
        ettr.out
    );
    // Budgets, and groups by two keys.
    let budget = cluster().folder().join("budget.yaml");
    std::fs::write(
        &budget,
        "groups:\n  ml: {gpu_hours: 10}\n  idle: {gpu_hours: 5, cost: 3}\ndefault: {cost: 1}\ntotal: {gpu_hours: 9}\n",
    )
    .unwrap();
    let (budget, priced) = (budget.to_str().unwrap(), prices.to_str().unwrap());
    let budgeted = [
        "report", "--from", &start, "--to", &end, "--budget", budget, "-o", "json",
    ];
    ask(&plain, &cache, &budgeted)
        .exits(2)
        .says("the budget limits costs, but no prices are set")
        .says("--prices FILE");
    let budget_report = ask(
        &plain,
        &cache,
        &[&budgeted[..], &["--prices", priced]].concat(),
    )
    .ok()
    .json();
    let group = |name: &str| {
        budget_report["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|group| group["group"] == name)
            .unwrap()
            .clone()
    };
    near(
        &group("ml")["budget"]["gpu_hours_left"],
        10.0 - group("ml")["held_gpu_hours"].as_f64().unwrap(),
    );
    assert_eq!(group("ml")["budget"]["cost"], Value::Null);
    near(
        &group("inf")["budget"]["cost_left"],
        1.0 - group("inf")["cost"].as_f64().unwrap(),
    );
    assert_eq!(
        group("idle")["budget"],
        json!({"gpu_hours": 5.0, "gpu_hours_left": 5.0, "cost": 3.0, "cost_left": 3.0})
    );
    near(
        &budget_report["sum"]["budget"]["gpu_hours_left"],
        9.0 - budget_report["sum"]["held_gpu_hours"].as_f64().unwrap(),
    );
    let both = ask(
        &plain,
        &cache,
        &[
            "report",
            "--group",
            "namespace,team",
            "--from",
            &start,
            "--to",
            &end,
            "-o",
            "json",
        ],
    )
    .ok()
    .json();
    let names: Vec<&str> = both["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|group| group["group"].as_str())
        .collect();
    assert_eq!(names, ["inf, web", "ml, (none)", "ml, research"]);
    assert_eq!(
        both["items"][2]["keys"],
        json!({"namespace": "ml", "team": "research"})
    );
    let markdown = ask(
        &plain,
        &cache,
        &["report", "--from", &start, "--to", &end, "-o", "markdown"],
    )
    .ok()
    .out;
    assert!(
        markdown.contains("| inf       |     - |") && markdown.contains("| **total** |"),
        "{markdown}"
    );

    // A deleted workload: its devices, and advice.
    let eff = |arguments: &[&str]| {
        ask(
            &plain,
            &cache,
            &[&["eff"], arguments, &["--start", "12h", "-o", "json"]].concat(),
        )
    };
    let web = eff(&["web"]).ok().json();
    assert_eq!(
        (&web["namespace"], &web["kind"], &web["wait_seconds"]),
        (&json!("inf"), &json!("Deployment"), &json!(0.0))
    );
    near(
        &web["held_gpu_hours"],
        rows(&report["items"])[0]["held_gpu_hours"]
            .as_f64()
            .unwrap(),
    );
    near(
        &web["used_gpu_hours"],
        rows(&report["items"])[0]["used_gpu_hours"]
            .as_f64()
            .unwrap(),
    );
    let device = |name: &str| {
        rows(&web["devices"])
            .iter()
            .find(|device| {
                format!(
                    "{}/{}",
                    device["node"].as_str().unwrap(),
                    device["device"].as_str().unwrap()
                ) == name
            })
            .unwrap()
    };
    near(&device("n2/gpu-0")["utilization"], 30.0);
    near(&device("n2/gpu-1")["utilization"], 70.0);
    near(&device("n1/gpu-0")["utilization"], 20.0);
    near(&device("n2/gpu-1")["power_watts"], 150.0);
    assert_eq!(
        (
            &device("n2/gpu-1")["memory_peak_gib"],
            &device("n2/gpu-1")["memory_total_gib"]
        ),
        (&json!(2.0), &json!(16.0))
    );
    assert_eq!(rows(&web["advice"])[0]["kind"], "straggler");
    let stuck = eff(&["ml/stuck"]).ok().json();
    near(&stuck["held_gpu_hours"], 2.0);
    near(&stuck["used_gpu_hours"], 0.0);
    let waits = eff(&["waits"]).ok().json();
    assert_eq!(
        (
            &waits["held_gpu_hours"],
            &waits["wait_seconds"],
            &waits["from"]
        ),
        (&json!(0.0), &json!(3600.0), &Value::Null)
    );
    assert!(waits["utilization"].is_null() && waits["energy_kwh"].is_null());
    eff(&["nobody"])
        .exits(4)
        .says("`nobody` has held no GPUs since 12h");
    eff(&["web", "-n", "ml"])
        .exits(4)
        .says("`web` in ml has held no GPUs");
    near(
        &eff(&["inf/Deployment/web"]).ok().json()["held_gpu_hours"],
        web["held_gpu_hours"].as_f64().unwrap(),
    );
    let text = ask(&plain, &cache, &["eff", "web", "--start", "12h"])
        .ok()
        .out;
    assert!(
        text.contains("inf/web") && text.contains("GPU-hours") && text.contains("advice"),
        "{text}"
    );
    let text = ask(&plain, &cache, &["eff", "ml/stuck", "--start", "12h"])
        .ok()
        .out
        + &text;
    check_documented_output("eff qwen2-7b-sft", &text);
    let text = ask(&plain, &cache, &["report", "--from", &start, "--to", &end])
        .ok()
        .out;
    check_documented_output("report --start 1h", &text);

    // Lists at an earlier time, and the holder of a device.
    let ask_at = |arguments: &[&str], second: i64| {
        let at = (begin + second).to_string();
        ask(
            &plain,
            &cache,
            &[arguments, &["--at", &at, "-o", "json"]].concat(),
        )
    };
    let nodes = ask_at(&["get", "nodes"], 600).ok().json();
    assert_eq!(
        (&nodes["total"], &nodes["items"][0]["nodeName"]),
        (&json!(2), &json!("n1"))
    );
    assert_eq!(
        (
            &nodes["items"][0]["gpuTotal"],
            &nodes["items"][0]["gpuUsed"],
            &nodes["items"][0]["gpuFree"]
        ),
        (&json!(8), &json!(4), &json!(4))
    );
    // The window of 300 to 600 s, with the devices of n1.
    near(
        &nodes["items"][0]["gpuUtilization"],
        windows(&truth, 0, &|pod_index| pods[pod_index].node == "n1")[1],
    );
    let jobs = ask_at(&["get", "jobs"], 600).ok().json();
    let names: Vec<&str> = rows(&jobs["items"])
        .iter()
        .map(|job| job["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["web", "nightly", "done", "waits", "stuck"]);
    let job = |name: &str| {
        rows(&jobs["items"])
            .iter()
            .find(|job| job["name"] == name)
            .unwrap()
    };
    assert_eq!(
        (
            &job("waits")["status"],
            &job("waits")["gpu"],
            &job("waits")["gpuHeld"]
        ),
        (&json!("pending"), &json!(8), &json!(0))
    );
    assert_eq!(
        (
            &job("web")["status"],
            &job("web")["gpuHeld"],
            &job("web")["podsRunning"]
        ),
        (&json!("running"), &json!(2), &json!(2))
    );
    assert_eq!(
        ask_at(&["get", "jobs", "-n", "inf"], 600).ok().json()["total"],
        1
    );
    let nowhere = ["-n", "inff"];
    for run in [
        ask_at(&[&["get", "jobs"], &nowhere[..]].concat(), 600),
        ask(
            &plain,
            &cache,
            &[&["snapshot", "list"], &nowhere[..], &span].concat(),
        ),
        ask(
            &plain,
            &cache,
            &[&["stats", "cluster"], &nowhere[..], &span].concat(),
        ),
    ] {
        run.exits(4).says("namespace `inff` does not exist");
    }
    assert_eq!(
        rows(&ask_at(&["get", "jobs"], 3000).ok().json()["items"]).len(),
        3,
        "two jobs have ended"
    );
    ask_at(&["get", "nodes"], 3 * HOUR)
        .exits(4)
        .says("has no data about pods for that time");
    ask(
        &plain,
        &cache,
        &["get", "nodes", "--at", "2100-01-01T00:00:00Z"],
    )
    .exits(2)
    .says("is in the future");
    let holder = ask_at(&["who", "gpu", "n1/1"], 600).ok().json();
    assert_eq!(
        (
            &holder["holders"][0]["pod"],
            &holder["holders"][0]["workload"],
            &holder["utilization"]
        ),
        (&json!("bert-0"), &json!("nightly"), &json!(50.0))
    );
    // The exporter of n1 was down for these five minutes, so the holder is only a guess.
    let holder = ask_at(&["who", "gpu", "n1/1"], 900).ok().json();
    assert_eq!(
        (
            &holder["holders"],
            &holder["possibleHolders"][0]["pod"],
            &holder["utilization"]
        ),
        (&json!([]), &json!("bert-0"), &Value::Null)
    );
    let holder = ask_at(&["who", "gpu", "n1/1"], 3000).ok().json();
    assert_eq!(
        (&holder["holders"], &holder["possibleHolders"]),
        (&json!([]), &json!([]))
    );
    ask_at(&["who", "gpu", "n1/9"], 600)
        .exits(4)
        .says("this GPU did not exist at that time");
    ask_at(&["who", "gpu", "n1"], 600).exits(2);
    let at = (begin + 600).to_string();
    let holder_text = ask(&plain, &cache, &["who", "gpu", "n1/1", "--at", &at])
        .ok()
        .out;
    assert!(
        holder_text.contains("ml/bert-0 (CronJob nightly), 50% busy"),
        "{holder_text}"
    );
    let table = ask(&plain, &cache, &["get", "nodes", "--at", &at]).ok().out;
    assert!(
        table.contains("ml/bert-0") && table.contains("inf/web-5d9-a"),
        "{table}"
    );

    // Other variants of the history give the same rows.
    let compared_rows = |prometheus: &str, cache: &PathBuf| -> Vec<Value> {
        let query = |arguments: &[&str]| {
            ask(
                prometheus,
                cache,
                &[&["stats"], arguments, &span[..]].concat(),
            )
            .ok()
            .json()
        };
        // Every replica counts its garbage.
        let mut cluster = query(&["cluster"]);
        for row in cluster.as_array_mut().unwrap() {
            row.as_object_mut().unwrap().remove("dropped_sample_count");
        }
        vec![
            cluster,
            query(&["namespaces"]),
            query(&["labels", "--dimension-key", "team"]),
            query(&["workloads"]),
        ]
    };
    let expected = compared_rows(&plain, &cache);
    for (name, variant) in [
        ("past-exported", Variant::Exported),
        ("past-twice", Variant::Twice),
        ("past-amd", Variant::Amd),
    ] {
        let actual = compared_rows(&prometheus(name, variant, begin), &cache);
        if variant == Variant::Amd {
            assert_eq!(actual[..2], expected[..2], "{name}");
            assert_eq!(actual[2], json!([]), "kube-state-metrics serves no labels");
            let first = &actual[3]["data"][0];
            assert!(
                first["labels"].is_null()
                    && first["annotations"].is_null()
                    && first["avg_utilization"] == expected[3]["data"][0]["avg_utilization"]
            );
        } else {
            assert_eq!(actual, expected, "{name}");
        }
    }

    // Two runs without the cache give the same bytes.
    let fresh = || {
        ask(
            &plain,
            &cache,
            &[&["stats", "workloads", "--no-cache"], &span[..]].concat(),
        )
        .ok()
        .out
    };
    assert_eq!(fresh(), fresh());
    let query = |arguments: &[&str]| {
        ask(
            &plain,
            &cache,
            &[arguments, &span[..4], &["-o", "json"]].concat(),
        )
        .ok()
        .json()
    };
    assert_eq!(
        rows(&query(&[
            "stats",
            "labels",
            "--dimension-key",
            "team",
            "-n",
            "ml"
        ]))
        .len(),
        1
    );
    ask(&plain, &cache, &["stats", "cluster", "--all-contexts"])
        .exits(2)
        .says("cannot be combined with a single Prometheus address");
    ask(&plain, &cache, &["stats", "cluster", "--start", "0"])
        .exits(2)
        .says("longer than two years");
    // Requests with other headers have separate cache entries.
    let header = [
        "--prometheus-header",
        "X-Scope-OrgID: other",
        "stats",
        "cluster",
    ];
    let entries_before = std::fs::read_dir(cache.join("gpuctl/history"))
        .unwrap()
        .count();
    ask(&plain, &cache, &[&header[..], &span[..]].concat()).ok();
    assert_eq!(
        std::fs::read_dir(cache.join("gpuctl/history"))
            .unwrap()
            .count(),
        entries_before + 2
    );

    // Closed hours are cached: without Prometheus gpuctl prints the same bytes.
    let csv = |cache: &PathBuf| {
        ask(
            &plain,
            cache,
            &[
                &["stats", "workloads", "--page-size", "1000"],
                &span[..4],
                &["-o", "csv"],
            ]
            .concat(),
        )
        .ok()
        .out
    };
    let text = csv(&cache);
    assert_eq!(text.lines().count(), 7);
    let closed_end = (begin + 2 * HOUR).to_string();
    let range = ["--start", &start, "--end", &closed_end, "-o", "json"];
    let closed = [&["stats", "namespaces"], &range[..]].concat();
    // The cache distinguishes the nodes of the cluster, and other tests add nodes.
    let fixed_nodes = cluster().with_fixed_nodes();
    let online = ask(&plain, &cache, &closed).ok().json();
    cluster().stop("past-plain").unwrap();
    let offline = ask(&plain, &cache, &closed).ok().json();
    drop(fixed_nodes);
    assert_eq!((&offline, &online), (&expected[1], &expected[1]));
    ask(
        &plain,
        &cache,
        &[&["stats", "cluster", "--no-cache"], &span[..]].concat(),
    )
    .exits(6);
    ask(
        &plain,
        &cluster().folder().join("no-cache-yet"),
        &[&["stats", "cluster"], &span[..]].concat(),
    )
    .exits(6);
    cluster().start_again("past-plain").unwrap();
    let address = plain.trim_start_matches("http://");
    eventually(
        "Prometheus accepts connections",
        Duration::from_secs(40),
        || std::net::TcpStream::connect(address).is_ok(),
    );
    let complete = stats(&["cluster"]);
    // Cache files truncated by a killed writer, or from another version, are ignored.
    let files: Vec<PathBuf> = std::fs::read_dir(cache.join("gpuctl/history"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(files.len() > 6);
    for (index, file) in files.iter().enumerate() {
        let text = std::fs::read_to_string(file).unwrap();
        let broken = if index % 2 == 0 {
            text[..text.len() / 2].to_owned()
        } else {
            text.replace("\"version\":\"", "\"version\":\"0.0.")
        };
        std::fs::write(file, broken.replace("16", "17")).unwrap();
    }
    let runs: Vec<_> = (0..4)
        .map(|_| {
            let mut command = gpuctl(cluster(), Persona::Admin);
            command
                .env("XDG_CACHE_HOME", &cache)
                .args(["--prometheus", &plain, "stats", "cluster"])
                .args(span);
            command
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for child in runs {
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            serde_json::from_slice::<Value>(&output.stdout).unwrap(),
            complete
        );
    }
    assert_eq!(csv(&cache), text);

    // Names in the history.
    let list = |arguments: &[&str]| {
        ask(
            &plain,
            &cache,
            &[arguments, &["--since", "12h", "-o", "json"]].concat(),
        )
        .ok()
        .json()
    };
    assert_eq!(list(&["get", "namespaces"]), json!(["inf", "ml"]));
    ask(
        &plain,
        &cache,
        &["get", "namespaces", "--start", "yesterday"],
    )
    .ok();
    assert_eq!(list(&["get", "dimension-keys"]), json!(["team"]));
    assert_eq!(
        list(&["get", "dimension-keys", "--type", "annotation"]),
        json!(["cost_center"])
    );
    assert_eq!(
        list(&["get", "dimension-values", "team"]),
        json!(["research", "web"])
    );
    let contexts = ask(&plain, &cache, &["get", "clusters", "-o", "json"])
        .ok()
        .json();
    assert_eq!(contexts, json!(["admin"]));
    // Errors without Prometheus, and with invalid times.
    let failed = ask(
        "http://127.0.0.1:1",
        &cluster().folder().join("nothing"),
        &["stats", "cluster", "-o", "json"],
    )
    .exits(6);
    assert_eq!(failed.out, "");
    ask(&plain, &cache, &["stats", "cluster", "--start", "soon"])
        .exits(2)
        .says("`soon` is not a valid time");
    ask(
        &plain,
        &cache,
        &["stats", "cluster", "--start", &end, "--end", &start],
    )
    .exits(2)
    .says("the start is after the end");
    ask(&plain, &cache, &["snapshot", "list", "--step", "7m"])
        .exits(2)
        .says("a multiple of 5m");
    ask(&plain, &cache, &["snapshot", "latest"])
        .exits(4)
        .says("has no data about pods");
    let distinct: BTreeSet<u64> = expected
        .iter()
        .take(3)
        .flat_map(rows)
        .map(|row| row["id"].as_u64().unwrap())
        .collect();
    assert_eq!(distinct.len(), 9, "every row has its own id");
}

/// A Unix time in the format of the JSON output.
pub fn timestamp(second: i64) -> Option<String> {
    let output = Command::new("date")
        .args(["-u", "-d", &format!("@{second}"), "+%Y-%m-%dT%H:%M:%SZ"])
        .output()
        .ok()?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
