//! Stores the same samples in Prometheus 3, Prometheus 2, VictoriaMetrics and Thanos. Every metrics
//! view must give the same answer for each store, and a store with two clusters must answer for
//! only one of them. `cargo reality` runs these tests, because the first build of the stores takes
//! minutes.
#![expect(clippy::disallowed_methods, reason = "tests read clocks")]

#[path = "../runner/mod.rs"]
mod runner;

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use gpuctl_sandbox::exporter::{Dialect, Exporter};
use gpuctl_sandbox::nodes::{in_pool, node};
use gpuctl_sandbox::{Cluster, Options, Persona, load};
use serde_json::{Value, json};

use crate::runner::{Run, finish, gpuctl, run};

const A100: (&str, &str) = ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB");
/// How long each job is scraped, in seconds.
const JOB_SECONDS: u64 = 20;

fn scrape(exporter: &Exporter) -> Value {
    json!({"job_name": "gpus", "metrics_path": format!("/metrics/{}", Dialect::Dcgm.name()),
        "static_configs": [{"targets": [exporter.address()], "labels": {"namespace": "gpu-operator", "pod": "exporter", "container": "exporter"}}]})
}

/// A cluster with two exporters: one for its own nodes, and one for another cluster's nodes.
struct Stage {
    cluster: Cluster,
    exporter: Exporter,
    foreign_exporter: Exporter,
}

impl Stage {
    fn gpuctl(&self, prometheus: &str, arguments: &[&str], input: &str) -> Run {
        let mut command = gpuctl();
        command
            .env("KUBECONFIG", self.cluster.kubeconfig(Persona::Admin))
            .env("GPUCTL_PROMETHEUS", prometheus);
        command
            .env(
                "XDG_CACHE_HOME",
                self.cluster
                    .folder()
                    .join(format!("cache-{}", prometheus.len())),
            )
            .args(arguments);
        run(command, input)
    }

    /// Runs a job while it is scraped, then deletes it.
    fn job(&self, name: &str, busy: f64) {
        self.start(name, busy);
        thread::sleep(Duration::from_secs(JOB_SECONDS));
        // End the job's series, so that Prometheus marks them as stale.
        self.exporter
            .change(|fleet| fleet.gpus.iter_mut().for_each(|gpu| gpu.pods.clear()));
        self.gpuctl("none", &["delete", "job", name, "--force"], "")
            .ok();
    }

    /// Starts a job with two pods of two devices each, at this utilization.
    fn start(&self, name: &str, busy: f64) {
        let yaml = format!(
            "kind: training\nversion: v0.1\njob: {{name: {name}}}\nenvironment: {{image: busybox, command: [train]}}\nresources: {{pool: stores, gpu: 2, node_count: 2}}\n"
        );
        self.gpuctl(
            "none",
            &["create", "-f", "-", "--wait", "--timeout", "60s"],
            &yaml,
        )
        .ok();
        let list = self.cluster.kubectl(Persona::Admin).json(&[
            "get",
            "pods",
            "-l",
            &format!("gpuctl/job={name}"),
        ]);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        self.exporter.change(|fleet| {
            for pod in list["items"].as_array().unwrap() {
                let (pod_name, node) = (
                    text(&pod["metadata"]["name"]),
                    text(&pod["spec"]["nodeName"]),
                );
                let free = fleet
                    .gpus
                    .iter_mut()
                    .filter(|gpu| gpu.node == node && gpu.pods.is_empty())
                    .take(2);
                for (gpu, index) in free.zip(0_u8..) {
                    gpu.pods = vec![("default".to_owned(), pod_name.clone(), "main".to_owned())];
                    (gpu.utilization, gpu.watts) = (busy + f64::from(index), 300.0);
                }
            }
        });
    }
}

fn seconds() -> i64 {
    jiff::Timestamp::now().as_second()
}

