//! Tests `why` for running jobs with a real Prometheus: a slow rank, and a rank that blocks its
//! peers.

use std::fmt::Write as _;
use std::thread;
use std::time::Duration;

use gpuctl_sandbox::eventually;
use gpuctl_sandbox::exporter::Gpu;
use serde_json::Value;

use crate::support::Scene;

/// Metrics of dcgm-exporter for SM clocks (in MHz) and throttle reasons.
fn clocks(gpus: &[Gpu], clock_and_reasons: impl Fn(&Gpu) -> (u32, u32)) -> String {
    let mut text = String::new();
    for gpu in gpus {
        let Some((namespace, pod, container)) = gpu.pods.first() else {
            continue;
        };
        let (mhz, reasons) = clock_and_reasons(gpu);
        let labels = format!(
            "gpu=\"{}\",UUID=\"{}\",Hostname=\"{}\",modelName=\"{}\",container=\"{container}\",namespace=\"{namespace}\",pod=\"{pod}\"",
            gpu.index, gpu.uuid, gpu.node, gpu.model
        );
        let _ = writeln!(
            text,
            "DCGM_FI_DEV_SM_CLOCK{{{labels}}} {mhz}\nDCGM_FI_DEV_CLOCKS_EVENT_REASONS{{{labels}}} {reasons}"
        );
    }
    text
}

/// Retries until `why` reports this situation.
#[track_caller]
fn until(scene: &Scene, job: &str, situation: &str) -> Value {
    eventually(
        &format!("the situation is {situation}"),
        Duration::from_secs(100),
        || {
            let answer = scene.gpuctl(&["why", job, "-o", "json"]).ok().json();
            if answer["situation"] == situation {
                Ok(answer)
            } else {
                Err(answer)
            }
        },
    )
}

#[test]
fn why_names_a_throttled_rank_and_a_rank_that_blocks_its_peers() {
    let scene = Scene::new("why-peers", 2);
    let pods = scene.train("t", 4, 4);
    let busy = |gpu: &mut Gpu| (gpu.utilization, gpu.watts, gpu.limit_watts) = (98.0, 330.0, 400.0);
    pods.iter()
        .for_each(|pod| scene.load(pod, |_, gpu| busy(gpu)));
    // The third GPU of rank 2 is hot.
    let gpus = scene.gpus();
    let hot = gpus
        .iter()
        .filter(|gpu| gpu.pods.iter().any(|(_, pod, _)| *pod == pods[2]))
        .nth(2)
        .unwrap()
        .clone();
    scene.exporter.change(|fleet| {
        fleet.extra = clocks(&gpus, |gpu| {
            if gpu.uuid == hot.uuid {
                (1110, 0x20)
            } else {
                (1410, 0)
            }
        });
    });
    let slow = until(&scene, "t", "slow");
    let sentence = format!(
        "t is slower than it could be: rank 2 on {}/gpu-{}: SM clock 1110 MHz, its peers 1410 (-21 %), thermal throttle",
        hot.node, hot.index
    );
    assert_eq!(
        (
            slow["causes"][0]["cause"].as_str(),
            slow["sentence"].as_str()
        ),
        (Some("thermal"), Some(sentence.as_str()))
    );
    assert_eq!(slow["causes"].as_array().unwrap().len(), 1, "{slow:#}");
    // All ranks wait for rank 1, which is idle.
    scene
        .exporter
        .change(|fleet| fleet.extra = clocks(&gpus, |_| (1410, 0)));
    for (rank, pod) in pods.iter().enumerate() {
        let (utilization, watts) = if rank == 1 {
            (0.0, 62.0)
        } else {
            (100.0, 90.0)
        };
        scene.load(pod, |_, gpu| {
            (gpu.utilization, gpu.watts) = (utilization, watts);
        });
    }
    // Rank 0 logged a step every nine seconds until five minutes ago.
    let mut log = scene.cluster.pod_log("why-peers", &pods[0], "main");
    let now = jiff::Timestamp::now();
    for step in 0..30 {
        let at = jiff::Timestamp::from_second(now.as_second() - 600 + 9 * step).unwrap();
        log.say_at(at, &format!("step {step}/100 loss 2.3"));
    }
    let stuck = until(&scene, "t", "stuck");
    assert_eq!(stuck["causes"][0]["cause"], "collective-hang", "{stuck:#}");
    let sentence = stuck["sentence"].as_str().unwrap();
    assert_eq!(
        sentence,
        "t hangs: 12 of 16 GPUs show full utilization at 90 W: they wait in a collective for rank 1"
    );
    let evidence = stuck["causes"][0]["evidence"][1]["what"].as_str().unwrap();
    assert!(
        evidence.starts_with("differs: rank 1 on why-peers-")
            && evidence.ends_with(": 0 % utilization, 62 W"),
        "{evidence}"
    );
    // Without metrics only the log shows that the job makes no progress, so the cause is unknown.
    let unknown = scene
        .gpuctl_at("none", &["why", "t", "-o", "json"], "")
        .ok()
        .json();
    assert_eq!(
        (
            unknown["situation"].as_str(),
            unknown["notEvaluated"][0].as_str()
        ),
        (Some("unknown"), Some("activity of its GPUs (no metrics)"))
    );
}

