//! Simulates how a cluster's pods use their devices. A pod keeps its devices, and its
//! `sandbox/load` annotation selects the load, which is a function of the clock.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::exporter::{Exporter, Gpu};
use crate::{Cluster, Persona};

/// Properties of GPU models: a word in product labels, model name, memory in MiB, power limit and
/// idle power in watts.
const MODELS: [(&str, &str, u64, f64, f64); 4] = [
    ("a100", "NVIDIA A100-SXM4-80GB", 81_251, 400.0, 62.0),
    ("h100", "NVIDIA H100 80GB HBM3", 81_079, 700.0, 71.0),
    ("a10", "NVIDIA A10", 22_731, 150.0, 16.0),
    ("mi300x", "AMD Instinct MI300X OAM", 196_592, 750.0, 130.0),
];

/// All devices of these nodes, none of them held by a pod.
pub fn devices(nodes: &[Value]) -> Vec<Gpu> {
    let mut gpus = Vec::new();
    for node in nodes {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        let labels = &node["metadata"]["labels"];
        let product = ["nvidia.com/gpu.product", "amd.com/gpu.product-name"]
            .iter()
            .find_map(|key| labels[*key].as_str());
        let Some(product) = product.map(str::to_lowercase) else {
            continue;
        };
        let model = MODELS
            .iter()
            .find(|(word, ..)| product.contains(word))
            .or_else(|| MODELS.first());
        let Some((_, model, memory, limit, idle)) = model.copied() else {
            continue;
        };
        let gpu = |index: u32| Gpu {
            node: name.to_owned(),
            index,
            uuid: format!("GPU-{name}-{index}"),
            model: model.to_owned(),
            used_mib: 480,
            free_mib: memory - 480,
            watts: idle,
            limit_watts: limit,
            celsius: 31.0,
            ..Gpu::default()
        };
        let capacity = node["status"]["capacity"].as_object().into_iter().flatten();
        for (resource, count) in capacity {
            let count: u32 = count
                .as_str()
                .and_then(|text| text.parse().ok())
                .unwrap_or(0);
            if let Some(profile) = resource.strip_prefix("nvidia.com/mig-") {
                let existing = gpus.iter().filter(|gpu: &&Gpu| gpu.node == name).count();
                let first = u32::try_from(existing).unwrap_or(0);
                let gigabytes: u64 = profile
                    .split('.')
                    .find_map(|part| part.strip_suffix("gb")?.parse().ok())
                    .unwrap_or(10);
                gpus.extend((0..count).map(|number| Gpu {
                    instance: Some((profile.to_owned(), first + number + 1)),
                    free_mib: gigabytes * 1000 - 40,
                    used_mib: 40,
                    ..gpu(0)
                }));
            } else if matches!(resource.as_str(), "nvidia.com/gpu" | "amd.com/gpu") {
                gpus.extend((0..count).map(gpu));
            }
        }
    }
    gpus
}

