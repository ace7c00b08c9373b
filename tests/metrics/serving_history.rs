//! Tests the history of inference servers: tokens when a server restarts, and hours without
//! requests.

use serde_json::{Value, json};

use crate::past::{HOUR, Sample, ask, hours_ago, store};
use crate::support::{cluster, near};

/// Second at which the server restarts and its counters begin at zero.
const RESTART: i64 = 1230;

/// The counter of generated tokens: 20 per second while there are requests, in the first half of
/// the hour.
fn generated(at: i64) -> i64 {
    let total = |at: i64| at.min(HOUR / 2) * 20;
    if at < RESTART {
        500 + total(at)
    } else {
        total(at) - total(RESTART)
    }
}

fn history() -> Vec<Sample> {
    let mut samples = Vec::new();
    for at in (0..HOUR).step_by(30) {
        let mut put = |series: String, value: i64| {
            samples.push(Sample {
                series,
                at,
                value: value.to_string(),
            });
        };
        put(
            "kube_node_status_capacity{node=\"s1\",resource=\"nvidia_com_gpu\"}".to_owned(),
            8,
        );
        for (pod, owner, gpus) in [("chat-0", "chat", 2), ("train-0", "train", 4)] {
            let id = format!("namespace=\"serve\",pod=\"{pod}\",uid=\"u-{pod}\"");
            let request_labels =
                format!("{id},container=\"c\",node=\"s1\",resource=\"nvidia_com_gpu\"");
            put(
                format!("kube_pod_container_resource_requests{{{request_labels}}}"),
                gpus,
            );
            put(
                format!("kube_pod_status_phase{{{id},phase=\"Running\"}}"),
                1,
            );
            let kind = if owner == "chat" {
                "StatefulSet"
            } else {
                "Job"
            };
            put(
                format!("kube_pod_owner{{{id},owner_kind=\"{kind}\",owner_name=\"{owner}\"}}"),
                1,
            );
        }
        let server = "{namespace=\"serve\",pod=\"chat-0\",model_name=\"m\"}";
        put(
            format!("vllm:generation_tokens_total{server}"),
            generated(at),
        );
        put(format!("vllm:prompt_tokens_total{server}"), 7 * at);
        put(
            format!("vllm:request_success_total{server}"),
            generated(at) / 100,
        );
        put(
            format!("vllm:num_requests_running{server}"),
            i64::from(at < HOUR / 2),
        );
        put(format!("vllm:num_requests_waiting{server}"), 0);
    }
    samples
}

#[test]
fn report_counts_tokens_across_restarts_and_hours_without_requests() {
    let begin = hours_ago(3);
    let store = store("serving-past", history(), begin);
    let cache = cluster().folder().join("serving-cache");
    let prices = crate::support::file("serving-prices.yaml", "gpu_hour: 3\n");
    let (start, end) = (begin.to_string(), (begin + HOUR).to_string());
    let span = [
        "--start",
        start.as_str(),
        "--end",
        end.as_str(),
        "-o",
        "json",
    ];
    let report = ask(
        &store,
        &cache,
        &[&["report", "--prices", prices.to_str().unwrap()], &span[..]].concat(),
    )
    .ok()
    .json();
    // Sum of the increases between scrapes. After the reset, the new value is the increase.
    let times: Vec<i64> = (0..HOUR).step_by(30).collect();
    let mut tokens = 0;
    for pair in times.windows(2) {
        let (a, b) = (generated(pair[0]), generated(pair[1]));
        tokens += if b < a { b } else { b - a };
    }
    let total = &report["sum"];
    assert_eq!(
        total["serving"]["generated_tokens"],
        json!(tokens as f64),
        "{report:#}"
    );
    assert_eq!(
        total["serving"]["prompt_tokens"],
        json!(7.0 * (HOUR - 30) as f64)
    );
    near(&total["serving"]["held_gpu_hours"], 2.0);
    // Two devices in the second half of the hour. The scrape in the middle still has an increase.
    near(
        &total["serving"]["idle_gpu_hours"],
        2.0 * (HOUR / 2 - 30) as f64 / HOUR as f64,
    );
    near(
        &total["serving"]["generated_tokens_per_gpu_hour"],
        tokens as f64 / 2.0,
    );
    // Two of the six GPU-hours, at 3 each.
    near(
        &total["serving"]["cost_per_million_generated_tokens"],
        6.0 / (tokens as f64 / 1e6),
    );
    assert_eq!(total["jobs"]["job_count"], json!(1));

    let eff = ask(
        &store,
        &cache,
        &[&["eff", "serve/chat"], &span[..]].concat(),
    )
    .ok()
    .json();
    assert_eq!(eff["serving"]["generated_tokens"], json!(tokens as f64));
    let kinds = |eff: &Value| {
        eff["advice"]
            .as_array()
            .unwrap()
            .iter()
            .map(|advice| advice["kind"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        kinds(&eff),
        [] as [Value; 0],
        "there were requests for more than half of the time"
    );
    let later = ask(
        &store,
        &cache,
        &[
            "eff",
            "serve/chat",
            "--start",
            &(begin + 600).to_string(),
            "--end",
            &end,
            "-o",
            "json",
        ],
    );
    assert_eq!(kinds(&later.ok().json()), [json!("no-requests")]);
    let train = ask(
        &store,
        &cache,
        &[&["eff", "serve/train"], &span[..]].concat(),
    )
    .ok()
    .json();
    assert_eq!(train["serving"], Value::Null);
    let text = ask(
        &store,
        &cache,
        &["eff", "serve/chat", "--start", &start, "--end", &end],
    )
    .ok()
    .out;
    assert!(
        text.contains("tokens generated") && text.contains("no requests in"),
        "{text}"
    );
}