#[test]
fn a_gpu_fault_is_the_cause_of_a_failed_job() {
    let scene = Scene::new("why-fault", 1);
    let yaml = "kind: training\nversion: v0.1\njob: {name: t, retries: 0}\n\
                environment: {image: busybox, command: [train], env: {SIM_SECONDS: 25, SIM_EXIT: 1}}\nresources: {pool: why-fault, gpu: 2}\n";
    scene
        .gpuctl_with(&["create", "-f", "-", "--wait", "--timeout", "60s"], yaml)
        .ok();
    let pods = scene.assign_devices("t");
    // An XID counts only if an earlier sample has another value.
    scene.until(&["get", "nodes", "--pool", "why-fault"], |answer| {
        answer["coverage"]["gpusSampled"].as_u64() >= Some(2)
    });
    scene.load(&pods[0], |index, gpu| {
        gpu.xid = if index == 1 { 79 } else { 0 }
    });
    let dead = eventually("a GPU fault is the cause", Duration::from_secs(90), || {
        let answer = scene.gpuctl(&["why", "t", "-o", "json"]).ok().json();
        if answer["situation"] == "dead" && answer["causes"][0]["cause"] == "gpu-fault" {
            Ok(answer)
        } else {
            Err(answer)
        }
    });
    let evidence = dead["causes"][0]["evidence"][0]["what"].as_str().unwrap();
    assert!(
        evidence.starts_with("why-fault-0/gpu-")
            && evidence.contains("which rank 0 used, reported XID 79 within five minutes"),
        "{evidence}"
    );
    assert_eq!(dead["causes"][1]["cause"], "exit-code", "{dead:#}");
    let suggested_command = &dead["causes"][0]["helps"][0]["command"];
    assert_eq!(
        suggested_command,
        "gpuctl apply -f FILE --set resources.exclude_nodes=why-fault-0 --replace"
    );
}

#[test]
fn why_names_ranks_slowed_by_cpu_limits_and_link_errors() {
    let scene = Scene::new("why-beside", 2);
    let pods = scene.train("t", 4, 4);
    pods.iter().for_each(|pod| {
        scene.load(pod, |_, gpu| {
            (gpu.utilization, gpu.watts, gpu.limit_watts) = (60.0, 330.0, 400.0);
        });
    });
    let gpus = scene.gpus();
    let faulty = gpus
        .iter()
        .find(|gpu| gpu.pods.iter().any(|(_, pod, _)| *pod == pods[1]))
        .unwrap()
        .clone();
    let replays = |replays_of_faulty: u32| {
        let mut text = String::new();
        for gpu in &gpus {
            let Some((namespace, pod, container)) = gpu.pods.first() else {
                continue;
            };
            let value = if gpu.uuid == faulty.uuid {
                replays_of_faulty
            } else {
                3
            };
            let _ = writeln!(
                text,
                "DCGM_FI_DEV_PCIE_REPLAY_COUNTER{{gpu=\"{}\",UUID=\"{}\",Hostname=\"{}\",container=\"{container}\",namespace=\"{namespace}\",pod=\"{pod}\"}} {value}",
                gpu.index, gpu.uuid, gpu.node
            );
        }
        text
    };
    let slices = |round: u32| {
        let mut text = String::new();
        for (rank, pod) in pods.iter().enumerate() {
            let labels = format!("namespace=\"why-beside\",pod=\"{pod}\",container=\"main\"");
            let stopped = if rank == 3 { 90 * round } else { 10 * round };
            let _ = writeln!(
                text,
                "container_cpu_cfs_periods_total{{{labels}}} {}\ncontainer_cpu_cfs_throttled_periods_total{{{labels}}} {stopped}",
                100 * round
            );
        }
        text
    };
    let ports = |state_of_first: u32| {
        let state = |node: &str, value: u32| {
            format!(
                "node_infiniband_state_id{{node=\"{node}\",device=\"mlx5_0\",port=\"1\"}} {value}\n"
            )
        };
        format!(
            "{}{}",
            state("why-beside-0", state_of_first),
            state("why-beside-1", 4)
        )
    };
    let sentence_of = |metrics: &dyn Fn(u32) -> String, cause: &str| {
        // Counters grow with every attempt.
        let mut round = 0;
        let answer = eventually(
            &format!("the cause is {cause}"),
            Duration::from_secs(100),
            || {
                round += 1;
                scene.exporter.change(|fleet| fleet.extra = metrics(round));
                // A scrape must see each value.
                thread::sleep(Duration::from_secs(3));
                let answer = scene.gpuctl(&["why", "t", "-o", "json"]).ok().json();
                if answer["causes"][0]["cause"] == cause {
                    Ok(answer)
                } else {
                    Err(answer)
                }
            },
        );
        assert_eq!(answer["situation"], "slow", "{answer:#}");
        answer["sentence"].as_str().unwrap().to_owned()
    };
    let sentence = sentence_of(&slices, "cpu-starved");
    assert!(
        sentence.contains(
            "throttled rank 3 in 90 % of the CPU periods within ten minutes, and its GPUs are at"
        ),
        "{sentence}"
    );
    let sentence = sentence_of(&|round| replays(500 * round), "link-errors");
    let location = format!("rank 1 on {}/gpu-{}: ", faulty.node, faulty.index);
    assert!(
        sentence.contains(&location) && sentence.ends_with("PCIe replays within ten minutes"),
        "{sentence}"
    );
    // With one port down on one of two nodes, it is unknown whether that is intended.
    scene.exporter.change(|fleet| fleet.extra = ports(1));
    // Several scrapes must not add the port to the causes.
    thread::sleep(Duration::from_secs(8));
    let answer = scene.gpuctl(&["why", "t", "-o", "json"]).ok().json();
    assert!(!answer.to_string().contains("mlx5_0"), "{answer:#}");
}
