//! Compares scores in special cases with plain arithmetic: missing terms, MIG, AMD, two replicas of
//! Prometheus, garbage and gaps.

use std::time::Duration;

use gpuctl_sandbox::eventually;
use gpuctl_sandbox::exporter::Dialect;
use gpuctl_sandbox::nodes::{in_pool, node};
use serde_json::{Value, json};

use crate::support::{A100, Scene, gpu, near, scrape};

const SHORT: [&str; 5] = ["score", "--window", "6s", "--step", "1s"];

/// Retries until `count` devices have a score.
fn scores(scene: &Scene, prometheus: &str, count: usize) -> Value {
    eventually(
        &format!("{count} devices have a score"),
        Duration::from_secs(40),
        || {
            let list = scene
                .gpuctl_at(prometheus, &[&SHORT[..], &["-o", "json"]].concat(), "")
                .ok()
                .json();
            let rows = list.as_array().unwrap().iter();
            if rows.filter(|row| row["score"].is_number()).count() == count {
                Ok(list)
            } else {
                Err(list)
            }
        },
    )
}

#[test]
fn scores_are_reweighted_when_a_term_is_missing() {
    let scene = Scene::new("terms", 1);
    let pods = scene.train("work", 1, 1);
    scene.load(&pods[0], |_, gpu| {
        (gpu.utilization, gpu.memory_copy, gpu.watts) = (60.0, 30.0, 200.0);
        (gpu.used_mib, gpu.free_mib) = (20_000, 60_000);
    });
    // Terms: 60, 30, 25 (20,000 of 80,000 MiB), 50 (200 of 400 W).
    let without = |metric: &str| {
        let mut scrape = scrape(&scene.exporter, Dialect::Dcgm, false);
        scrape["metric_relabel_configs"] =
            json!([{"source_labels": ["__name__"], "regex": metric, "action": "drop"}]);
        scene
            .cluster
            .another_prometheus(&format!("without-{}", metric.len()), &json!([scrape]))
            .unwrap()
    };
    let complete = scores(&scene, &scene.prometheus, 1);
    near(
        &complete[0]["score"],
        0.5 * 60.0 + 0.2 * 30.0 + 0.2 * 25.0 + 0.1 * 50.0,
    );
    let weighted = scene.json(&[&SHORT[..], &["--weights", "1,3,0,0"]].concat());
    near(&weighted[0]["score"], (60.0 + 3.0 * 30.0) / 4.0);
    for (metric, score, terms) in [
        (
            "DCGM_FI_DEV_MEM_COPY_UTIL",
            (0.5 * 60.0 + 0.2 * 25.0 + 0.1 * 50.0) / 0.8,
            json!(["gpu_util", "mem_used", "power_usage"]),
        ),
        (
            "DCGM_FI_DEV_FB_(FREE|USED)",
            (0.5 * 60.0 + 0.2 * 30.0 + 0.1 * 50.0) / 0.8,
            json!(["gpu_util", "mem_copy", "power_usage"]),
        ),
        (
            "DCGM_FI_DEV_POWER_USAGE",
            (0.5 * 60.0 + 0.2 * 30.0 + 0.2 * 25.0) / 0.9,
            json!(["gpu_util", "mem_copy", "mem_used"]),
        ),
    ] {
        let list = scores(&scene, &without(metric), 1);
        near(&list[0]["score"], score);
        assert_eq!(
            (&list[0]["terms"], &list[0]["status"]),
            (&terms, &json!("normal")),
            "{metric}"
        );
    }
    // Without utilization the device is unknown, and not low.
    let list = scores(&scene, &without("DCGM_FI_DEV_GPU_UTIL"), 1);
    assert_eq!(
        (&list[0]["status"], &list[0]["gpu_util"]),
        (&json!("unknown"), &Value::Null)
    );
    // Without free memory, the total comes from the model: 81,920 MiB.
    let list = scores(&scene, &without("DCGM_FI_DEV_FB_FREE"), 1);
    near(
        &list[0]["score"],
        0.5 * 60.0 + 0.2 * 30.0 + 0.2 * (20_000.0 / 81_920.0 * 100.0) + 0.1 * 50.0,
    );
    // Without a power limit, it comes from the model: also 400 W.
    let list = scores(
        &scene,
        &without("DCGM_FI_DEV_(ENFORCED_)?POWER_(MGMT_)?LIMIT"),
        1,
    );
    near(&list[0]["score"], 46.0);
    scene.exporter.change(|fleet| {
        fleet
            .gpus
            .iter_mut()
            .for_each(|gpu| gpu.model = "NVIDIA Unheard-Of".to_owned());
    });
    let without_limits = without("DCGM_FI_DEV_(ENFORCED_|_)?POWER_(MGMT_)?LIMIT");
    let list = scores(&scene, &without_limits, 1);
    assert_eq!(
        list[0]["terms"],
        json!(["gpu_util", "mem_copy", "mem_used"]),
        "the power limit of an unknown model is unknown"
    );
    near(&list[0]["power_usage"], 200.0);
    let list = scores(&scene, &without("(DCGM_FI_DEV_FB_FREE)"), 1);
    assert_eq!(
        list[0]["terms"],
        json!(["gpu_util", "mem_copy"]),
        "the memory of an unknown model is unknown"
    );
    near(&list[0]["mem_used_mb"], 20_000.0);
}