/// Assigns free devices to scheduled pods, and releases the devices of pods that have ended.
pub fn hand_out(gpus: &mut [Gpu], pods: &[Value]) {
    let text = |pod: &Value, pointer: &str| {
        pod.pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let holds = |pod: &&Value| {
        !text(pod, "/spec/nodeName").is_empty()
            && !matches!(text(pod, "/status/phase").as_str(), "Succeeded" | "Failed")
    };
    let active: Vec<(String, String)> = pods
        .iter()
        .filter(holds)
        .map(|pod| {
            (
                text(pod, "/metadata/namespace"),
                text(pod, "/metadata/name"),
            )
        })
        .collect();
    for gpu in gpus.iter_mut() {
        gpu.pods
            .retain(|(namespace, pod, _)| active.contains(&(namespace.clone(), pod.clone())));
    }
    for pod in pods.iter().filter(holds) {
        let (node, namespace, name) = (
            text(pod, "/spec/nodeName"),
            text(pod, "/metadata/namespace"),
            text(pod, "/metadata/name"),
        );
        for container in pod["spec"]["containers"].as_array().into_iter().flatten() {
            let holder = (
                namespace.clone(),
                name.clone(),
                container["name"].as_str().unwrap_or_default().to_owned(),
            );
            for (resource, count) in container["resources"]["limits"]
                .as_object()
                .into_iter()
                .flatten()
            {
                let profile = resource.strip_prefix("nvidia.com/mig-");
                if profile.is_none()
                    && !matches!(resource.as_str(), "nvidia.com/gpu" | "amd.com/gpu")
                {
                    continue;
                }
                let requested: usize = count
                    .as_str()
                    .and_then(|text| text.parse().ok())
                    .unwrap_or(0);
                let fits = |gpu: &&mut Gpu| {
                    gpu.node == node
                        && gpu.instance.as_ref().map(|(name, _)| name.as_str()) == profile
                };
                let held = gpus
                    .iter_mut()
                    .filter(fits)
                    .filter(|gpu| gpu.pods.contains(&holder))
                    .count();
                let free = gpus
                    .iter_mut()
                    .filter(fits)
                    .filter(|gpu| gpu.pods.is_empty());
                free.take(requested.saturating_sub(held))
                    .for_each(|gpu| gpu.pods.push(holder.clone()));
            }
        }
    }
}

/// Updates an exporter every second from the cluster's pods, until this process ends.
pub fn play(cluster: &Cluster, exporter: &Exporter, nodes: &[Value]) {
    let kubectl = cluster.kubectl(Persona::Admin);
    let mut gpus = devices(nodes);
    loop {
        let output = kubectl.try_run(&["get", "pods", "-A", "-o", "json"], "");
        let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let pods = list["items"].as_array().cloned().unwrap_or_default();
        hand_out(&mut gpus, &pods);
        let loads: BTreeMap<(String, String), String> = pods
            .iter()
            .filter_map(|pod| {
                let text = |pointer: &str| {
                    pod.pointer(pointer)
                        .and_then(Value::as_str)
                        .map(ToOwned::to_owned)
                };
                let load = text("/metadata/annotations/sandbox~1load")
                    .or_else(|| text("/metadata/labels/sandbox~1load"))?;
                Some((
                    (text("/metadata/namespace")?, text("/metadata/name")?),
                    load,
                ))
            })
            .collect();
        let seconds = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs_f64();
        for gpu in &mut gpus {
            let load = gpu.pods.first().map(|(namespace, pod, _)| {
                loads
                    .get(&(namespace.clone(), pod.clone()))
                    .map_or("busy", String::as_str)
                    .to_owned()
            });
            simulate(gpu, load.as_deref(), seconds);
        }
        exporter.change(|fleet| fleet.gpus.clone_from(&gpus));
        thread::sleep(Duration::from_secs(1));
    }
}

/// Sets a device's metrics for one second.
fn simulate(gpu: &mut Gpu, load: Option<&str>, seconds: f64) {
    let seed = gpu.uuid.bytes().fold(7_u32, |seed, byte| {
        seed.wrapping_mul(31).wrapping_add(u32::from(byte))
    });
    let phase = f64::from(seed % 360);
    let wave = (seconds / 17.0 + phase).sin() * 0.6 + (seconds / 5.3 + phase).sin() * 0.4;
    let share = match load {
        None => 0.0,
        Some("idle") => 0.01,
        Some("sawtooth") => (seconds / 120.0 + phase / 360.0).fract(),
        // A busy loop: utilization is high, but power and temperature are low.
        Some("stuck") => 1.0,
        Some("straggler") if gpu.index.is_multiple_of(4) => 0.34 + 0.03 * wave,
        Some(_) => 0.93 + 0.05 * wave,
    };
    let idle = MODELS
        .iter()
        .find(|(_, model, ..)| *model == gpu.model)
        .map_or(20.0, |(.., idle)| *idle);
    let total = gpu.used_mib + gpu.free_mib;
    gpu.utilization = (share * 100.0).round().clamp(0.0, 100.0);
    gpu.memory_copy = (share * 61.0).round();
    let drawn = if load == Some("stuck") { 0.06 } else { share };
    gpu.watts = idle + (gpu.limit_watts - idle) * drawn * 0.96;
    gpu.celsius = (31.0 + 44.0 * drawn + phase / 90.0).round();
    let fill = if load.is_none() {
        0.006
    } else {
        0.35 + 0.5 * (phase / 360.0)
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a fraction of the device's memory"
    )]
    let used = (total as f64 * fill) as u64;
    (gpu.used_mib, gpu.free_mib) = (used, total - used);
}
