//! The same cluster gives the same answers in every exporter dialect. Duplicates, order and garbage
//! do not matter.

use std::sync::OnceLock;
use std::time::Duration;

use gpuctl_sandbox::exporter::Dialect;
use gpuctl_sandbox::{Cluster, Options, eventually};
use serde_json::{Value, json};

use crate::support::{Scene, mean, near, scrape};

/// A cluster that no other test changes, because answers about all of it are compared.
fn dedicated_cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        Cluster::start(&Options::default()).unwrap_or_else(|error| panic!("{error:#}"))
    })
}

/// All answers about GPUs, without fields that some dialects lack: names of the vendor and the
/// number of series.
fn answers(scene: &Scene, prometheus: &str) -> Value {
    let mut all = json!({});
    for arguments in [
        &["get", "nodes"][..],
        &["get", "nodes", "--gpu-detail"],
        &["get", "pools"],
        &["get", "jobs", "--no-progress"],
        &["get", "overview"],
        &["get", "consumers"],
        &["get", "heatmap", "--top", "20"],
        &["describe", "node", "same-0"],
    ] {
        let run = scene
            .gpuctl_at(prometheus, &[arguments, &["-o", "json"]].concat(), "")
            .ok();
        assert_eq!(run.err, "", "{arguments:?}");
        let mut answer = run.json();
        remove(&mut answer, &DIALECT_SPECIFIC);
        all[arguments.join(" ")] = answer;
    }
    all
}

/// The inputs of each score: the device, its holder and its load in the last seconds. Power is
/// excluded, because some dialects have no power limit.
fn scores(scene: &Scene, prometheus: &str) -> Vec<Value> {
    let inputs = |row: &Value| {
        json!([
            row["hostname"],
            row["device_index"],
            row["pod"],
            row["namespace"],
            row["gpu_util"],
            row["mem_copy"],
            row["mem_used_mb"]
        ])
    };
    eventually(
        &format!("{prometheus} has scores of all held devices"),
        Duration::from_secs(40),
        || {
            let run = scene
                .gpuctl_at(
                    prometheus,
                    &["score", "--window", "6s", "--step", "1s", "-o", "json"],
                    "",
                )
                .ok();
            let list = run.json();
            let rows = list.as_array().unwrap();
            if rows.len() == 8 && rows.iter().all(|row| row["status"] != "unknown") {
                Ok(rows.iter().map(inputs).collect::<Vec<_>>())
            } else {
                Err((list, run.err))
            }
        },
    )
}

/// Fields that differ between exporters. AMD exports no power limit, so `yAxisMax` comes from the
/// model.
const DIALECT_SPECIFIC: [&str; 7] = [
    "coverage",
    "model",
    "gpuModel",
    "uuid",
    "yAxisMax",
    "lastHeartbeatTime",
    "lastUpdatedAt",
];

/// Removes quantities that a dialect lacks.
fn without(lacks: &[&str], mut answers: Value) -> Value {
    for quantity in lacks {
        let keys: &[&str] = match *quantity {
            "memory_copy" => &["memoryCopy"],
            "power" => &["power", "powerWatts"],
            "temperature" => &["temperature", "temperatureCelsius"],
            other => panic!("unknown quantity {other}"),
        };
        remove(&mut answers, keys);
    }
    answers
}

fn remove(value: &mut Value, keys: &[&str]) {
    match value {
        Value::Object(map) => {
            keys.iter().for_each(|key| drop(map.remove(*key)));
            map.values_mut().for_each(|value| remove(value, keys));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| remove(value, keys)),
        _ => {}
    }
}

/// Waits until Prometheus has samples of all devices.
fn wait_for_samples(scene: &Scene, prometheus: &str, gpus: u64) {
    eventually(
        &format!("{prometheus} has samples of {gpus} devices"),
        Duration::from_secs(40),
        || {
            let answer = scene
                .gpuctl_at(prometheus, &["get", "nodes", "-o", "json"], "")
                .ok()
                .json();
            let coverage = answer["coverage"].clone();
            (coverage["gpusSampled"] == gpus)
                .then_some(())
                .ok_or(coverage)
        },
    );
}

fn all_loads(big: &[f64], wide: &[[f64; 2]]) -> Vec<f64> {
    big.iter().chain(wide.as_flattened()).copied().collect()
}

