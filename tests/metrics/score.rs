//! Scores from the real Prometheus, each computed again by plain arithmetic; and nobody becomes
//! idle for lack of samples.

use serde_json::{Value, json};

use crate::support::{Scene, file, near};

/// Long enough for the samples that a test can wait for.
const SHORT: [&str; 4] = ["--window", "6s", "--step", "1s"];

fn of(list: &Value, index: u64) -> &Value {
    list.as_array()
        .unwrap()
        .iter()
        .find(|one| one["device_index"] == index)
        .unwrap()
}

#[test]
fn scores_low_ones_and_sums() {
    let scene = Scene::new("scored", 1);
    let pods = scene.train("work", 1, 4);
    // Utilization, memory copy, MiB of 80,000, watts of 400.
    let loads = [
        (90.0, 60.0, 60_000, 320.0),
        (50.0, 10.0, 20_000, 160.0),
        (14.0, 5.0, 8000, 80.0),
        (0.0, 0.0, 800, 40.0),
    ];
    scene.load(&pods[0], |place, gpu| {
        let (utilization, copy, used, watts) = loads[place as usize];
        (gpu.utilization, gpu.memory_copy, gpu.watts) = (utilization, copy, watts);
        (gpu.used_mib, gpu.free_mib) = (used, 80_000 - used);
    });
    let by_hand: Vec<f64> = loads
        .iter()
        .map(|(utilization, copy, used, watts)| {
            0.5 * utilization
                + 0.2 * copy
                + 0.2 * (*used as f64 / 80_000.0 * 100.0)
                + 0.1 * (watts / 400.0 * 100.0)
        })
        .collect();
    // 80, 36, 12 and 1.2: a band each.
    assert_eq!(
        by_hand
            .iter()
            .map(|score| score.round())
            .collect::<Vec<_>>(),
        [80.0, 36.0, 12.0, 1.0]
    );
    let arguments = |what: &'static str| [&["score", what], &SHORT[..]].concat();
    let settled = |list: &Value| {
        let scores: Vec<f64> = list
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|one| one["score"].as_f64())
            .collect();
        scores.len() == 4
            && scores
                .iter()
                .zip(&by_hand)
                .all(|(found, expected)| (found - expected).abs() < 0.006)
    };
    let list = scene.until(&arguments("results"), settled);
    assert_eq!(list.as_array().unwrap().len(), 4, "those that a pod holds");
    for (index, (score, status)) in by_hand
        .iter()
        .zip(["high", "normal", "low", "idle"])
        .enumerate()
    {
        let one = of(&list, index as u64);
        near(&one["score"], *score);
        assert_eq!(
            (&one["status"], &one["pod"], &one["namespace"]),
            (&json!(status), &json!(pods[0]), &json!("scored"))
        );
        assert_eq!(
            one["terms"],
            json!(["gpu_util", "mem_copy", "mem_used", "power_usage"])
        );
        assert_eq!(
            (&one["gpu_id"], &one["ai_analysis"]),
            (&json!(format!("GPU-scored-0-{index}")), &Value::Null)
        );
    }
    let low = scene.json(&arguments("low"));
    assert_eq!(
        (&low["count"], &low["threshold"]),
        (&json!(2), &json!(20.0))
    );
    let stats = scene.json(&arguments("stats"));
    near(
        &stats["avg_score"],
        (by_hand[0] + by_hand[1] + by_hand[2] + by_hand[3]) / 4.0,
    );
    near(&stats["min_score"], by_hand[3]);
    near(&stats["max_score"], by_hand[0]);
    assert_eq!(
        (
            &stats["total_gpus"],
            &stats["low_utilization_count"],
            &stats["idle_count"]
        ),
        (&json!(4), &json!(2), &json!(1))
    );
    assert_eq!(
        stats["by_status"],
        json!({"high": 1, "normal": 1, "low": 1, "idle": 1, "unknown": 0})
    );
    assert_eq!(
        (
            &stats["by_namespace"]["scored"]["count"],
            &stats["by_namespace"]["scored"]["low_util_count"]
        ),
        (&json!(4), &json!(2))
    );
    // MockServer thresholds and weights, by flag and by the document's own file.
    let low = scene.json(&[&["score", "low", "--threshold", "40"], &SHORT[..]].concat());
    assert_eq!(low["count"], 3);
    let config = file(
        "monitor.yaml",
        "thresholds: {low_utilization: 40, idle: 20}\nscoring: {gpu_util_weight: 1.0, mem_copy_weight: 0, mem_used_weight: 0, power_weight: 0}\nprometheus: {time_window_min: 0.1, step: 1s}\n",
    );
    let list = scene.json(&["--config", config.to_str().unwrap(), "score"]);
    assert_eq!(
        (&of(&list, 2)["score"], &of(&list, 2)["status"]),
        (&json!(14.0), &json!("idle"))
    );
    let low = scene.json(&["--config", config.to_str().unwrap(), "score", "low"]);
    assert_eq!(
        (&low["count"], &low["threshold"]),
        (&json!(2), &json!(40.0))
    );
    let page = scene.json(&[
        "--config",
        config.to_str().unwrap(),
        "score",
        "low",
        "--page-size",
        "1",
    ]);
    assert_eq!(
        (&page["count"], page["gpus"].as_array().unwrap().len()),
        (&low["count"], 1),
        "the count is of all pages"
    );
    let second = scene.json(&[
        "--config",
        config.to_str().unwrap(),
        "score",
        "--page",
        "2",
        "--page-size",
        "3",
    ]);
    assert_eq!(
        (second.as_array().unwrap().len(), &second[0]["gpu_id"]),
        (1, &list[3]["gpu_id"])
    );
    // Free devices are shown on request and are nobody's waste.
    let all = scene
        .gpuctl(&[&["score", "--all", "-o", "json"], &SHORT[..]].concat())
        .ok()
        .json();
    assert_eq!(
        all.as_array().unwrap().len(),
        4,
        "a namespace was named: free ones are in none"
    );
    let table = scene.gpuctl(&arguments("results")).ok().out;
    assert!(table.contains("high") && table.contains("80.0"), "{table}");
    scene
        .gpuctl(&["score", "--window", "10s", "--step", "20s"])
        .exits(2)
        .says("the step cannot be longer than the window");
    scene
        .gpuctl(&["score", "--threshold", "5"])
        .exits(2)
        .says("thresholds must satisfy idle ≤ low ≤ high");

    // The text format: valid by Prometheus' own tool, with the same numbers.
    let text = scene
        .gpuctl(&[&["score", "-o", "prometheus"], &SHORT[..]].concat())
        .ok()
        .out;
    let mut check = std::process::Command::new(scene.cluster.binary("promtool"))
        .args(["check", "metrics"])
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut check.stdin.take().unwrap(), text.as_bytes()).unwrap();
    let checked = check.wait_with_output().unwrap();
    // Its opinions about names are about those of the document; only what cannot be parsed is
    // wrong.
    let opinion = String::from_utf8(checked.stderr).unwrap();
    assert!(
        !opinion.contains("error while linting") && !opinion.contains("parsing error"),
        "{opinion}"
    );
    let pod = &pods[0];
    let line = format!(
        "gpu_core_utilization{{gpu_id=\"GPU-scored-0-0\",pod=\"{pod}\",namespace=\"scored\"}} 90\n"
    );
    assert!(text.contains(&line), "{text}");
    assert!(
        text.contains("gpu_status_count{status=\"idle\"} 1\n")
            && text.contains("gpu_low_utilization_count 2\n"),
        "{text}"
    );

    // Half of what is known goes: what is left keeps its score, the rest is unknown and lowers
    // nothing.
    scene.exporter.change(|fleet| {
        fleet
            .gpus
            .iter_mut()
            .filter(|gpu| gpu.index >= 2)
            .for_each(|gpu| gpu.silent = true);
    });
    let nameless = |list: &Value| {
        list.as_array()
            .unwrap()
            .iter()
            .filter(|one| one["gpu_id"].is_null())
            .count()
    };
    let list = scene.until(&arguments("results"), |list| {
        // On the way there they are what they were, then unknown; never lower.
        for one in list
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["device_index"].as_u64() >= Some(2))
        {
            assert!(
                one["status"] == "unknown" || one["score"].as_f64() >= Some(by_hand[3] - 0.006),
                "{one:#}"
            );
        }
        nameless(list) == 2
    });
    near(&of(&list, 0)["score"], by_hand[0]);
    assert_eq!(
        list.as_array().unwrap().len(),
        4,
        "held ones that nobody measures are there"
    );
    for one in list
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["gpu_id"].is_null())
    {
        assert_eq!(
            (&one["status"], &one["pod"], &one["score"]),
            (&json!("unknown"), &json!(pods[0]), &Value::Null)
        );
    }
    let stats = scene.json(&arguments("stats"));
    assert_eq!(
        (
            &stats["total_gpus"],
            &stats["by_status"]["unknown"],
            &stats["idle_count"]
        ),
        (&json!(4), &json!(2), &json!(0))
    );
    near(&stats["avg_score"], f64::midpoint(by_hand[0], by_hand[1]));
    let long = scene.json(&["score", "--window", "1h", "--step", "30s"]);
    for one in long.as_array().unwrap() {
        assert_eq!(
            (&one["status"], &one["score"]),
            (&json!("unknown"), &Value::Null),
            "an hour of which a minute was sampled: {one:#}"
        );
    }
    let stats = scene.json(&["score", "stats", "--window", "1h"]);
    assert!(
        stats["avg_score"].is_null()
            && stats["idle_count"] == 0
            && stats["by_status"]["unknown"] == stats["total_gpus"]
    );
    // Without Prometheus there is no answer.
    let run = scene
        .gpuctl_at("http://127.0.0.1:1", &["score", "stats", "-o", "json"], "")
        .exits(6);
    assert_eq!(run.out, "");
}