#[test]
fn all_stores_give_the_same_answers_for_one_cluster() {
    let options = Options {
        with_stores: true,
        ..Options::default()
    };
    let cluster = Cluster::start(&options).unwrap_or_else(|error| panic!("{error:#}"));
    let (exporter, foreign_exporter) = (Exporter::start().unwrap(), Exporter::start().unwrap());
    let nodes_named = |names: [&str; 2]| {
        names
            .map(|name| in_pool(node(name, Some(A100), &[("nvidia.com/gpu", 4)]), "stores"))
            .to_vec()
    };
    let (nodes, foreign_nodes) = (
        nodes_named(["stores-0", "stores-1"]),
        nodes_named(["elsewhere-0", "elsewhere-1"]),
    );
    cluster.add_nodes(&nodes);
    exporter.change(|fleet| fleet.gpus = load::devices(&nodes));
    exporter.change(|fleet| fleet.gpus.iter_mut().for_each(|gpu| gpu.pods.clear()));
    foreign_exporter.change(|fleet| fleet.gpus = load::devices(&foreign_nodes));
    let victoria = cluster.victoria_metrics("victoria").unwrap();
    let older = cluster.prometheus_2("older").unwrap();
    let labels = |name: &str| json!({"cluster": name, "replica": "0"});
    let prometheus = cluster
        .labelled_prometheus(
            "store-a",
            &labels("a"),
            &[scrape(&exporter)],
            &[&victoria, &older],
        )
        .unwrap();
    let other = cluster
        .labelled_prometheus("store-b", &labels("b"), &[scrape(&foreign_exporter)], &[])
        .unwrap();
    let thanos = cluster
        .thanos("thanos", &[("store-a", &prometheus)])
        .unwrap();
    let both = cluster
        .thanos("both", &[("store-a", &prometheus), ("store-b", &other)])
        .unwrap();
    let stage = Stage {
        cluster,
        exporter,
        foreign_exporter,
    };
    let begin = seconds();
    stage.job("first", 90.0);
    stage.job("second", 40.0);
    stage
        .foreign_exporter
        .change(|fleet| fleet.gpus.iter_mut().for_each(|gpu| gpu.utilization = 3.0));
    let end = seconds();
    // Remote write takes some seconds to deliver samples to the other stores.
    thread::sleep(Duration::from_secs(8));
    let (start, end) = (begin.to_string(), end.to_string());
    let span = ["--start", start.as_str(), "--end", end.as_str()];
    let stores = [
        ("older", &older),
        ("victoria", &victoria),
        ("thanos", &thanos),
        ("both", &both),
    ];
    // The hour is not over, but the devices have stopped reporting, so all stores must agree.
    let hour_start = (begin / 3600 * 3600).to_string();
    let hour = |level: &str, store: &str| {
        let mut arguments = vec![
            "stats",
            level,
            "-o",
            "json",
            "--start",
            &hour_start,
            "--no-cache",
        ];
        if level == "labels" {
            arguments.extend(["--dimension-type", "label", "--dimension-key", "gpuctl/job"]);
        }
        let rows = stage.gpuctl(store, &arguments, "").ok().json();
        let keys = [
            "avg_utilization",
            "min_utilization",
            "max_utilization",
            "device_p50_utilization",
            "device_sample_count",
            "dropped_sample_count",
            "p95_utilization",
            "sample_count",
        ];
        let row = |row: &Value| keys.map(|key| row[key].clone());
        rows.as_array()
            .or(rows["data"].as_array())
            .unwrap()
            .iter()
            .map(row)
            .collect::<Vec<_>>()
    };
    for level in ["cluster", "namespaces", "workloads", "labels"] {
        let expected = hour(level, &prometheus);
        assert!(
            expected.iter().any(|row| row[4]
                .as_u64()
                .or(row[7].as_u64())
                .is_some_and(|samples| samples > 40)),
            "{level}: {expected:?}"
        );
        for (name, store) in stores {
            assert_eq!(hour(level, store), expected, "{level}: {name}");
        }
    }
    // Expected: four devices per job, half of them at 90 and 91 %, later at 40 and 41 %, and none
    // of the other cluster's devices, which are at 3 %.
    let report = stage
        .gpuctl(&both, &[&["report", "-o", "json"], &span[..]].concat(), "")
        .ok()
        .json();
    let group = &report["items"][0];
    let (held, busy) = (
        group["held_gpu_hours"].as_f64().unwrap(),
        group["utilization"].as_f64().unwrap(),
    );
    let least = 2.0 * 4.0 * JOB_SECONDS as f64 / 3600.0;
    assert!((least * 0.8..least * 1.8).contains(&held), "{report:#}");
    assert!((58.0..73.0).contains(&busy), "{report:#}");
    let refused = stage.gpuctl(
        &both,
        &[
            "stats",
            "cluster",
            "--start",
            &hour_start,
            "--match",
            "cluster=c",
            "-o",
            "json",
            "--no-cache",
        ],
        "",
    );
    let none = refused
        .ok()
        .says("has no data about pods for this time")
        .json();
    assert!(
        none.as_array()
            .unwrap()
            .iter()
            .all(|row| row["avg_utilization"].is_null()),
        "{none:#}"
    );
    stage.start("third", 65.0);
    // The first pod also exports the training's own metrics.
    stage.exporter.change(|fleet| {
        let (_, pod, _) = fleet.gpus.iter().find_map(|gpu| gpu.pods.first()).expect("devices are held").clone();
        fleet.extra = format!(
            "# TYPE train_loss gauge\ntrain_loss{{namespace=\"default\",pod=\"{pod}\"}} 0.25\n# TYPE train_samples_per_second gauge\ntrain_samples_per_second{{namespace=\"default\",pod=\"{pod}\"}} 1250.5\n"
        );
    });
    thread::sleep(Duration::from_secs(JOB_SECONDS));
    let last = seconds().to_string();
    // Wait for remote write again.
    thread::sleep(Duration::from_secs(8));
    let span = ["--start", start.as_str(), "--end", last.as_str()];
    let mut differing = Vec::new();
    for view in HISTORIC_VIEWS {
        let arguments = [view, &span[..]].concat();
        let expected = stage.gpuctl(&prometheus, &arguments, "");
        if expected.code != 0 || expected.out.len() < 40 {
            differing.push(format!(
                "{arguments:?} has no answer: {}{}",
                expected.out, expected.err
            ));
        }
        for (name, store) in stores {
            let actual = stage.gpuctl(store, &arguments, "");
            if (actual.code, &actual.out) != (expected.code, &expected.out) {
                differing.push(format!(
                    "{name}: {arguments:?}\n{}{}",
                    lines_that_differ(&expected.out, &actual.out),
                    actual.err
                ));
            }
        }
    }
    for view in LIVE_VIEWS {
        differing.extend(different(
            &stage,
            view,
            &prometheus,
            &[
                ("older", &older),
                ("victoria", &victoria),
                ("thanos", &thanos),
            ],
        ));
    }
    differing.extend(
        stores
            .iter()
            .take(3)
            .filter_map(|(name, store)| watched(&stage, name, store)),
    );
    // VictoriaMetrics serves samples some seconds late. With one scrape per second, they are stale
    // before a bundle is complete.
    let bundled_stores = stores
        .iter()
        .take(3)
        .filter(|(name, _)| *name != "victoria");
    differing.extend(bundled_stores.filter_map(|(name, store)| bundled(&stage, name, store)));
    assert!(
        differing.is_empty(),
        "{} differ:\n{}",
        differing.len(),
        differing.join("\n")
    );
}

