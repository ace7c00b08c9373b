//! Scores of devices that are no plain ones: a term missing, MIG, AMD, two replicas of Prometheus,
//! garbage, gaps. Each by arithmetic that is written out.

use gpuctl_sandbox::exporter::Dialect;
use gpuctl_sandbox::nodes::{in_pool, node};
use serde_json::{Value, json};

use crate::support::{A100, Scene, gpu, near, scrape};

const SHORT: [&str; 5] = ["score", "--window", "6s", "--step", "1s"];

/// Asks a Prometheus until every device has a score.
fn settled(scene: &Scene, prometheus: &str, count: usize) -> Value {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(40);
    loop {
        let list = scene
            .gpuctl_at(prometheus, &[&SHORT[..], &["-o", "json"]].concat(), "")
            .ok()
            .json();
        let known = list
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["score"].is_number())
            .count();
        if known == count {
            return list;
        }
        assert!(std::time::Instant::now() < end, "{list:#}");
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
}

#[test]
fn each_term_missing_in_turn() {
    let scene = Scene::new("terms", 1);
    let pods = scene.train("work", 1, 1);
    scene.load(&pods[0], |_, gpu| {
        (gpu.utilization, gpu.memory_copy, gpu.watts) = (60.0, 30.0, 200.0);
        (gpu.used_mib, gpu.free_mib) = (20_000, 60_000);
    });
    // Terms: 60, 30, 25 % of 80,000 MiB, 50 % of 400 W.
    let without = |metric: &str| {
        let mut scrape = scrape(&scene.exporter, Dialect::Dcgm, false);
        scrape["metric_relabel_configs"] =
            json!([{"source_labels": ["__name__"], "regex": metric, "action": "drop"}]);
        scene
            .cluster
            .another_prometheus(&format!("without-{}", metric.len()), &json!([scrape]))
            .unwrap()
    };
    let all = settled(&scene, &scene.prometheus, 1);
    near(
        &all[0]["score"],
        0.5 * 60.0 + 0.2 * 30.0 + 0.2 * 25.0 + 0.1 * 50.0,
    );
    let weighed = scene.json(&[&SHORT[..], &["--weights", "1,3,0,0"]].concat());
    near(&weighed[0]["score"], (60.0 + 3.0 * 30.0) / 4.0);
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
        let list = settled(&scene, &without(metric), 1);
        near(&list[0]["score"], score);
        assert_eq!(
            (&list[0]["terms"], &list[0]["status"]),
            (&terms, &json!("normal")),
            "{metric}"
        );
    }
    // Without its first term a score says nothing: the device is unknown, and never low.
    let list = settled(&scene, &without("DCGM_FI_DEV_GPU_UTIL"), 1);
    assert_eq!(
        (&list[0]["status"], &list[0]["gpu_util"]),
        (&json!("unknown"), &Value::Null)
    );
    // What there is of memory is known of the model where nobody measures it: 81,920 MiB.
    let list = settled(&scene, &without("DCGM_FI_DEV_FB_FREE"), 1);
    near(
        &list[0]["score"],
        0.5 * 60.0 + 0.2 * 30.0 + 0.2 * (20_000.0 / 81_920.0 * 100.0) + 0.1 * 50.0,
    );
    // The power that the model may draw, where no limit is exported, is 400 W for this one as well.
    let list = settled(
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
    let unheard = without("DCGM_FI_DEV_(ENFORCED_|_)?POWER_(MGMT_)?LIMIT");
    let list = settled(&scene, &unheard, 1);
    assert_eq!(
        list[0]["terms"],
        json!(["gpu_util", "mem_copy", "mem_used"]),
        "of an unknown model, the share is unknown"
    );
    near(&list[0]["power_usage"], 200.0);
    let list = settled(&scene, &without("(DCGM_FI_DEV_FB_FREE)"), 1);
    assert_eq!(
        list[0]["terms"],
        json!(["gpu_util", "mem_copy"]),
        "neither is its memory"
    );
    near(&list[0]["mem_used_mb"], 20_000.0);
}

