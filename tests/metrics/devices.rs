//! Tests how special devices are shown: MIG instances, and devices that are shared, silent or
//! faulty.

use std::time::{SystemTime, UNIX_EPOCH};

use gpuctl_sandbox::Persona;
use gpuctl_sandbox::nodes::{in_pool, node};
use serde_json::{Value, json};

use crate::support::{A100, Scene, gpu, near};

fn only_item(list: &Value) -> &Value {
    assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list:#}");
    &list["items"][0]
}

#[test]
fn views_show_the_utilization_of_nodes_pools_and_jobs() {
    let scene = Scene::new("cells", 1);
    let pods = scene.train("work", 1, 2);
    scene.load(&pods[0], |index, gpu| {
        gpu.utilization = [80.0, 31.0][index as usize];
        (gpu.used_mib, gpu.free_mib) = (20_480, 61_440);
        gpu.watts = 250.0;
    });
    let nodes = scene.until(&scene.nodes(), |list| {
        list["items"][0]["gpuUtilization"]
            .as_f64()
            .is_some_and(|value| value > 50.0)
    });
    near(
        &only_item(&nodes)["gpuUtilization"],
        f64::midpoint(80.0, 31.0),
    );
    assert_eq!(
        (
            &only_item(&nodes)["gpuSampled"],
            &only_item(&nodes)["memoryUsage"]
        ),
        (&json!(2), &json!("20Gi/80Gi"))
    );
    let table = scene.gpuctl(&scene.nodes()).ok().out;
    assert!(table.lines().nth(1).unwrap().contains(" 56% "), "{table}");
    let pools = scene.json(&["get", "pools"]);
    let pool = pools["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|pool| pool["name"] == "cells")
        .unwrap();
    near(&pool["gpuUtilization"], 55.5);
    let pool = scene.json(&["describe", "pool", "cells"]);
    near(&pool["gpuUtilization"], 55.5);
    let job = scene.json(&["describe", "job", "work"]);
    near(&job["metrics"]["gpuUtilization"], 55.5);
    near(&job["metrics"]["gpuUtilizationLowest"], 31.0);
    near(&job["metrics"]["powerWatts"], 250.0);
    assert_eq!(
        (
            &job["metrics"]["memoryUsage"],
            &job["metrics"]["networkLatency"]
        ),
        (&json!("20Gi/80Gi"), &Value::Null)
    );
    near(&job["pods"][0]["gpuUtilization"], 55.5);
    let text = scene.gpuctl(&["describe", "job", "work"]).ok().out;
    assert!(text.contains("GPU use      56% mean, 31% lowest, of 2 of 2 held GPUs; memory 20Gi/80Gi per GPU; 500 W in total"), "{text}");
    let list = scene.gpuctl(&["get", "jobs"]).ok().out;
    assert!(list.contains("UTIL") && list.contains("56%"), "{list}");
    let text = scene.gpuctl(&["describe", "node", "cells-0"]).ok().out;
    assert!(text.contains("gpu-0   used    80%"), "{text}");
    assert!(text.contains(&format!("cells/{}", pods[0])), "{text}");
}

#[test]
fn mig_instances_are_devices_and_shares_are_not() {
    let scene = Scene::new("sliced", 0);
    let admin = scene.cluster.kubectl(Persona::Admin);
    let mig = in_pool(
        node("sliced-mig", Some(A100), &[("nvidia.com/mig-1g.10gb", 7)]),
        "sliced",
    );
    let mut shared = in_pool(
        node("sliced-time", Some(A100), &[("nvidia.com/gpu", 4)]),
        "sliced",
    );
    shared["metadata"]["labels"]["nvidia.com/gpu.replicas"] = json!("4");
    scene.cluster.add_nodes(&[mig, shared]);
    for (pod, node, resource) in [
        ("instance", "sliced-mig", "nvidia.com/mig-1g.10gb"),
        ("one", "sliced-time", "nvidia.com/gpu"),
        ("two", "sliced-time", "nvidia.com/gpu"),
    ] {
        admin.apply(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod, "namespace": "sliced"},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "busybox", "resources": {"limits": {resource: "1"}}}]}}));
    }
    admin.run(&[
        "wait",
        "--for=condition=Ready",
        "--timeout=60s",
        "pod",
        "--all",
        "-n",
        "sliced",
    ]);
    let holder = |pod: &str| ("sliced".to_owned(), pod.to_owned(), "main".to_owned());
    scene.exporter.change(|fleet| {
        for instance in 1..=7 {
            let mut slice = gpu("sliced-mig", 0);
            (slice.instance, slice.utilization) = (Some(("1g.10gb".to_owned(), instance)), 0.0);
            (slice.used_mib, slice.free_mib) = (1024, 9216);
            if instance == 3 {
                (slice.pods, slice.utilization) = (vec![holder("instance")], 37.5);
            }
            fleet.gpus.push(slice);
        }
        let mut shared = gpu("sliced-time", 0);
        (shared.pods, shared.utilization) = (vec![holder("one"), holder("two")], 64.0);
        fleet.gpus.push(shared);
    });
    let detail = scene.until(
        &["get", "nodes", "--pool", "sliced", "--gpu-detail"],
        |list| {
            list["items"]
                .as_array()
                .unwrap()
                .iter()
                .all(|node| !node["gpus"].as_array().unwrap().is_empty())
        },
    );
    let gpus_of = |name: &str| {
        detail["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|node| node["nodeName"] == name)
            .unwrap()["gpus"]
            .as_array()
            .unwrap()
            .clone()
    };
    let instances = gpus_of("sliced-mig");
    assert_eq!(
        instances.len(),
        7,
        "each instance once, and not the whole device"
    );
    let used: Vec<&Value> = instances
        .iter()
        .filter(|row| row["status"] == "used")
        .collect();
    assert_eq!(
        (used.len(), &used[0]["gpuId"]),
        (1, &json!("gpu-0/1g.10gb-3"))
    );
    // Instances have no GPU_UTIL, so the activity of the graphics engine (0.375) is used.
    near(&used[0]["utilization"], 37.5);
    assert_eq!(used[0]["memoryUsage"], "1Gi/10Gi");
    assert_eq!(
        instances
            .iter()
            .filter(|row| row["status"] == "free")
            .count(),
        6
    );
    let copies = gpus_of("sliced-time");
    assert_eq!(
        copies.len(),
        1,
        "one device, despite several series: {copies:#?}"
    );
    near(&copies[0]["utilization"], 64.0);
    assert_eq!(copies[0]["holders"].as_array().unwrap().len(), 2);
    // The shared device has one score, which names a pod of the requested namespace.
    let scores = scene.until(&["score", "--window", "6s", "--step", "1s"], |list| {
        list.as_array()
            .unwrap()
            .iter()
            .filter(|row| row["score"].is_number())
            .count()
            == 2
    });
    let shared: Vec<&Value> = scores
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["hostname"] == "sliced-time")
        .collect();
    assert_eq!(
        (shared.len(), &shared[0]["pod"]),
        (1, &json!("one")),
        "{scores:#}"
    );
    near(&shared[0]["gpu_util"], 64.0);
    let heat = scene.json(&["get", "heatmap", "--top", "3"]);
    assert_eq!(heat["utilization"]["data"][0]["value"], 64.0);
    assert_eq!(
        (
            &heat["utilization"]["data"][1]["value"],
            &heat["utilization"]["data"][1]["slice"]
        ),
        (&json!(37.5), &json!("1g.10gb"))
    );
}