/// Views of a time range in the past. The output must be byte-for-byte the same for every store.
const HISTORIC_VIEWS: [&[&str]; 10] = [
    &["report", "-o", "json"],
    &["report", "-o", "csv"],
    &["report", "-o", "html"],
    &[
        "report",
        "--group",
        "namespace,user",
        "--ettr",
        "-o",
        "json",
    ],
    &["report", "--explain", "-o", "json"],
    &["eff", "first", "-o", "json"],
    &["eff", "second", "-o", "json"],
    &["get", "metrics", "workload", "third", "-o", "json"],
    &["get", "metrics", "job", "third", "-o", "json"],
    &[
        "get",
        "training-performance",
        "Job/third",
        "--step",
        "5",
        "-o",
        "json",
    ],
];

/// Views of live metrics, which depend on each store's newest sample.
const LIVE_VIEWS: [&[&str]; 20] = [
    &["get", "nodes", "--gpu-detail", "-o", "json"],
    &["get", "pools", "-o", "json"],
    &["get", "jobs", "-o", "json"],
    &["get", "consumers", "-o", "json"],
    &["get", "workloads", "-o", "json"],
    &["get", "overview", "-o", "json"],
    &["get", "heatmap", "-o", "json"],
    &["get", "health", "-o", "json"],
    &["get", "namespaces", "-o", "json"],
    &["get", "dimension-keys", "-o", "json"],
    &["describe", "node", "stores-0", "-o", "json"],
    &["describe", "job", "third", "-o", "json"],
    &["snapshot", "latest", "-o", "json"],
    &[
        "snapshot",
        "list",
        "--details",
        "--start",
        "1h",
        "-o",
        "json",
    ],
    &["who", "gpu", "stores-0/0", "-o", "json"],
    &["top", "gpus", "--once"],
    &[
        "score", "--all", "--start", "20s", "--step", "1s", "-o", "json",
    ],
    &["free", "-o", "json"],
    &["why", "third", "-o", "json"],
    &["why", "--all", "-o", "json"],
];

/// Retries until every store answers like Prometheus, because their newest samples differ. Returns
/// the differences that remain after 20 seconds, so that the test can report all views at once.
fn different(
    stage: &Stage,
    view: &[&str],
    prometheus: &str,
    stores: &[(&str, &String)],
) -> Option<String> {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let expected = stage.gpuctl(prometheus, view, "");
        if expected.code != 0 || expected.out.len() < 10 {
            return Some(format!(
                "{view:?} has no answer: {}{}",
                expected.out, expected.err
            ));
        }
        let differs = stores.iter().find_map(|(name, store)| {
            let actual = stage.gpuctl(store, view, "");
            let differs = without_times(&actual.out) != without_times(&expected.out);
            differs.then(|| {
                format!(
                    "{name}: {}{}",
                    lines_that_differ(&expected.out, &actual.out),
                    actual.err
                )
            })
        });
        let differs = differs?;
        if Instant::now() > end {
            return Some(format!("{view:?}\n{differs}"));
        }
        thread::sleep(Duration::from_secs(1));
    }
}

