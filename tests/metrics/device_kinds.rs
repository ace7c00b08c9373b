//! Tests that labels, the number of units and the series of exporters distinguish whole devices,
//! instances and shares.

use std::fmt::Write as _;

use gpuctl_sandbox::Persona;
use gpuctl_sandbox::nodes::{in_pool, node};
use serde_json::{Value, json};

use crate::past::{HOUR, Sample, ask, hours_ago, rows, store};
use crate::support::{A100, GPU, Scene, cluster, near};

/// A node of the pool `units` with further labels.
fn labeled(name: &str, labels: &[(&str, &str)], devices: &[(&str, u32)]) -> Value {
    let mut object = in_pool(node(name, None, devices), "units");
    for (key, value) in labels {
        object["metadata"]["labels"][*key] = json!(value);
    }
    object
}

fn nodes() -> Vec<Value> {
    let accelerator = |name| ("cloud.google.com/gke-accelerator", name);
    let count = ("cloud.google.com/gke-accelerator-count", "1");
    let mut volcano = labeled(
        "units-volcano",
        &[("nvidia.com/gpu.product", "NVIDIA-A10")],
        &[("volcano.sh/vgpu-number", 10)],
    );
    volcano["metadata"]["annotations"]["volcano.sh/node-vgpu-register"] =
        json!("GPU-v,10,24576,NVIDIA-NVIDIA A10,true:");
    vec![
        labeled("units-mig", &[A100], &[("nvidia.com/mig-3g.40gb", 2)]),
        // Seven instances with two replicas each.
        labeled(
            "units-migshared",
            &[A100, ("nvidia.com/mig-1g.10gb.replicas", "2")],
            &[("nvidia.com/mig-1g.10gb", 14)],
        ),
        // No label counts the devices, but two pods use the only exported one.
        labeled(
            "units-pods",
            &[("nvidia.com/gpu.product", "NVIDIA-L4")],
            &[(GPU, 10)],
        ),
        // One L4 that GKE shares among four clients.
        labeled(
            "units-gke",
            &[
                accelerator("nvidia-l4"),
                count,
                ("cloud.google.com/gke-gpu-sharing-strategy", "time-sharing"),
                ("cloud.google.com/gke-max-shared-clients-per-gpu", "4"),
            ],
            &[(GPU, 4)],
        ),
        // One A100 in seven instances.
        labeled(
            "units-gkemig",
            &[
                accelerator("nvidia-tesla-a100"),
                ("cloud.google.com/gke-gpu-partition-size", "1g.5gb"),
            ],
            &[(GPU, 7)],
        ),
        // NVIDIA/k8s-device-plugin#732: the label says one replica, the node has ten units.
        labeled(
            "units-count",
            &[
                ("nvidia.com/gpu.product", "NVIDIA-A10G"),
                ("nvidia.com/gpu.count", "1"),
                ("nvidia.com/gpu.replicas", "1"),
            ],
            &[(GPU, 10)],
        ),
        // Eight boards with two partitions each. Only the exporter shows it.
        labeled(
            "units-amd",
            &[("amd.com/gpu.product-name", "AMD_Instinct_MI355X")],
            &[("amd.com/gpu", 16)],
        ),
        labeled("units-vm", &[], &[("nvidia.com/GA102GL_A10", 2)]),
        volcano,
    ]
}

/// Pods as (name, node, resource, units).
const PODS: [(&str, &str, &str, u32); 10] = [
    ("m0", "units-mig", "nvidia.com/mig-3g.40gb", 1),
    ("m1", "units-mig", "nvidia.com/mig-3g.40gb", 1),
    ("t0", "units-gke", GPU, 1),
    ("t1", "units-gke", GPU, 1),
    ("c0", "units-count", GPU, 1),
    ("p0", "units-pods", GPU, 1),
    ("p1", "units-pods", GPU, 1),
    ("d0", "units-amd", "amd.com/gpu", 2),
    ("vm", "units-vm", "nvidia.com/GA102GL_A10", 1),
    ("v0", "units-volcano", "volcano.sh/vgpu-number", 1),
];