#[test]
fn a_pod_that_has_just_begun_is_not_idle_for_what_was_before_it() {
    let scene = Scene::new("begun", 1);
    // The devices stand idle for longer than the window before anybody has them.
    let idle_until = std::time::Instant::now() + std::time::Duration::from_secs(14);
    scene.until(&scene.nodes(), |list| {
        list["coverage"]["gpusSampled"] == 8 && std::time::Instant::now() > idle_until
    });
    // They are busy from before the pod begins, so that nothing depends on how fast this test is.
    scene.exporter.change(|fleet| {
        fleet
            .gpus
            .iter_mut()
            .for_each(|gpu| (gpu.utilization, gpu.memory_copy) = (95.0, 95.0));
    });
    std::thread::sleep(std::time::Duration::from_secs(2));
    scene.train("work", 1, 2);
    scene.until(&["score", "--window", "12s", "--step", "1s"], |list| {
        let all = list.as_array().unwrap();
        assert!(
            all.iter()
                .all(|one| one["status"] != "idle" && one["status"] != "low"),
            "{list:#}"
        );
        all.len() == 2 && all.iter().all(|one| one["gpu_util"] == 95.0)
    });
}

#[test]
fn a_server_is_judged_by_its_requests_and_not_by_its_memory() {
    let scene = Scene::new("served", 1);
    let (silent, busy) = (
        scene.train("silent", 1, 1).remove(0),
        scene.train("busy", 1, 1).remove(0),
    );
    // The first has its model in memory and is low by its score of 19; the second is idle by its
    // score of 1.
    for (pod, used) in [(&silent, 72_000), (&busy, 800)] {
        scene.load(pod, |_, gpu| {
            (gpu.utilization, gpu.memory_copy, gpu.watts) = (0.0, 0.0, 40.0);
            (gpu.used_mib, gpu.free_mib) = (used, 80_000 - used);
        });
    }
    let told = |list: &Value, pod: &str| {
        let one = list
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["pod"] == pod)
            .cloned()
            .unwrap_or_default();
        [one["status"].clone(), one["serving"].clone()]
    };
    let arguments = [&["score", "results"], &SHORT[..]].concat();
    scene.until(&arguments, |list| {
        told(list, &silent) == [json!("low"), Value::Null]
            && told(list, &busy) == [json!("idle"), Value::Null]
    });
    let requests = |pod: &str, running: u32| {
        let labels = format!("namespace=\"served\",pod=\"{pod}\",model_name=\"m\"");
        format!(
            "vllm:num_requests_running{{{labels}}} {running}\nvllm:num_requests_waiting{{{labels}}} 0\nvllm:request_success_total{{{labels}}} 41\n"
        )
    };
    scene
        .exporter
        .change(|fleet| fleet.extra = requests(&silent, 0) + &requests(&busy, 1));
    let list = scene.until(&arguments, |list| {
        told(list, &silent) == [json!("idle"), json!("idle")]
            && told(list, &busy) == [json!("normal"), json!("active")]
    });
    near(
        &list
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["pod"] == silent.as_str())
            .unwrap()["score"],
        19.0,
    );
    let low = scene.json(&[&["score", "low"], &SHORT[..]].concat());
    assert_eq!(
        (&low["count"], &low["gpus"][0]["pod"]),
        (&json!(1), &json!(silent))
    );
    // A server may be needed at once: it is named to nobody unless that is wished.
    let control = |more: &[&str]| {
        let address = ["score", "--control-api", "http://127.0.0.1:1/x"];
        scene
            .gpuctl_at(
                &scene.prometheus,
                &[&address[..], more, &SHORT[..]].concat(),
                "",
            )
            .ok()
            .err
    };
    assert!(
        !control(&[]).contains("are skipped") && !control(&[]).contains("would post"),
        "{}",
        control(&[])
    );
    assert!(
        control(&["--control-serving"]).contains("1 low GPUs are skipped"),
        "{}",
        control(&["--control-serving"])
    );
}