/// Watches jobs and `score` while the utilization changes. Returns the output of a watch that
/// missed the change.
fn watched(stage: &Stage, name: &str, store: &str) -> Option<String> {
    let watch = |arguments: &[&str]| {
        let mut command = gpuctl();
        command
            .env("KUBECONFIG", stage.cluster.kubeconfig(Persona::Admin))
            .env("GPUCTL_PROMETHEUS", store)
            .args(arguments);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().expect("gpuctl starts")
    };
    let busy = |percent: f64| {
        stage.exporter.change(|fleet| {
            fleet
                .gpus
                .iter_mut()
                .filter(|gpu| !gpu.pods.is_empty())
                .for_each(|gpu| gpu.utilization = percent);
        });
    };
    busy(21.0);
    let children = [
        watch(&["get", "jobs", "-w", "-o", "json"]),
        watch(&[
            "score",
            "--all",
            "--watch=2s",
            "--start",
            "10s",
            "--step",
            "1s",
            "-o",
            "json",
        ]),
    ];
    // Leave each watch enough time to see the old value and then the new one.
    thread::sleep(Duration::from_secs(14));
    busy(84.0);
    thread::sleep(Duration::from_secs(20));
    for child in children {
        let pid = child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-TERM", &pid])
                .status()
                .expect("kill runs")
                .success()
        );
        let actual = finish(child, Duration::from_secs(20));
        let shows = |percent: &str| {
            ["tilization", "gpu_util"]
                .iter()
                .any(|key| actual.out.contains(&format!("{key}\":{percent}")))
        };
        if !(shows("21") && shows("84")) {
            return Some(format!(
                "{name}: a watch did not see the change from 21 to 84:\n{}\n{}",
                actual.out, actual.err
            ));
        }
    }
    None
}

fn lines_that_differ(expected: &str, actual: &str) -> String {
    let lines = similar::TextDiff::from_lines(expected, actual);
    lines.unified_diff().context_radius(1).to_string()
}

/// Creates a bundle with this store. Returns how the bundle's answer differs from the store's.
fn bundled(stage: &Stage, name: &str, store: &str) -> Option<String> {
    let file = stage
        .cluster
        .folder()
        .join(format!("{name}.gpuctl"))
        .display()
        .to_string();
    let view = ["get", "nodes", "--gpu-detail", "-o", "json"];
    let doctor = stage.gpuctl(store, &["doctor", "-o", "json"], "").json();
    let mut differs = None;
    if doctor["prometheus"]["has_gpus"] != true || doctor["verdict"] == "broken" {
        return Some(format!("{name}: {doctor:#}"));
    }
    // Remote write can pause for some seconds, which makes samples stale in only one of the
    // answers.
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        stage.gpuctl(store, &["doctor", "--bundle", &file], "").ok();
        let live = stage.gpuctl(store, &view, "").ok();
        let mut replay = gpuctl();
        replay
            .env_remove("GPUCTL_PROMETHEUS")
            .args(["--replay", &file])
            .args(view);
        let replayed = run(replay, "").ok();
        if without_measures(&live.out) == without_measures(&replayed.out)
            && replayed.out.contains("tilization\": 84")
        {
            return None;
        }
        differs = Some(format!(
            "{name}: a bundle{}",
            lines_that_differ(&live.out, &replayed.out)
        ));
        thread::sleep(Duration::from_secs(1));
    }
    differs
}

/// Removes the devices' measurements and the age of their samples.
fn without_measures(text: &str) -> Vec<&str> {
    const MEASURED: [&str; 7] = [
        "tilization\"",
        "memoryUsage",
        "powerWatts",
        "temperatureCelsius",
        "\"stale\"",
        "gpusSampled",
        "gpusStale",
    ];
    without_times(text)
        .into_iter()
        .filter(|line| {
            !MEASURED.iter().any(|word| line.contains(word)) && !line.contains("\"samples")
        })
        .collect()
}

/// Removes fields that depend on the time of the answer.
fn without_times(text: &str) -> Vec<&str> {
    const OF_TIME: [&str; 6] = [
        "\"timestamp\"",
        "\"age\"",
        "Seconds\"",
        "\"sampleAge",
        "\"seconds\"",
        "\"server\"",
    ];
    text.lines()
        .filter(|line| !OF_TIME.iter().any(|word| line.contains(word)))
        .collect()
}