/// Series of a MIG board, a shared board, and boards of AMD.
fn series() -> String {
    let mut text = String::new();
    // NVIDIA/dcgm-exporter#216: GPU_UTIL is 0, and each instance has the power of the board.
    for (id, pod, active) in [(1, "m0", 0.93), (2, "m1", 0.55)] {
        let labels = format!(
            "gpu=\"0\",UUID=\"GPU-units-mig\",modelName=\"NVIDIA A100-SXM4-80GB\",\
             GPU_I_PROFILE=\"3g.40gb\",GPU_I_ID=\"{id}\",Hostname=\"units-mig\",\
             container=\"main\",namespace=\"units\",pod=\"{pod}\""
        );
        for (name, value) in [
            ("DCGM_FI_DEV_GPU_UTIL", 0.0),
            ("DCGM_FI_DEV_MEM_COPY_UTIL", 0.0),
            ("DCGM_FI_DEV_POWER_USAGE", 300.0),
            ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", active),
        ] {
            writeln!(text, "{name}{{{labels}}} {value}").unwrap();
        }
    }
    for (pod, node) in [
        ("t0", "units-gke"),
        ("t1", "units-gke"),
        ("p0", "units-pods"),
        ("p1", "units-pods"),
    ] {
        writeln!(
            text,
            "DCGM_FI_DEV_GPU_UTIL{{gpu=\"0\",UUID=\"GPU-{node}\",modelName=\"NVIDIA L4\",\
             Hostname=\"{node}\",container=\"main\",namespace=\"units\",pod=\"{pod}\"}} 71"
        )
        .unwrap();
    }
    // ROCm/device-metrics-exporter#495: only the first partition of each board.
    for gpu in 0..8 {
        let pod = if gpu == 0 { "d0" } else { "" };
        writeln!(
            text,
            "gpu_gfx_activity{{gpu_id=\"{gpu}\",hostname=\"units-amd\",\
             card_series=\"AMD Instinct MI355X\",gpu_compute_partition_type=\"dpx\",\
             gpu_memory_partition_type=\"nps1\",gpu_partition_id=\"0\",container=\"main\",\
             namespace=\"units\",pod=\"{pod}\"}} 30"
        )
        .unwrap();
    }
    text
}

