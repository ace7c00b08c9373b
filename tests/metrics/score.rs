//! Scores from a real Prometheus, compared with plain arithmetic. A GPU without samples is never
//! idle.

use serde_json::{Value, json};

use crate::support::{Scene, file, near};

/// A window that is short enough for a test to wait for.
const SHORT: [&str; 4] = ["--window", "6s", "--step", "1s"];

fn device(list: &Value, index: u64) -> &Value {
    list.as_array()
        .unwrap()
        .iter()
        .find(|row| row["device_index"] == index)
        .unwrap()
}

#[test]
fn scores_match_the_formula_and_unknown_gpus_are_not_idle() {
    let scene = Scene::new("scored", 1);
    let pods = scene.train("work", 1, 4);
    // Utilization, memory copy, MiB of 80,000, watts of 400.
    let loads = [
        (90.0, 60.0, 60_000, 320.0),
        (50.0, 10.0, 20_000, 160.0),
        (14.0, 5.0, 8000, 80.0),
        (0.0, 0.0, 800, 40.0),
    ];
    scene.load(&pods[0], |index, gpu| {
        let (utilization, copy, used, watts) = loads[index as usize];
        (gpu.utilization, gpu.memory_copy, gpu.watts) = (utilization, copy, watts);
        (gpu.used_mib, gpu.free_mib) = (used, 80_000 - used);
    });
    let expected_scores: Vec<f64> = loads
        .iter()
        .map(|(utilization, copy, used, watts)| {
            0.5 * utilization
                + 0.2 * copy
                + 0.2 * (*used as f64 / 80_000.0 * 100.0)
                + 0.1 * (watts / 400.0 * 100.0)
        })
        .collect();
    // 80, 36, 12 and 1.2 are in different bands.
    assert_eq!(
        expected_scores
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
            .filter_map(|row| row["score"].as_f64())
            .collect();
        scores.len() == 4
            && scores
                .iter()
                .zip(&expected_scores)
                .all(|(actual, expected)| (actual - expected).abs() < 0.006)
    };
    let list = scene.until(&arguments("results"), settled);
    assert_eq!(list.as_array().unwrap().len(), 4, "only held GPUs");
    for (index, (score, status)) in expected_scores
        .iter()
        .zip(["high", "normal", "low", "idle"])
        .enumerate()
    {
        let row = device(&list, index as u64);
        near(&row["score"], *score);
        assert_eq!(
            (&row["status"], &row["pod"], &row["namespace"]),
            (&json!(status), &json!(pods[0]), &json!("scored"))
        );
        assert_eq!(
            row["terms"],
            json!(["gpu_util", "mem_copy", "mem_used", "power_usage"])
        );
        assert_eq!(
            (&row["gpu_id"], &row["ai_analysis"]),
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
        (expected_scores[0] + expected_scores[1] + expected_scores[2] + expected_scores[3]) / 4.0,
    );
    near(&stats["min_score"], expected_scores[3]);
    near(&stats["max_score"], expected_scores[0]);
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
    // Thresholds and weights from a flag and from a config file.
    let low = scene.json(&[&["score", "low", "--threshold", "40"], &SHORT[..]].concat());
    assert_eq!(low["count"], 3);
    let config = file(
        "monitor.yaml",
        "thresholds: {low_utilization: 40, idle: 20}\nscoring: {gpu_util_weight: 1.0, mem_copy_weight: 0, mem_used_weight: 0, power_weight: 0}\nprometheus: {time_window_min: 0.1, step: 1s}\n",
    );
    let list = scene.json(&["--config", config.to_str().unwrap(), "score"]);
    assert_eq!(
        (&device(&list, 2)["score"], &device(&list, 2)["status"]),
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
        "the count includes all pages"
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
    // `--all` adds free GPUs.
    let all = scene
        .gpuctl(&[&["score", "--all", "-o", "json"], &SHORT[..]].concat())
        .ok()
        .json();
    assert_eq!(
        all.as_array().unwrap().len(),
        4,
        "free GPUs are in no namespace, and a namespace is set"
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

    // The text format is valid for promtool and has the same numbers.
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
    // promtool also warns about metric names, which are fixed. Only parsing errors matter.
    let lint = String::from_utf8(checked.stderr).unwrap();
    assert!(
        !lint.contains("error while linting") && !lint.contains("parsing error"),
        "{lint}"
    );
    let pod = &pods[0];
    let line = format!(
        "gpu_core_utilization{{gpu_id=\"GPU-scored-0-0\",pod=\"{pod}\",namespace=\"scored\",node=\"scored-0\"}} 90\n"
    );
    assert!(text.contains(&line), "{text}");
    // The status is a separate family, so that a change does not end the series of the score.
    let lines_of = |name: &str| {
        let begin = format!("{name}{{gpu_id=\"GPU-scored-0-0\"");
        let lines = text.lines().filter(|line| line.starts_with(&begin));
        lines.map(ToOwned::to_owned).collect::<Vec<String>>()
    };
    let scores = lines_of("gpu_utilization_score");
    assert!(
        scores.len() == 1 && !scores[0].contains("status="),
        "{scores:?}"
    );
    // One series for each of idle, low, normal, high and unknown.
    let statuses = lines_of("gpu_utilization_status");
    let current = statuses.iter().filter(|line| line.ends_with(" 1")).count();
    assert_eq!((statuses.len(), current), (5, 1), "{statuses:?}");
    assert!(!text.contains("cluster="), "no name is configured: {text}");
    assert!(
        text.contains("gpu_status_count{status=\"idle\"} 1\n")
            && text.contains("gpu_low_utilization_count 2\n"),
        "{text}"
    );

    // Two devices become silent: the other two keep their scores, and the silent ones are unknown
    // and do not lower the mean.
    scene.exporter.change(|fleet| {
        fleet
            .gpus
            .iter_mut()
            .filter(|gpu| gpu.index >= 2)
            .for_each(|gpu| gpu.silent = true);
    });
    let unknown_count = |list: &Value| {
        list.as_array()
            .unwrap()
            .iter()
            .filter(|row| row["gpu_id"].is_null())
            .count()
    };
    let list = scene.until(&arguments("results"), |list| {
        // Until then their scores must not fall.
        for row in list
            .as_array()
            .unwrap()
            .iter()
            .filter(|row| row["device_index"].as_u64() >= Some(2))
        {
            assert!(
                row["status"] == "unknown"
                    || row["score"].as_f64() >= Some(expected_scores[3] - 0.006),
                "{row:#}"
            );
        }
        unknown_count(list) == 2
    });
    near(&device(&list, 0)["score"], expected_scores[0]);
    assert_eq!(
        list.as_array().unwrap().len(),
        4,
        "held GPUs are listed without samples too"
    );
    for row in list
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["gpu_id"].is_null())
    {
        assert_eq!(
            (&row["status"], &row["pod"], &row["score"]),
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
    near(
        &stats["avg_score"],
        f64::midpoint(expected_scores[0], expected_scores[1]),
    );
    let long = scene.json(&["score", "--window", "1h", "--step", "30s"]);
    for row in long.as_array().unwrap() {
        assert_eq!(
            (&row["status"], &row["score"]),
            (&json!("unknown"), &Value::Null),
            "an hour with samples of one minute: {row:#}"
        );
    }
    let stats = scene.json(&["score", "stats", "--window", "1h"]);
    assert!(
        stats["avg_score"].is_null()
            && stats["idle_count"] == 0
            && stats["by_status"]["unknown"] == stats["total_gpus"]
    );
    // Without Prometheus the command fails.
    let run = scene
        .gpuctl_at("http://127.0.0.1:1", &["score", "stats", "-o", "json"], "")
        .exits(6);
    assert_eq!(run.out, "");
}

#[test]
fn a_new_pod_is_not_idle_because_of_samples_before_its_start() {
    let scene = Scene::new("begun", 1);
    // The free devices are idle for longer than the score window.
    let idle_until = std::time::Instant::now() + std::time::Duration::from_secs(14);
    scene.until(&scene.nodes(), |list| {
        list["coverage"]["gpusSampled"] == 8 && std::time::Instant::now() > idle_until
    });
    // The load begins before the pod, so that the result does not depend on the speed of the test.
    scene.exporter.change(|fleet| {
        fleet
            .gpus
            .iter_mut()
            .for_each(|gpu| (gpu.utilization, gpu.memory_copy) = (95.0, 95.0));
    });
    let details = [&scene.nodes()[..], &["--gpu-detail"]].concat();
    scene.until(&details, |list| {
        let gpus = list["items"][0]["gpus"].as_array().unwrap();
        gpus.len() == 8 && gpus.iter().all(|gpu| gpu["utilization"] == 95.0)
    });
    scene.train("work", 1, 2);
    scene.until(&["score", "--window", "12s", "--step", "1s"], |list| {
        let all = list.as_array().unwrap();
        assert!(
            all.iter()
                .all(|row| row["status"] != "idle" && row["status"] != "low"),
            "{list:#}"
        );
        all.len() == 2 && all.iter().all(|row| row["gpu_util"] == 95.0)
    });
}

#[test]
fn a_server_is_scored_by_its_requests_and_not_by_its_memory() {
    let scene = Scene::new("served", 1);
    let (silent, busy) = (
        scene.train("silent", 1, 1).remove(0),
        scene.train("busy", 1, 1).remove(0),
    );
    // The first server has a model in memory and a score of 19 (low). The second has a score of 1
    // (idle).
    for (pod, used) in [(&silent, 72_000), (&busy, 800)] {
        scene.load(pod, |_, gpu| {
            (gpu.utilization, gpu.memory_copy, gpu.watts) = (0.0, 0.0, 40.0);
            (gpu.used_mib, gpu.free_mib) = (used, 80_000 - used);
        });
    }
    let states = |list: &Value, pod: &str| {
        let row = list
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["pod"] == pod)
            .cloned()
            .unwrap_or_default();
        [row["status"].clone(), row["serving"].clone()]
    };
    let arguments = [&["score", "results"], &SHORT[..]].concat();
    scene.until(&arguments, |list| {
        states(list, &silent) == [json!("low"), Value::Null]
            && states(list, &busy) == [json!("idle"), Value::Null]
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
        states(list, &silent) == [json!("idle"), json!("idle")]
            && states(list, &busy) == [json!("normal"), json!("active")]
    });
    near(
        &list
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["pod"] == silent.as_str())
            .unwrap()["score"],
        19.0,
    );
    let low = scene.json(&[&["score", "low"], &SHORT[..]].concat());
    assert_eq!(
        (&low["count"], &low["gpus"][0]["pod"]),
        (&json!(1), &json!(silent))
    );
    // Serving pods are posted only with `--control-serving`, because a request can arrive anytime.
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
        control(&["--control-serving"]).contains("1 low GPUs were skipped"),
        "{}",
        control(&["--control-serving"])
    );
}