#[test]
fn silent_devices_are_unknown_and_faulty_ones_are_reported() {
    let scene = Scene::new("broken", 2);
    // One device per node has only an old sample; the others are sampled every second.
    let sampled_at = i64::try_from(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_millis(),
    )
    .unwrap()
        - 200_000;
    scene.exporter.change(|fleet| {
        fleet
            .gpus
            .iter_mut()
            .filter(|gpu| gpu.index == 0)
            .for_each(|gpu| gpu.sampled_at = Some(sampled_at));
    });
    let pods = scene.train("work", 1, 8);
    scene.load(&pods[0], |_, gpu| gpu.utilization = 90.0);
    let settled = scene.until(&scene.nodes(), |list| {
        list["coverage"]["gpusStale"] == 2
            && list["items"]
                .as_array()
                .unwrap()
                .iter()
                .any(|node| node["gpuUtilization"] == 90.0)
    });
    assert!(
        settled["items"]
            .as_array()
            .unwrap()
            .iter()
            .all(|node| node["status"] == "active")
    );
    let busy = settled["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|node| node["gpuUsed"] == 8)
        .unwrap()["nodeName"]
        .as_str()
        .unwrap()
        .to_owned();
    scene.exporter.change(|fleet| {
        for gpu in fleet.gpus.iter_mut().filter(|gpu| gpu.node == busy) {
            match gpu.index {
                1 => gpu.silent = true,
                2 => gpu.utilization = 30.0,
                _ => {}
            }
        }
        for gpu in fleet
            .gpus
            .iter_mut()
            .filter(|gpu| gpu.node != busy && gpu.index == 5)
        {
            gpu.xid = 79;
        }
    });
    let nodes = scene.until(&scene.nodes(), |list| {
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|node| node["status"] == "faulty")
    });
    let faulty = nodes["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|node| node["status"] == "faulty")
        .unwrap();
    assert_eq!(faulty["reason"], "gpu-5: XID 79");
    assert_ne!(faulty["nodeName"], busy.as_str());
    let detail = scene.until(
        &["get", "nodes", "--pool", "broken", "--gpu-detail"],
        |list| list["coverage"]["gpusSampled"] == 13,
    );
    let gpus = detail["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|node| node["nodeName"] == busy.as_str())
        .unwrap()["gpus"]
        .as_array()
        .unwrap()
        .clone();
    assert_eq!(gpus.len(), 8, "silent devices are listed too: {gpus:#?}");
    let gpu_of = |id: &str| gpus.iter().find(|gpu| gpu["gpuId"] == id).unwrap();
    assert_eq!(
        (&gpu_of("gpu-0")["stale"], &gpu_of("gpu-0")["utilization"]),
        (&json!(true), &Value::Null)
    );
    assert_eq!(
        (&gpu_of("gpu-1")["utilization"], &gpu_of("gpu-1")["status"]),
        (&Value::Null, &json!("used"))
    );
    // Six devices remain: one at 30 % and five at 90 %.
    let nodes = scene.json(&scene.nodes());
    let node = nodes["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|node| node["nodeName"] == busy.as_str())
        .unwrap();
    near(&node["gpuUtilization"], (30.0 + 5.0 * 90.0) / 6.0);
    assert_eq!(node["gpuSampled"], 6);
    let text = scene.gpuctl(&["get", "heatmap"]).ok().out;
    assert!(text.contains(&busy), "{text}");
    let overview = scene.json(&["get", "overview"]);
    assert!(
        overview["faults"]
            .as_array()
            .unwrap()
            .iter()
            .any(|fault| fault["nodeName"] == faulty["nodeName"])
    );
}

#[test]
fn overview_sums_storage_and_infiniband() {
    let scene = Scene::new("machines", 1);
    let without_metrics = scene.json(&["get", "overview"]);
    assert!(
        without_metrics["storageStat"]["totalCapacity"].is_null()
            && without_metrics["rdmaClusterStat"]["totalPorts"].is_null()
    );
    let mut extra = String::new();
    // Two nodes, each with a half-full disk of 2 TB, share a mount of 100 TB with 40 TB used.
    for (metric, disk, share) in [("size", 2e12, 100e12), ("free", 1e12, 60e12)] {
        extra.push_str(&format!("# TYPE node_filesystem_{metric}_bytes gauge\n"));
        for node in ["a", "b"] {
            for (device, kind, value) in [
                ("/dev/nvme0n1", "ext4", disk),
                ("nas:/models", "nfs4", share),
                ("tmpfs", "tmpfs", 9e15),
            ] {
                extra.push_str(&format!(
                    "node_filesystem_{metric}_bytes{{node=\"{node}\",device=\"{device}\",fstype=\"{kind}\",mountpoint=\"/\"}} {value:e}\n"
                ));
            }
        }
    }
    for (metric, up, down) in [
        ("state_id", 4.0, 1.0),
        ("rate_bytes_per_second", 5e10, 5e10),
    ] {
        extra.push_str(&format!("# TYPE node_infiniband_{metric} gauge\n"));
        for (port, value) in [("1", up), ("2", up), ("3", down)] {
            extra.push_str(&format!("node_infiniband_{metric}{{node=\"a\",device=\"mlx5_0\",port=\"{port}\"}} {value:e}\n"));
        }
    }
    scene.exporter.change(|fleet| fleet.extra = extra);
    let overview = scene.until(&["get", "overview"], |overview| {
        !overview["rdmaClusterStat"]["totalPorts"].is_null()
    });
    let storage = &overview["storageStat"];
    assert_eq!(
        (&storage["totalCapacity"], &storage["usedCapacity"]),
        (&json!("104TB"), &json!("42TB"))
    );
    assert_eq!(
        (&storage["availableCapacity"], &storage["source"]),
        (&json!("62TB"), &json!("disks"))
    );
    near(
        &storage["utilizationRate"],
        (2.0 * 1.0 + 40.0) / (2.0 * 2.0 + 100.0),
    );
    assert_eq!(
        overview["rdmaClusterStat"],
        json!({"totalPorts": 3, "activePorts": 2, "bandwidth": "400Gbps"})
    );
}

#[test]
fn top_prints_the_busiest_first_and_only_once_in_a_pipe() {
    let scene = Scene::new("topped", 2);
    let pods = scene.train("spin", 2, 8);
    scene.load(&pods[0], |_, gpu| gpu.utilization = 20.0);
    scene.load(&pods[1], |_, gpu| gpu.utilization = 95.0);
    scene.until(&scene.nodes(), |list| {
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|node| node["gpuUtilization"] == 95.0)
    });
    let first = |arguments: &[&str]| {
        let out = scene.gpuctl(arguments).ok().out;
        out.lines()
            .nth(1)
            .unwrap_or_default()
            .split_whitespace()
            .map(ToOwned::to_owned)
            .collect::<Vec<_>>()
    };
    let node = scene
        .gpus()
        .iter()
        .find(|gpu| gpu.utilization == 95.0)
        .unwrap()
        .node
        .clone();
    assert_eq!(
        first(&["top"])[..4],
        [node.as_str(), "a100-80g", "8/8", "95%"]
    );
    assert_eq!(
        first(&["top", "jobs"])[..4],
        ["topped/spin", "Job", "16/16", "58%"]
    );
    assert_eq!(first(&["top", "gpus"])[0], format!("{node}/gpu-0"));
    assert_eq!(
        first(&["top", "nodes", "--sort-by", "name"])[0]
            .split('-')
            .count(),
        2
    );
}