#[test]
fn units_of_nodes_are_devices_instances_or_shares() {
    let scene = Scene::new("units", 0);
    let admin = scene.cluster.kubectl(Persona::Admin);
    scene.cluster.add_nodes(&nodes());
    for (pod, node, resource, units) in PODS {
        let container = json!({"name": "main", "image": "busybox",
            "resources": {"limits": {resource: units.to_string()}}});
        admin.apply(
            &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod, "namespace": "units"},
            "spec": {"nodeName": node, "containers": [container]}}),
        );
    }
    scene.exporter.change(|fleet| fleet.extra = series());
    let item = |list: &Value, name: &str| {
        rows(&list["items"])
            .iter()
            .find(|item| item["nodeName"] == name)
            .unwrap_or_else(|| panic!("{name} in {list:#}"))
            .clone()
    };
    let list = scene.until(&scene.nodes(), |list| {
        // (93 + 55) / 2
        item(list, "units-mig")["gpuUtilization"] == json!(74.0)
            && item(list, "units-amd")["gpuUtilization"] == json!(30.0)
    });
    for (name, total, slices, kind) in [
        (
            "units-mig",
            0,
            json!({"mig-3g.40gb": {"total": 2, "used": 2}}),
            "a100-80g",
        ),
        (
            "units-migshared",
            0,
            json!({"mig-1g.10gb.shared": {"total": 14, "used": 0}}),
            "a100-80g",
        ),
        (
            "units-pods",
            0,
            json!({"gpu.shared": {"total": 10, "used": 2}}),
            "l4-24g",
        ),
        (
            "units-gke",
            0,
            json!({"gpu.shared": {"total": 4, "used": 2}}),
            "l4-24g",
        ),
        (
            "units-gkemig",
            0,
            json!({"mig-1g.5gb": {"total": 7, "used": 0}}),
            "a100-40g",
        ),
        (
            "units-count",
            0,
            json!({"gpu.shared": {"total": 10, "used": 1}}),
            "a10g",
        ),
        (
            "units-amd",
            0,
            json!({"dpx_nps1": {"total": 16, "used": 2}}),
            "mi355x",
        ),
        ("units-vm", 2, json!({}), "a10-24g"),
        (
            "units-volcano",
            0,
            json!({"gpu.shared": {"total": 10, "used": 1}}),
            "a10-24g",
        ),
    ] {
        let node = item(&list, name);
        let counted: serde_json::Map<String, Value> = node["gpuSlices"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, count)| {
                let count = json!({"total": count["total"], "used": count["used"]});
                (name.clone(), count)
            })
            .collect();
        assert_eq!(
            (&node["gpuTotal"], &json!(counted), &node["gpuType"]),
            (&json!(total), &slices, &json!(kind)),
            "{node:#}"
        );
    }
    assert_eq!(item(&list, "units-vm")["gpuUsed"], json!(1));

    // The board draws 300 W, and the power of each instance is unknown.
    let mig = scene.json(&["describe", "node", "units-mig"]);
    let devices = rows(&mig["gpuDetail"]);
    assert_eq!(devices.len(), 2, "{mig:#}");
    assert!(devices.iter().all(|gpu| gpu["powerWatts"].is_null()));
    let text = scene.gpuctl(&["describe", "node", "units-mig"]).ok().out;
    assert!(
        text.contains("74% mean, 55% lowest, of 2 of 2 held GPUs")
            && text.contains("; 300 W in total"),
        "{text}"
    );
    let amd = scene.json(&["describe", "node", "units-amd"]);
    assert_eq!(rows(&amd["gpuDetail"]).len(), 8, "{amd:#}");

    let consumers = scene.json(&["get", "consumers"]);
    let stat = |name: &str| {
        rows(&consumers["data"])
            .iter()
            .find(|row| row["name"] == name)
            .unwrap_or_else(|| panic!("{name} in {consumers:#}"))["stat"]
            .clone()
    };
    near(&stat("m0")["gpuUtilization"], 0.93);
    assert_eq!(
        (&stat("t0")["gpuShared"], &stat("m0")["gpuShared"]),
        (&json!(1), &json!(0))
    );
    for holder in ["vm", "v0", "d0"] {
        stat(holder);
    }
    let scores = scene.json(&["score", "low", "--start", "1m"]);
    let low = scores.to_string();
    assert!(
        !low.contains("\"m0\"") && !low.contains("\"m1\""),
        "{scores:#}"
    );
}

/// Samples of three nodes that no longer exist, for two hours.
fn past() -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut put = |series: String, at: i64, value: f64| {
        samples.push(Sample {
            series,
            at,
            value: value.to_string(),
        });
    };
    for at in (0..2 * HOUR).step_by(30) {
        for (node, resource, units) in [
            ("gone-mig", "nvidia_com_mig_1g_10gb", 7.0),
            ("gone-dpx", "amd_com_gpu", 16.0),
            ("gone-count", "nvidia_com_gpu", 10.0),
        ] {
            put(
                format!("kube_node_status_capacity{{node=\"{node}\",resource=\"{resource}\"}}"),
                at,
                units,
            );
        }
        let labels = "label_nvidia_com_gpu_product=\"NVIDIA-A10G\",\
            label_nvidia_com_gpu_count=\"1\",label_nvidia_com_gpu_replicas=\"1\"";
        put(
            format!("kube_node_labels{{node=\"gone-count\",{labels}}}"),
            at,
            1.0,
        );
        for (pod, node, resource, units) in [
            ("gm0", "gone-mig", "nvidia_com_mig_1g_10gb", 1.0),
            ("gd0", "gone-dpx", "amd_com_gpu", 2.0),
            ("gc0", "gone-count", "nvidia_com_gpu", 1.0),
        ] {
            let id = format!("namespace=\"gone\",pod=\"{pod}\",uid=\"u-{pod}\"");
            put(
                format!(
                    "kube_pod_container_resource_requests{{{id},container=\"main\",\
                     node=\"{node}\",resource=\"{resource}\"}}"
                ),
                at,
                units,
            );
            put(
                format!("kube_pod_status_phase{{{id},phase=\"Running\"}}"),
                at,
                1.0,
            );
            put(
                format!("kube_pod_owner{{{id},owner_kind=\"<none>\",owner_name=\"<none>\"}}"),
                at,
                1.0,
            );
        }
        let instance = "Hostname=\"gone-mig\",gpu=\"0\",UUID=\"GPU-gone\",\
            GPU_I_PROFILE=\"1g.10gb\",GPU_I_ID=\"3\",namespace=\"gone\",pod=\"gm0\"";
        put(
            format!("DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{instance}}}"),
            at + 7,
            0.5,
        );
        put(format!("DCGM_FI_DEV_GPU_UTIL{{{instance}}}"), at + 7, 0.0);
        put(
            format!("DCGM_FI_DEV_POWER_USAGE{{{instance}}}"),
            at + 7,
            350.0,
        );
        // AMD's exporter is down in the second hour.
        for gpu in (0..8).filter(|_| at < HOUR) {
            put(
                format!(
                    "gpu_gfx_activity{{hostname=\"gone-dpx\",gpu_id=\"{gpu}\",\
                     gpu_compute_partition_type=\"dpx\",gpu_memory_partition_type=\"nps1\",\
                     gpu_partition_id=\"0\"}}"
                ),
                at + 7,
                30.0,
            );
        }
    }
    samples
}