#[test]
fn all_dialects_give_the_same_answers() {
    let scene = Scene::on(dedicated_cluster(), "same", 2);
    let big = scene.train("big", 1, 4);
    let wide = scene.train("wide", 2, 2);
    // Every device has different values, so that the test detects mix-ups.
    let big_load = [91.0, 85.0, 40.0, 96.0];
    scene.load(&big[0], |index, gpu| {
        gpu.utilization = big_load[index as usize];
        (gpu.used_mib, gpu.free_mib) = (
            40_000 + 1000 * u64::from(index),
            40_000 - 1000 * u64::from(index),
        );
        gpu.watts = 300.5 + f64::from(index);
        gpu.celsius = 60.0 + f64::from(index);
    });
    let wide_load = [[10.0, 20.0], [30.0, 44.0]];
    for (pod, utilizations) in wide.iter().zip(wide_load) {
        scene.load(pod, |index, gpu| {
            gpu.utilization = utilizations[index as usize];
        });
    }
    wait_for_samples(&scene, &scene.prometheus, 16);
    let truth = eventually("job big has its load", Duration::from_secs(30), || {
        let all = answers(&scene, &scene.prometheus);
        let jobs = &all["get jobs --no-progress"];
        if jobs["items"][0]["gpuUtilization"] == 78.0 {
            Ok(all)
        } else {
            Err(jobs.clone())
        }
    });
    let is_current =
        |row: &Value| all_loads(&big_load, &wide_load).contains(&row[4].as_f64().unwrap_or(-1.0));
    let scored = eventually(
        "the score window contains only the current load",
        Duration::from_secs(40),
        || {
            let rows = scores(&scene, &scene.prometheus);
            if rows.iter().all(is_current) {
                Ok(rows)
            } else {
                Err(rows)
            }
        },
    );
    // The expected values are means over the devices that are held.
    let jobs = &truth["get jobs --no-progress"]["items"];
    near(
        &jobs[0]["gpuUtilization"],
        (91.0 + 85.0 + 40.0 + 96.0) / 4.0,
    );
    near(
        &jobs[1]["gpuUtilization"],
        (10.0 + 20.0 + 30.0 + 44.0) / 4.0,
    );
    // 41,500 of 80,000 MiB, in GiB with one decimal.
    assert_eq!(jobs[0]["memoryUsage"], "40.5Gi/78.1Gi");
    let all = all_loads(&big_load, &wide_load);
    let overview = &truth["get overview"];
    near(&overview["utilization"], mean(&all) / 100.0);
    near(&overview["allocationRate"], 8.0 / 16.0);
    assert_eq!(
        (&overview["totalNodes"], &overview["gpuSampled"]),
        (&json!(2), &json!(8))
    );
    let consumers = &truth["get consumers"]["data"];
    near(&consumers[0]["stat"]["gpuUtilization"], 0.78);
    assert_eq!(
        (&consumers[0]["name"], &consumers[0]["stat"]["gpuRequest"]),
        (&json!("big"), &json!(4))
    );
    let hottest = &truth["get heatmap --top 20"]["utilization"]["data"];
    assert_eq!(
        (&hottest[0]["value"], &hottest[1]["value"]),
        (&json!(96.0), &json!(91.0))
    );
    assert_eq!(hottest.as_array().unwrap().len(), 16);
    let detail = truth["get nodes --gpu-detail"]["items"].as_array().unwrap();
    let statuses: Vec<&str> = detail
        .iter()
        .flat_map(|node| node["gpus"].as_array().unwrap())
        .map(|gpu| gpu["status"].as_str().unwrap())
        .collect();
    assert_eq!(
        statuses.iter().filter(|status| **status == "used").count(),
        8
    );
    assert_eq!(
        statuses.iter().filter(|status| **status == "free").count(),
        8
    );

    // Tests every exporter, both with and without `honor_labels`.
    for (dialect, honor_labels) in [
        (Dialect::Dcgm, true),
        (Dialect::DcgmNew, false),
        (Dialect::DcgmNew, true),
        (Dialect::Amd, true),
        (Dialect::Amd, false),
        (Dialect::AmdPrefixed, true),
        (Dialect::Legacy, true),
        (Dialect::Legacy, false),
    ] {
        let name = format!("{}-{honor_labels}", dialect.name());
        let scrapes = json!([scrape(&scene.exporter, dialect, honor_labels)]);
        let prometheus = scene.cluster.another_prometheus(&name, &scrapes).unwrap();
        wait_for_samples(&scene, &prometheus, 16);
        // A score needs every quantity except power.
        if dialect
            .lacks()
            .iter()
            .all(|lacking| *lacking != "memory_copy")
        {
            assert_eq!(scores(&scene, &prometheus), scored, "{name}");
        }
        let actual = without(dialect.lacks(), answers(&scene, &prometheus));
        let expected = without(dialect.lacks(), truth.clone());
        for (command, expected) in expected.as_object().unwrap() {
            assert_eq!(&actual[command], expected, "{name}: {command}");
        }
    }

    // Two replicas that scrape the same exporter, in one store.
    let mut twice = [
        scrape(&scene.exporter, Dialect::Dcgm, false),
        scrape(&scene.exporter, Dialect::Dcgm, false),
    ];
    for (scrape, replica) in twice.iter_mut().zip(["a", "b"]) {
        scrape["job_name"] = json!(format!("replica-{replica}"));
        scrape["static_configs"][0]["labels"]["prometheus_replica"] = json!(replica);
    }
    let prometheus = scene
        .cluster
        .another_prometheus("replicas", &json!(twice))
        .unwrap();
    wait_for_samples(&scene, &prometheus, 16);
    assert_eq!(answers(&scene, &prometheus), truth, "duplicates count once");
    assert_eq!(scores(&scene, &prometheus), scored, "duplicates count once");

    // The order of series does not matter. Garbage is counted and otherwise ignored.
    scene
        .exporter
        .change(|fleet| (fleet.reversed, fleet.garbage) = (true, true));
    let coverage = eventually(
        "garbage samples are counted",
        Duration::from_secs(30),
        || {
            let coverage = scene.json(&["get", "nodes"])["coverage"].clone();
            if coverage["samplesDropped"].as_u64().unwrap() >= 16 {
                Ok(coverage)
            } else {
                Err(coverage)
            }
        },
    );
    assert_eq!(
        (&coverage["gpus"], &coverage["gpusSampled"]),
        (&json!(16), &json!(16))
    );
    assert_eq!(answers(&scene, &scene.prometheus), truth);
    assert_eq!(scores(&scene, &scene.prometheus), scored);

    // Half of the devices export nothing. Means are taken over the others, and no device becomes
    // idle.
    scene.exporter.change(|fleet| {
        (fleet.reversed, fleet.garbage) = (false, false);
        fleet
            .gpus
            .iter_mut()
            .filter(|gpu| gpu.index % 2 == 1)
            .for_each(|gpu| gpu.silent = true);
    });
    wait_for_samples(&scene, &scene.prometheus, 8);
    let remaining: Vec<f64> = scene
        .gpus()
        .iter()
        .filter(|gpu| !gpu.silent && !gpu.pods.is_empty())
        .map(|gpu| gpu.utilization)
        .collect();
    assert!(remaining.len() < 8 && !remaining.is_empty());
    let overview = scene.json(&["get", "overview"]);
    near(&overview["utilization"], mean(&remaining) / 100.0);
    assert_eq!(
        (&overview["gpuSampled"], &overview["gpuAllocated"]),
        (&json!(remaining.len()), &json!(8))
    );
    let detail = scene.json(&["get", "nodes", "--gpu-detail"]);
    let free = detail["items"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|node| node["gpus"].as_array().unwrap());
    let wrongly_free: Vec<&Value> = free
        .filter(|gpu| {
            gpu["status"] == "free" && gpu["utilization"].as_f64().is_none_or(|value| value > 0.0)
        })
        .collect();
    assert!(wrongly_free.is_empty(), "{wrongly_free:#?}");

    // Without pod labels, devices can be attributed only on a node that is completely allocated.
    let podless = scene
        .cluster
        .another_prometheus(
            "podless",
            &json!([scrape(&scene.exporter, Dialect::DcgmPodless, false)]),
        )
        .unwrap();
    scene
        .exporter
        .change(|fleet| fleet.gpus.iter_mut().for_each(|gpu| gpu.silent = false));
    wait_for_samples(&scene, &podless, 16);
    let nodes = scene
        .gpuctl_at(&podless, &["get", "nodes", "-o", "json"], "")
        .ok()
        .json();
    for node in nodes["items"].as_array().unwrap() {
        assert_eq!(
            node["gpuUtilization"].is_null(),
            node["gpuUsed"] != node["gpuTotal"],
            "{node:#}"
        );
    }
}
