//! Tests `get nodes --blame` with a known history: which pod failed first, and how long nodes were
//! in use.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::past::{HOUR, Sample, ask, store};

/// The pods: job, name, node, second of the start, second of the end, and last phase.
const PODS: [(&str, &str, &str, i64, i64, &str); 4] = [
    ("pair", "pair-0", "blamed", 0, 1200, "Failed"),
    ("pair", "pair-1", "calm", 0, 1260, "Failed"),
    ("single", "single-0", "blamed", HOUR, HOUR + 600, "Failed"),
    ("fine", "fine-0", "calm", 0, 2 * HOUR, "Succeeded"),
];

fn history() -> Vec<Sample> {
    let mut samples = Vec::new();
    for at in (0..2 * HOUR).step_by(30) {
        let mut put = |series: String, value: i32| {
            samples.push(Sample {
                series,
                at,
                value: value.to_string(),
            });
        };
        for node in ["blamed", "calm"] {
            put(
                format!(
                    "kube_node_status_capacity{{node=\"{node}\",resource=\"nvidia_com_gpu\",unit=\"integer\"}}"
                ),
                8,
            );
        }
        // A pod object exists for ten minutes after its end.
        for (job, name, node, from, to, end) in
            PODS.iter().filter(|pod| (pod.3..pod.4 + 600).contains(&at))
        {
            let id = format!("namespace=\"ml\",pod=\"{name}\",uid=\"{name}\"");
            let request = format!(
                "{id},container=\"main\",node=\"{node}\",resource=\"nvidia_com_gpu\",unit=\"integer\""
            );
            put(
                format!("kube_pod_container_resource_requests{{{request}}}"),
                8,
            );
            put(
                format!(
                    "kube_pod_owner{{{id},owner_kind=\"Job\",owner_name=\"{job}\",owner_is_controller=\"true\"}}"
                ),
                1,
            );
            let now = if (*from..*to).contains(&at) {
                "Running"
            } else {
                end
            };
            for phase in ["Pending", "Running", "Succeeded", "Failed"] {
                put(
                    format!("kube_pod_status_phase{{{id},phase=\"{phase}\"}}"),
                    i32::from(phase == now),
                );
            }
        }
    }
    samples
}

#[test]
fn blame_counts_the_jobs_that_failed_first_on_a_node() {
    let now = i64::try_from(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs(),
    )
    .unwrap();
    let begin = now / HOUR * HOUR - 3 * HOUR;
    let prometheus = store("blame", history(), begin);
    let run = |since: &str, more: &[&str]| {
        ask(
            &prometheus,
            &PathBuf::from("/nonexistent"),
            &[&["get", "nodes", "--blame", since], more].concat(),
        )
    };
    let since = begin.to_string();
    let list = run(&since, &["-o", "json"]).ok().json();
    let node = |name: &str| -> Value {
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["nodeName"] == name)
            .unwrap_or_else(|| panic!("{list:#}"))
            .clone()
    };
    let (blamed, calm) = (node("blamed"), node("calm"));
    assert_eq!(
        (&blamed["jobs"], &blamed["failures"], &blamed["followed"]),
        (&json!(2), &json!(2), &json!(0)),
        "{list:#}"
    );
    assert_eq!(
        (&calm["jobs"], &calm["failures"], &calm["followed"]),
        (&json!(0), &json!(0), &json!(1)),
        "{list:#}"
    );
    // 1,200 + 600 seconds, and two hours, during which `fine` overlaps with another job. Scrapes
    // are half a minute apart.
    let about = |value: &Value, hours: f64| {
        assert!(
            (value.as_f64().unwrap() - hours).abs() < 0.03,
            "{value} instead of {hours}"
        );
    };
    about(&blamed["nodeHours"], 0.5);
    about(&calm["nodeHours"], 2.0);
    // Bounds from fewer than 24 hours would be 484 to 14,450, and 0 to 1,844.
    for bound in ["low", "high"] {
        assert_eq!((&blamed[bound], &calm[bound]), (&Value::Null, &Value::Null));
    }
    let per = 1000.0 / blamed["nodeHours"].as_f64().unwrap();
    let near = |value: &Value, expected: f64| {
        assert!(
            (value.as_f64().unwrap() / expected - 1.0).abs() < 0.02,
            "{value} instead of {expected}"
        );
    };
    near(&blamed["jobsPerThousandHours"], 2.0 * per);
    // The mean of both nodes, 2 failures in 2.5 hours, is 800 per 1,000 hours, within 484 to 14,450.
    assert_eq!(
        (&blamed["standsOut"], &calm["standsOut"]),
        (&json!(false), &json!(false))
    );
    assert!(list["hoursWithoutData"].as_u64().unwrap() >= 1, "{list:#}");
    let table = run(&since, &[])
        .ok()
        .says("have no kube-state-metrics data and are excluded")
        .out;
    assert!(
        table.lines().nth(1).unwrap().starts_with("blamed") && !table.contains("stands out"),
        "{table}"
    );
    assert!(
        table.lines().all(|line| line.chars().count() <= 80),
        "{table}"
    );
    run(&(begin - 30 * 24 * HOUR).to_string(), &["--pool", "x"])
        .exits(2)
        .says("cannot be used");
    run("5m", &[])
        .exits(4)
        .says("has no data about pods for that time");
    ask(
        "http://127.0.0.1:1",
        &PathBuf::from("/nonexistent"),
        &["get", "nodes", "--blame", "1h"],
    )
    .exits(6);
}