#[test]
fn history_of_deleted_nodes_has_the_parts_that_series_show() {
    let begin = hours_ago(3);
    let address = store("units-past", past(), begin);
    let cache = cluster().folder().join("units-cache");
    let (start, stop) = (begin.to_string(), (begin + 2 * HOUR).to_string());
    let report = ask(
        &address,
        &cache,
        &["report", "--start", &start, "--end", &stop, "-o", "json"],
    )
    .ok()
    .json();
    let sum = &report["sum"];
    assert_eq!(sum["held_gpu_hours"], json!(0.0), "{sum:#}");
    let part = |name: &str| {
        rows(&sum["gpu_parts"])
            .iter()
            .find(|part| part["part"] == name)
            .unwrap_or_else(|| panic!("{name} in {sum:#}"))
            .clone()
    };
    // Units times two hours: one instance, two partitions, one share.
    near(&part("mig-1g.10gb")["held_part_hours"], 2.0);
    near(&part("dpx_nps1")["held_part_hours"], 4.0);
    near(&part("gpu.shared")["held_part_hours"], 2.0);
    near(&part("mig-1g.10gb")["used_part_hours"], 1.0);
    // 2 h of 1/7, 4 h of 1/2, 2 h of 1/10.
    near(
        &sum["part_gpu_equivalent_hours"],
        2.0 / 7.0 + 4.0 / 2.0 + 2.0 / 10.0,
    );
    let eff = ask(
        &address,
        &cache,
        &[
            "eff", "gone/gm0", "--start", &start, "--end", &stop, "-o", "json",
        ],
    )
    .ok()
    .json();
    // The node had only instances, and no address that still exists.
    near(&eff["coverage_percent"], 100.0);
    near(&eff["gpu_parts"][0]["utilization"], 50.0);
    assert_eq!(eff["energy_kwh"], Value::Null, "{eff:#}");
}

#[test]
fn hours_without_an_exporter_are_not_cached_for_another_range() {
    let begin = hours_ago(4);
    // AMD's exporter ends ten minutes before the second hour, which is longer than the five
    // minutes for which Prometheus repeats a sample.
    let is_up =
        |sample: &Sample| !sample.series.starts_with("gpu_gfx_activity") || sample.at < HOUR - 600;
    let samples = past().into_iter().filter(is_up).collect();
    let address = store("units-cached", samples, begin);
    let cache = cluster().folder().join("units-cached-cache");
    let stop = (begin + 2 * HOUR).to_string();
    let second_hour = |start: i64| {
        let start = start.to_string();
        let range = ["--start", &start, "--end", &stop, "-o", "json"];
        let stats = ask(
            &address,
            &cache,
            &[&["stats", "cluster"], &range[..]].concat(),
        );
        rows(&stats.ok().json()).last().unwrap().to_string()
    };
    // In the range of the second hour alone, nothing shows that its units are partitions.
    let alone = second_hour(begin + HOUR);
    assert!(!alone.contains("dpx_nps1"), "{alone}");
    let after_first = second_hour(begin);
    assert!(after_first.contains("dpx_nps1"), "{after_first}");
}
