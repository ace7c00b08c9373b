//! `why` of jobs that run: a rank that differs from its peers, and one that the others wait for,
//! from what a real Prometheus scraped.

use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use gpuctl_sandbox::exporter::Gpu;
use serde_json::Value;

use crate::support::Scene;

/// Clocks and throttle reasons of devices, as dcgm-exporter tells them.
fn clocks(gpus: &[Gpu], of: impl Fn(&Gpu) -> (u32, u32)) -> String {
    let mut text = String::new();
    for gpu in gpus {
        let Some((namespace, pod, container)) = gpu.pods.first() else {
            continue;
        };
        let (mhz, reasons) = of(gpu);
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

/// Asks until the situation is this one.
#[track_caller]
fn until(scene: &Scene, job: &str, situation: &str) -> Value {
    let end = Instant::now() + Duration::from_secs(100);
    loop {
        let answer = scene.gpuctl(&["why", job, "-o", "json"]).ok().json();
        if answer["situation"] == situation {
            return answer;
        }
        assert!(Instant::now() < end, "never {situation}: {answer:#}");
        thread::sleep(Duration::from_secs(3));
    }
}

#[test]
fn a_throttled_rank_and_one_that_the_others_wait_for_are_named() {
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
    let told = format!(
        "t is slower than it could be: rank 2 on {}/gpu-{}: SM clock 1110 MHz, its peers 1410 (-21 %), thermal throttle",
        hot.node, hot.index
    );
    assert_eq!(
        (
            slow["causes"][0]["cause"].as_str(),
            slow["sentence"].as_str()
        ),
        (Some("thermal"), Some(told.as_str()))
    );
    assert_eq!(slow["causes"].as_array().unwrap().len(), 1, "{slow:#}");
    // All wait for rank 1, which does nothing.
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
    // It told a step every nine seconds until five minutes ago.
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
    // Without metrics its log alone tells that it does not go on, and nothing why.
    let unknown = scene
        .gpuctl_at("none", &["why", "t", "-o", "json"], "")
        .ok()
        .json();
    assert_eq!(
        (
            unknown["situation"].as_str(),
            unknown["notEvaluated"][0].as_str()
        ),
        (Some("unknown"), Some("what its GPUs do: no metrics"))
    );
}

#[test]
fn a_device_that_failed_is_the_cause_of_the_end() {
    let scene = Scene::new("why-fault", 1);
    let yaml = "kind: training\nversion: v0.1\njob: {name: t, retries: 0}\n\
                environment: {image: busybox, command: [train], env: {SIM_SECONDS: 25, SIM_EXIT: 1}}\nresources: {pool: why-fault, gpu: 2}\n";
    scene
        .gpuctl_with(&["create", "-f", "-", "--wait", "--timeout", "60s"], yaml)
        .ok();
    let pods = scene.assign_devices("t");
    scene.load(&pods[0], |place, gpu| {
        gpu.xid = if place == 1 { 79 } else { 0 }
    });
    let end = Instant::now() + Duration::from_secs(90);
    let dead = loop {
        let answer = scene.gpuctl(&["why", "t", "-o", "json"]).ok().json();
        if answer["situation"] == "dead" && answer["causes"][0]["cause"] == "gpu-fault" {
            break answer;
        }
        assert!(Instant::now() < end, "{answer:#}");
        thread::sleep(Duration::from_secs(3));
    };
    let told = dead["causes"][0]["evidence"][0]["what"].as_str().unwrap();
    assert!(
        told.starts_with("why-fault-0/gpu-")
            && told.contains("which rank 0 used, told XID 79 within five minutes"),
        "{told}"
    );
    assert_eq!(dead["causes"][1]["cause"], "exit-code", "{dead:#}");
    let help = &dead["causes"][0]["helps"][0]["command"];
    assert_eq!(
        help,
        "gpuctl apply -f FILE --set resources.exclude_nodes=why-fault-0 --replace"
    );
}

/// Each of the three is told alone, with the rank or the node that it is about.
#[test]
fn what_holds_a_rank_up_beside_its_gpus_is_named() {
    let scene = Scene::new("why-beside", 2);
    let pods = scene.train("t", 4, 4);
    pods.iter().for_each(|pod| {
        scene.load(pod, |_, gpu| {
            (gpu.utilization, gpu.watts, gpu.limit_watts) = (60.0, 330.0, 400.0);
        });
    });
    let gpus = scene.gpus();
    let bad = gpus
        .iter()
        .find(|gpu| gpu.pods.iter().any(|(_, pod, _)| *pod == pods[1]))
        .unwrap()
        .clone();
    let replays = |of_bad: u32| {
        let mut text = String::new();
        for gpu in &gpus {
            let Some((namespace, pod, container)) = gpu.pods.first() else {
                continue;
            };
            let value = if gpu.uuid == bad.uuid { of_bad } else { 3 };
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
    let ports = |of_first: u32| {
        let state = |node: &str, value: u32| {
            format!(
                "node_infiniband_state_id{{node=\"{node}\",device=\"mlx5_0\",port=\"1\"}} {value}\n"
            )
        };
        format!(
            "{}{}",
            state("why-beside-0", of_first),
            state("why-beside-1", 4)
        )
    };
    let cause = |round: &dyn Fn(u32) -> String, word: &str| {
        let end = Instant::now() + Duration::from_secs(100);
        let mut at = 0;
        loop {
            at += 1;
            scene.exporter.change(|fleet| fleet.extra = round(at));
            let answer = scene.gpuctl(&["why", "t", "-o", "json"]).ok().json();
            if answer["causes"][0]["cause"] == word {
                assert_eq!(answer["situation"], "slow", "{answer:#}");
                return answer["sentence"].as_str().unwrap().to_owned();
            }
            assert!(Instant::now() < end, "never {word}: {answer:#}");
            thread::sleep(Duration::from_secs(3));
        }
    };
    let told = cause(&slices, "cpu-starved");
    assert!(
        told.contains(
            "stopped rank 3 in 90 % of the time slices of ten minutes, and its GPUs are at"
        ),
        "{told}"
    );
    let told = cause(&|round| replays(500 * round), "link-errors");
    let place = format!("rank 1 on {}/gpu-{}: ", bad.node, bad.index);
    assert!(
        told.contains(&place) && told.ends_with("PCIe replays within ten minutes"),
        "{told}"
    );
    // Of two nodes nobody knows which port is meant to be down.
    scene.exporter.change(|fleet| fleet.extra = ports(1));
    thread::sleep(Duration::from_secs(8));
    let answer = scene.gpuctl(&["why", "t", "-o", "json"]).ok().json();
    assert!(!answer.to_string().contains("mlx5_0"), "{answer:#}");
}
