//! The same cluster in every dialect gives the same answer; copies, order and garbage change
//! nothing.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use gpuctl_sandbox::exporter::Dialect;
use gpuctl_sandbox::{Cluster, Options};
use serde_json::{Value, json};

use crate::support::{Scene, mean, near, scrape};

/// Answers of the whole cluster are compared, so nobody else may change it.
fn own_cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        Cluster::start(&Options::default()).unwrap_or_else(|error| panic!("{error:#}"))
    })
}

/// Every answer about the GPUs, without what a dialect does not carry: the maker's names, and how
/// many series it took.
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
        remove(&mut answer, &NOT_OF_EVERY_EXPORTER);
        all[arguments.join(" ")] = answer;
    }
    all
}

/// Who has which device, and what it did for the last seconds: what a score rests on. Power is left
/// out, for not every dialect has its limit.
fn scores(scene: &Scene, prometheus: &str) -> Vec<Value> {
    let end = Instant::now() + Duration::from_secs(40);
    loop {
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
            let of = |row: &Value| {
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
            return rows.iter().map(of).collect();
        }
        assert!(Instant::now() < end, "{prometheus}: {list:#}{}", run.err);
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// AMD has no limit of power, so the axis ends where the model's does, and `unhealthy` has no
/// number.
const NOT_OF_EVERY_EXPORTER: [&str; 7] = [
    "coverage",
    "model",
    "gpuModel",
    "uuid",
    "yAxisMax",
    "lastHeartbeatTime",
    "lastUpdatedAt",
];

/// Returns the answers without what a dialect lacks.
fn without(lacks: &[&str], mut answers: Value) -> Value {
    for quantity in lacks {
        let keys: &[&str] = match *quantity {
            "memory_copy" => &["memoryCopy"],
            "power" => &["power", "powerWatts"],
            "temperature" => &["temperature", "temperatureCelsius"],
            other => panic!("nobody knows the keys of {other}"),
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

/// Asks until the server has scraped everything there is.
fn settled(scene: &Scene, prometheus: &str, gpus: u64) {
    let end = Instant::now() + Duration::from_secs(40);
    loop {
        let answer = scene
            .gpuctl_at(prometheus, &["get", "nodes", "-o", "json"], "")
            .ok()
            .json();
        if answer["coverage"]["gpusSampled"] == gpus {
            return;
        }
        assert!(
            Instant::now() < end,
            "{prometheus} never has {gpus} devices: {:#}",
            answer["coverage"]
        );
        std::thread::sleep(Duration::from_millis(300));
    }
}

fn all_of(big: &[f64], wide: &[[f64; 2]]) -> Vec<f64> {
    big.iter().chain(wide.as_flattened()).copied().collect()
}

#[test]
fn one_cluster_in_every_dialect() {
    let scene = Scene::on(own_cluster(), "same", 2);
    let big = scene.train("big", 1, 4);
    let wide = scene.train("wide", 2, 2);
    // Different numbers for every device, so that a mix-up shows.
    let of_big = [91.0, 85.0, 40.0, 96.0];
    scene.load(&big[0], |place, gpu| {
        gpu.utilization = of_big[place as usize];
        (gpu.used_mib, gpu.free_mib) = (
            40_000 + 1000 * u64::from(place),
            40_000 - 1000 * u64::from(place),
        );
        gpu.watts = 300.5 + f64::from(place);
        gpu.celsius = 60.0 + f64::from(place);
    });
    let of_wide = [[10.0, 20.0], [30.0, 44.0]];
    for (pod, utilizations) in wide.iter().zip(of_wide) {
        scene.load(pod, |place, gpu| {
            gpu.utilization = utilizations[place as usize];
        });
    }
    settled(&scene, &scene.prometheus, 16);
    let end = Instant::now() + Duration::from_secs(30);
    let truth = loop {
        let found = answers(&scene, &scene.prometheus);
        if found["get jobs --no-progress"]["items"][0]["gpuUtilization"] == 78.0 {
            break found;
        }
        assert!(
            Instant::now() < end,
            "{:#}",
            found["get jobs --no-progress"]
        );
        std::thread::sleep(Duration::from_millis(300));
    };
    // Until the window is full of what they do now.
    let busy = |row: &Value| all_of(&of_big, &of_wide).contains(&row[4].as_f64().unwrap_or(-1.0));
    let scored = loop {
        let found = scores(&scene, &scene.prometheus);
        if found.iter().all(busy) {
            break found;
        }
        assert!(Instant::now() < end, "{found:#?}");
    };
    // By hand: means over the devices that are held.
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
    let all = all_of(&of_big, &of_wide);
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

    // Every exporter, with `honor_labels` and without.
    for (dialect, honors) in [
        (Dialect::Dcgm, true),
        (Dialect::DcgmNew, false),
        (Dialect::DcgmNew, true),
        (Dialect::Amd, true),
        (Dialect::Amd, false),
        (Dialect::AmdPrefixed, true),
        (Dialect::Legacy, true),
        (Dialect::Legacy, false),
    ] {
        let name = format!("{}-{honors}", dialect.name());
        let scrapes = json!([scrape(&scene.exporter, dialect, honors)]);
        let prometheus = scene.cluster.another_prometheus(&name, &scrapes).unwrap();
        settled(&scene, &prometheus, 16);
        // A score rests on everything but power, so without it there is none.
        if dialect
            .lacks()
            .iter()
            .all(|lacking| *lacking != "memory_copy")
        {
            let found = scores(&scene, &prometheus);
            assert!(found == scored, "{name}: {found:#?} is not {scored:#?}");
        }
        let found = without(dialect.lacks(), answers(&scene, &prometheus));
        let expected = without(dialect.lacks(), truth.clone());
        for (command, expected) in expected.as_object().unwrap() {
            assert_eq!(&found[command], expected, "{name}: {command}");
        }
    }

    // Two servers that scrape the same exporter, seen through one that knows both.
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
    settled(&scene, &prometheus, 16);
    assert_eq!(answers(&scene, &prometheus), truth, "copies count once");
    assert_eq!(scores(&scene, &prometheus), scored, "copies count once");

    // The order of series is nobody's business, and garbage is counted and changes nothing else.
    scene
        .exporter
        .change(|fleet| (fleet.reversed, fleet.garbage) = (true, true));
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let coverage = scene.json(&["get", "nodes"])["coverage"].clone();
        if coverage["samplesDropped"].as_u64().unwrap() >= 16 {
            assert_eq!(
                (&coverage["gpus"], &coverage["gpusSampled"]),
                (&json!(16), &json!(16))
            );
            break;
        }
        assert!(Instant::now() < end, "garbage never arrived: {coverage:#}");
        std::thread::sleep(Duration::from_millis(300));
    }
    assert_eq!(answers(&scene, &scene.prometheus), truth);
    assert_eq!(scores(&scene, &scene.prometheus), scored);

    // Half of the samples gone: means are over the rest, and nothing becomes idle.
    scene.exporter.change(|fleet| {
        (fleet.reversed, fleet.garbage) = (false, false);
        fleet
            .gpus
            .iter_mut()
            .filter(|gpu| gpu.index % 2 == 1)
            .for_each(|gpu| gpu.silent = true);
    });
    settled(&scene, &scene.prometheus, 8);
    let left: Vec<f64> = scene
        .gpus()
        .iter()
        .filter(|gpu| !gpu.silent && !gpu.pods.is_empty())
        .map(|gpu| gpu.utilization)
        .collect();
    assert!(left.len() < 8 && !left.is_empty());
    let overview = scene.json(&["get", "overview"]);
    near(&overview["utilization"], mean(&left) / 100.0);
    assert_eq!(
        (&overview["gpuSampled"], &overview["gpuAllocated"]),
        (&json!(left.len()), &json!(8))
    );
    let detail = scene.json(&["get", "nodes", "--gpu-detail"]);
    let free = detail["items"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|node| node["gpus"].as_array().unwrap());
    let falsely: Vec<&Value> = free
        .filter(|gpu| {
            gpu["status"] == "free" && gpu["utilization"].as_f64().is_none_or(|value| value > 0.0)
        })
        .collect();
    assert!(falsely.is_empty(), "{falsely:#?}");

    // Without a word about pods a node that is full still tells who has it.
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
    settled(&scene, &podless, 16);
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