#[test]
fn instances_amd_devices_copies_garbage_and_gaps() {
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
    scene.load(&pods[0], |place, gpu| {
        (gpu.utilization, gpu.memory_copy, gpu.watts) = ([80.0, 4.0][place as usize], 40.0, 300.0);
        (gpu.used_mib, gpu.free_mib) = (32_000, 48_000);
    });
    scene.exporter.change(|fleet| {
        for instance in 1..=7 {
            let mut one = gpu("kinds-mig", 0);
            (one.instance, one.utilization) = (Some(("1g.10gb".to_owned(), instance)), 0.0);
            (one.used_mib, one.free_mib) = (2048, 8192);
            if instance == 3 {
                one.pods = vec![("kinds".to_owned(), "instance".to_owned(), "main".to_owned())];
                one.utilization = 37.5;
            }
            fleet.gpus.push(one);
        }
    });
    let list = settled(&scene, &scene.prometheus, 3);
    // 40 + 8 + 8 + 7.5, 2 + 8 + 8 + 7.5.
    let by_hand = [63.5, 25.5];
    near(&list[0]["score"], by_hand[0]);
    near(&list[1]["score"], by_hand[1]);
    // An instance has no GPU_UTIL: the time in which its engine was active stands for it, and what
    // it has is re-weighted.
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

    // Two replicas and another dialect's names: the same scores, each device once.
    let replica = |name: &str, dialect, honors| {
        let mut scrape = scrape(&scene.exporter, dialect, honors);
        scrape["job_name"] = json!(name);
        scrape["static_configs"][0]["labels"]["prometheus_replica"] = json!(name);
        scrape
    };
    let both = json!([
        replica("a", Dialect::Dcgm, false),
        replica("b", Dialect::Dcgm, false)
    ]);
    let twice = scene.cluster.another_prometheus("twice", &both).unwrap();
    let list = settled(&scene, &twice, 3);
    near(&list[0]["score"], by_hand[0]);
    near(&list[1]["score"], by_hand[1]);
    for (name, dialect, honors) in [
        ("new", Dialect::DcgmNew, true),
        ("amd", Dialect::Amd, true),
        ("amd-prefixed", Dialect::AmdPrefixed, false),
    ] {
        let other = scene
            .cluster
            .another_prometheus(name, &json!([replica(name, dialect, honors)]))
            .unwrap();
        let end = std::time::Instant::now() + std::time::Duration::from_secs(40);
        loop {
            let list = scene
                .gpuctl_at(&other, &[&SHORT[..], &["-o", "json"]].concat(), "")
                .ok()
                .json();
            let one = &list[0];
            if one["samples"].as_u64() >= Some(6) {
                // AMD tells no limit of power, and no table has this model: the other three stand
                // for it.
                let expected = if one["terms"].as_array().unwrap().len() == 4 {
                    63.5
                } else {
                    (40.0 + 8.0 + 8.0) / 0.9
                };
                near(&one["score"], expected);
                near(&one["gpu_util"], 80.0);
                break;
            }
            assert!(std::time::Instant::now() < end, "{name}: {list:#}");
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
    }

    // Garbage beside every sample changes nothing; order neither.
    scene
        .exporter
        .change(|fleet| (fleet.garbage, fleet.reversed) = (true, true));
    std::thread::sleep(std::time::Duration::from_secs(3));
    let list = settled(&scene, &scene.prometheus, 3);
    near(&list[0]["score"], by_hand[0]);
    near(&list[1]["score"], by_hand[1]);
    // A gap lowers no mean: the device is what it was, then unknown, never idle.
    scene.exporter.change(|fleet| {
        fleet
            .gpus
            .iter_mut()
            .filter(|gpu| gpu.index == 0 && gpu.instance.is_none())
            .for_each(|gpu| gpu.silent = true);
    });
    scene.until(&SHORT, |list| {
        let all = list.as_array().unwrap();
        let quiet: Vec<&Value> = all
            .iter()
            .filter(|one| one["pod"] == json!(pods[0]) && one["device_index"] != 1)
            .collect();
        assert_eq!((all.len(), quiet.len()), (3, 1), "{list:#}");
        assert!(
            quiet[0]["status"] == "normal" || quiet[0]["status"] == "unknown",
            "{list:#}"
        );
        quiet[0]["status"] == "unknown"
    });
    scene
        .exporter
        .change(|fleet| fleet.gpus.iter_mut().for_each(|gpu| gpu.silent = false));
    let list = settled(&scene, &scene.prometheus, 3);
    near(&list[0]["score"], by_hand[0]);
}

#[test]
fn each_variable_and_the_file_of_the_document() {
    use crate::support::{file, gpuctl, run};
    let scene = Scene::new("variables", 1);
    let pods = scene.train("work", 1, 2);
    scene.load(&pods[0], |place, gpu| {
        (gpu.utilization, gpu.memory_copy, gpu.watts) = ([40.0, 0.0][place as usize], 0.0, 40.0);
    });
    let list = settled(&scene, &scene.prometheus, 2);
    // 20 + 0 + 0.2 · 512 / 80,000 · 100 + 0.1 · 10.
    near(&list[0]["score"], 20.0 + 0.2 * 0.64 + 1.0);
    // As it stands in the document, Chinese comments and all; only the address is this machine's,
    // from the environment.
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
    let at = ("PROM_URL", scene.prometheus.as_str());
    let low = score(&["low", "-o", "json"], &[at]).ok();
    assert_eq!(
        (low.err.as_str(), &low.json()["threshold"]),
        ("", &json!(20.0))
    );
    let short = ["low", "-o", "json", "--window", "6s", "--step", "1s"];
    assert_eq!(score(&short, &[at]).ok().json()["count"], 1);
    let low = score(&short, &[at, ("THRESHOLD", "30")]).ok().json();
    assert_eq!(
        (&low["count"], &low["threshold"]),
        (&json!(2), &json!(30.0))
    );
    let low = score(
        &[&short[..], &["--threshold", "15"]].concat(),
        &[at, ("THRESHOLD", "30")],
    )
    .ok()
    .json();
    assert_eq!(
        (&low["count"], &low["threshold"]),
        (&json!(1), &json!(15.0)),
        "a flag comes before the environment"
    );
    score(&short, &[at, ("THRESHOLD", "many")])
        .exits(2)
        .says("THRESHOLD is `many`, which is not a number from 0 to 100");
    score(&short, &[at, ("INTERVAL", "soon")])
        .exits(2)
        .says("INTERVAL is `soon`");
    score(&short, &[at, ("AI_ENABLED", "true")])
        .exits(2)
        .says("no AI is configured");
    score(&short, &[at, ("AI_ENABLED", "perhaps")])
        .exits(2)
        .says("AI_ENABLED is `perhaps`, which is not true or false");
    // What only `score` reads disturbs nobody else.
    let mut command = gpuctl(scene.cluster, gpuctl_sandbox::Persona::Admin);
    command.args(["get", "nodes"]).envs([
        at,
        ("THRESHOLD", "many"),
        ("INTERVAL", "soon"),
        ("LOG_LEVEL", "7"),
    ]);
    run(command, "").ok();
    // How much is said.
    let said = |level: &str| {
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
            &[at, ("LOG_LEVEL", level)],
        )
        .ok()
        .err
    };
    assert!(
        said("DEBUG").contains("prometheus http://127.0.0.1:")
            && !said("INFO").contains("prometheus http")
    );
    assert!(
        said("INFO").contains("is low") && said("WARNING").is_empty() && said("ERROR").is_empty()
    );
    score(&short, &[at, ("LOG_LEVEL", "LOUD")])
        .exits(2)
        .says("LOG_LEVEL is `LOUD`");
}
