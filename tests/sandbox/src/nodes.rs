//! Simulated GPU nodes with the extended resources and node labels of real vendors.

use serde_json::{Value, json};

/// A node whose kubelet is kwok. `product` is the vendor's product label, such as
/// `("nvidia.com/gpu.product", "NVIDIA-A10")`; `devices` are extended resources and their counts.
pub fn node(name: &str, product: Option<(&str, &str)>, devices: &[(&str, u32)]) -> Value {
    let mut resources =
        json!({"cpu": "96", "memory": "1Ti", "pods": "110", "ephemeral-storage": "2Ti"});
    for (resource, count) in devices {
        resources[*resource] = json!(count.to_string());
    }
    let mut labels = json!({"kubernetes.io/hostname": name, "type": "kwok"});
    if let Some((key, value)) = product {
        labels[key] = json!(value);
    }
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": resources, "allocatable": resources},
    })
}

/// Labels a node as part of a gpuctl pool.
pub fn in_pool(mut node: Value, pool: &str) -> Value {
    node["metadata"]["labels"]["gpuctl/pool"] = json!(pool);
    node
}

/// Adds a `NoSchedule` taint to a node.
pub fn tainted(mut node: Value, key: &str, value: &str) -> Value {
    node["spec"] = json!({"taints": [{"key": key, "value": value, "effect": "NoSchedule"}]});
    node
}

/// The nodes of `cargo sandbox`: twelve, with common types of GPUs.
pub fn fleet() -> Vec<Value> {
    const NVIDIA: &str = "nvidia.com/gpu";
    let nvidia = |name: &str, product: &str, count| {
        node(
            name,
            Some(("nvidia.com/gpu.product", product)),
            &[(NVIDIA, count)],
        )
    };
    let train = |node| in_pool(node, "training-pool");
    let infer = |node| in_pool(node, "inference-pool");
    let mig = node(
        "gpu-m-01",
        Some(("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB")),
        &[("nvidia.com/mig-1g.10gb", 4), ("nvidia.com/mig-3g.40gb", 1)],
    );
    let amd = node(
        "gpu-x-01",
        Some(("amd.com/gpu.product-name", "AMD_Instinct_MI300X_OAM")),
        &[("amd.com/gpu", 8)],
    );
    vec![
        train(nvidia("gpu-a-01", "NVIDIA-A100-SXM4-80GB", 8)),
        train(nvidia("gpu-a-02", "NVIDIA-A100-SXM4-80GB", 8)),
        train(nvidia("gpu-a-03", "NVIDIA-A100-SXM4-80GB", 8)),
        train(nvidia("gpu-a-04", "NVIDIA-A100-SXM4-80GB", 8)),
        tainted(
            nvidia("gpu-h-01", "NVIDIA-H100-80GB-HBM3", 8),
            NVIDIA,
            "present",
        ),
        tainted(
            nvidia("gpu-h-02", "NVIDIA-H100-80GB-HBM3", 8),
            NVIDIA,
            "present",
        ),
        infer(nvidia("gpu-v-01", "NVIDIA-A10", 4)),
        infer(nvidia("gpu-v-02", "NVIDIA-A10", 4)),
        in_pool(nvidia("gpu-d-01", "NVIDIA-A10", 4), "dev-pool"),
        mig,
        amd,
        node("cpu-01", None, &[]),
    ]
}

/// Volumes for the claims that `size:` creates, and their default storage class. The sandbox has no
/// provisioner, so they are created in advance.
pub fn volumes(count: usize) -> Vec<Value> {
    let volume = |index| {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("sandbox-{index}")},
            "spec": {
                "storageClassName": "sandbox",
                "capacity": {"storage": "1Ti"}, "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
                "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": format!("/volumes/{index}")},
            },
        })
    };
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "sandbox/by-hand",
        "metadata": {"name": "sandbox", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    });
    (0..count).map(volume).chain([class]).collect()
}