#[test]
fn scores_of_mig_amd_and_replicas_are_exact_despite_garbage_and_gaps() {
    let scene = Scene::new("kinds", 1);
    let admin = scene.cluster.kubectl(gpuctl_sandbox::Persona::Admin);
    scene.cluster.add_nodes(&[in_pool(
        node("kinds-mig", Some(A100), &[("nvidia.com/mig-1g.10gb", 7)]),
        "kinds",
    )]);
    let pods = scene.train("work", 1, 2);
    admin.apply(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "instance", "namespace": "kinds"},
        "spec": {"nodeName": "kinds-mig", "containers": [{"name": "main", "image": "busybox", "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}]}}));
    admin.run(&[
        "wait",
        "--for=condition=Ready",
        "--timeout=60s",
        "pod/instance",
        "-n",
        "kinds",
    ]);
    scene.load(&pods[0], |index, gpu| {
        (gpu.utilization, gpu.memory_copy, gpu.watts) = ([80.0, 4.0][index as usize], 40.0, 300.0);
        (gpu.used_mib, gpu.free_mib) = (32_000, 48_000);
    });
    scene.exporter.change(|fleet| {
        for instance in 1..=7 {
            let mut slice = gpu("kinds-mig", 0);
            (slice.instance, slice.utilization) = (Some(("1g.10gb".to_owned(), instance)), 0.0);
            (slice.used_mib, slice.free_mib) = (2048, 8192);
            if instance == 3 {
                slice.pods = vec![("kinds".to_owned(), "instance".to_owned(), "main".to_owned())];
                slice.utilization = 37.5;
            }
            fleet.gpus.push(slice);
        }
    });
    let list = scores(&scene, &scene.prometheus, 3);
    // 40 + 8 + 8 + 7.5, 2 + 8 + 8 + 7.5.
    let expected = [63.5, 25.5];
    near(&list[0]["score"], expected[0]);
    near(&list[1]["score"], expected[1]);
    // An instance has no GPU_UTIL, so the activity of its graphics engine is used, and the existing
    // terms are reweighted.
    let instance = &list[2];
    assert_eq!(
        (&instance["pod"], &instance["slice"]),
        (&json!("instance"), &json!("1g.10gb"))
    );
    near(&instance["gpu_util"], 37.5);
    let value = |term: &str| match term {
        "gpu_util" => (0.5, 37.5),
        "mem_copy" => (0.2, instance["mem_copy"].as_f64().unwrap()),
        "mem_used" => (0.2, 20.0),
        _ => (
            0.1,
            instance["power_usage"].as_f64().unwrap() / 400.0 * 100.0,
        ),
    };
    let terms: Vec<(f64, f64)> = instance["terms"]
        .as_array()
        .unwrap()
        .iter()
        .map(|term| value(term.as_str().unwrap()))
        .collect();
    let (weights, sum) = terms
        .iter()
        .fold((0.0, 0.0), |(weights, sum), (weight, term)| {
            (weights + weight, sum + weight * term)
        });
    near(&instance["score"], sum / weights);

    // Two replicas, and other dialects: the same scores, each device once.
    let replica = |name: &str, dialect, honor_labels| {
        let mut scrape = scrape(&scene.exporter, dialect, honor_labels);
        scrape["job_name"] = json!(name);
        scrape["static_configs"][0]["labels"]["prometheus_replica"] = json!(name);
        scrape
    };
    let both = json!([
        replica("a", Dialect::Dcgm, false),
        replica("b", Dialect::Dcgm, false)
    ]);
    let twice = scene.cluster.another_prometheus("twice", &both).unwrap();
    let list = scores(&scene, &twice, 3);
    near(&list[0]["score"], expected[0]);
    near(&list[1]["score"], expected[1]);
    for (name, dialect, honor_labels) in [
        ("new", Dialect::DcgmNew, true),
        ("amd", Dialect::Amd, true),
        ("amd-prefixed", Dialect::AmdPrefixed, false),
    ] {
        let prometheus = scene
            .cluster
            .another_prometheus(name, &json!([replica(name, dialect, honor_labels)]))
            .unwrap();
        let list = eventually(
            &format!("{name} has samples of the whole window"),
            Duration::from_secs(40),
            || {
                let list = scene
                    .gpuctl_at(&prometheus, &[&SHORT[..], &["-o", "json"]].concat(), "")
                    .ok()
                    .json();
                if list[0]["samples"].as_u64() >= Some(6) {
                    Ok(list)
                } else {
                    Err(list)
                }
            },
        );
        let row = &list[0];
        // AMD exports no power limit, and gpuctl knows none for this model, so the score omits
        // power.
        let score = if row["terms"].as_array().unwrap().len() == 4 {
            63.5
        } else {
            (40.0 + 8.0 + 8.0) / 0.9
        };
        near(&row["score"], score);
        near(&row["gpu_util"], 80.0);
    }

    // Garbage next to every sample, and another order of series, do not matter.
    scene
        .exporter
        .change(|fleet| (fleet.garbage, fleet.reversed) = (true, true));
    // A part of the score window must contain garbage.
    std::thread::sleep(Duration::from_secs(3));
    let list = scores(&scene, &scene.prometheus, 3);
    near(&list[0]["score"], expected[0]);
    near(&list[1]["score"], expected[1]);
    // A gap does not lower the score: the device keeps its status, then it is unknown, never idle.
    scene.exporter.change(|fleet| {
        fleet
            .gpus
            .iter_mut()
            .filter(|gpu| gpu.index == 0 && gpu.instance.is_none())
            .for_each(|gpu| gpu.silent = true);
    });
    scene.until(&SHORT, |list| {
        let all = list.as_array().unwrap();
        let silent: Vec<&Value> = all
            .iter()
            .filter(|row| row["pod"] == json!(pods[0]) && row["device_index"] != 1)
            .collect();
        assert_eq!((all.len(), silent.len()), (3, 1), "{list:#}");
        assert!(
            silent[0]["status"] == "normal" || silent[0]["status"] == "unknown",
            "{list:#}"
        );
        silent[0]["status"] == "unknown"
    });
    scene
        .exporter
        .change(|fleet| fleet.gpus.iter_mut().for_each(|gpu| gpu.silent = false));
    let list = scores(&scene, &scene.prometheus, 3);
    near(&list[0]["score"], expected[0]);
}

#[test]
fn a_config_file_and_every_environment_variable_are_used() {
    use crate::support::{file, gpuctl, run};
    let scene = Scene::new("variables", 1);
    let pods = scene.train("work", 1, 2);
    scene.load(&pods[0], |index, gpu| {
        (gpu.utilization, gpu.memory_copy, gpu.watts) = ([40.0, 0.0][index as usize], 0.0, 40.0);
    });
    let list = scores(&scene, &scene.prometheus, 2);
    // 20 + 0 + 0.2 · 512 / 80,000 · 100 + 0.1 · 10.
    near(&list[0]["score"], 20.0 + 0.2 * 0.64 + 1.0);
    // The documented config file, with Chinese comments. The environment overrides its address.
    let document = "# config.yaml\nprometheus:\n  url: \"http://prometheus:9090\"    # Prometheus 地址\n  time_window_min: 10               # 时间窗口（分钟）\n  step: \"30s\"                       # 查询步长\n\nscoring:\n  gpu_util_weight: 0.5      # GPU 核心使用率权重（50%）\n  mem_copy_weight: 0.2      # 内存带宽使用率权重（20%）\n  mem_used_weight: 0.2      # 显存使用权重（20%）\n  power_weight: 0.1         # 功率权重（10%）\n\nthresholds:\n  low_utilization: 20       # 低利用率阈值（%）\n  idle: 10                  # 闲置阈值（%）\n\nscheduler:\n  interval: 300             # 轮询周期（秒）\n  max_workers: 8            # 最大并发线程数\n\nai:\n  enabled: false            # 是否启用 AI 分析\n  api_url: \"\"               # AI API 地址\n  api_key: \"\"               # API 密钥（建议用环境变量）\n  model: \"gpt-4\"            # AI 模型\n  threshold: 0.7            # 置信度阈值\n\ncontrol:\n  enabled: false            # 是否启用控制接口\n  api_url: \"\"               # 控制接口地址\n  timeout: 5                # 超时时间（秒）\n";
    let config = file("document.yaml", document);
    let score = |arguments: &[&str], environment: &[(&str, &str)]| {
        let mut command = gpuctl(scene.cluster, gpuctl_sandbox::Persona::Admin);
        command
            .args([
                "-n",
                scene.name,
                "--config",
                config.to_str().unwrap(),
                "score",
            ])
            .args(arguments);
        command.envs(environment.iter().copied());
        run(command, "")
    };
    let address = ("PROM_URL", scene.prometheus.as_str());
    let low = score(&["low", "-o", "json"], &[address]).ok();
    // The window of ten minutes is longer than the test, so the scores are unknown.
    assert_eq!(
        (&low.json()["threshold"], &low.json()["count"]),
        (&json!(20.0), &json!(0))
    );
    low.says("2 of 2 held GPUs have too few samples in the window");
    let short = ["low", "-o", "json", "--window", "6s", "--step", "1s"];
    assert_eq!(score(&short, &[address]).ok().json()["count"], 1);
    let low = score(&short, &[address, ("THRESHOLD", "30")]).ok().json();
    assert_eq!(
        (&low["count"], &low["threshold"]),
        (&json!(2), &json!(30.0))
    );
    let low = score(
        &[&short[..], &["--threshold", "15"]].concat(),
        &[address, ("THRESHOLD", "30")],
    )
    .ok()
    .json();
    assert_eq!(
        (&low["count"], &low["threshold"]),
        (&json!(1), &json!(15.0)),
        "a flag overrides the environment"
    );
    score(&short, &[address, ("THRESHOLD", "many")])
        .exits(2)
        .says("THRESHOLD is `many`, which is not a number from 0 to 100");
    score(&short, &[address, ("INTERVAL", "soon")])
        .exits(2)
        .says("INTERVAL is `soon`");
    score(&short, &[address, ("AI_ENABLED", "true")])
        .exits(2)
        .says("no AI is configured");
    score(&short, &[address, ("AI_ENABLED", "perhaps")])
        .exits(2)
        .says("AI_ENABLED is `perhaps`, which is not true or false");
    // Other commands ignore variables that only `score` reads.
    let mut command = gpuctl(scene.cluster, gpuctl_sandbox::Persona::Admin);
    command.args(["get", "nodes"]).envs([
        address,
        ("THRESHOLD", "many"),
        ("INTERVAL", "soon"),
        ("LOG_LEVEL", "7"),
    ]);
    run(command, "").ok();
    // LOG_LEVEL decides which messages are printed.
    let stderr_at = |level: &str| {
        score(
            &[
                "low",
                "--window",
                "6s",
                "--step",
                "1s",
                "--threshold",
                "1",
                "--idle",
                "0",
            ],
            &[address, ("LOG_LEVEL", level)],
        )
        .ok()
        .err
    };
    assert!(
        stderr_at("DEBUG").contains("prometheus http://127.0.0.1:")
            && !stderr_at("INFO").contains("prometheus http")
    );
    assert!(
        stderr_at("INFO").contains("is low")
            && stderr_at("WARNING").is_empty()
            && stderr_at("ERROR").is_empty()
    );
    score(&short, &[address, ("LOG_LEVEL", "LOUD")])
        .exits(2)
        .says("LOG_LEVEL is `LOUD`");
}
