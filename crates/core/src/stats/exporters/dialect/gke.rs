//! Google's device plugins for GPUs and TPUs, the same metrics in Google Cloud's managed store, and
//! the kubelet's metrics up to Kubernetes 1.24. Sources: pkg/gpu/nvidia/metrics/metrics.go of
//! GoogleCloudPlatform/container-engine-accelerators, Google's list of Kubernetes metrics, and
//! google/cadvisor's docs/storage/prometheus.md.
//!
//! `duty_cycle_gpu_node` numbers the devices, while `duty_cycle` has only their ids. They cannot be
//! joined, so only the metrics of containers are read. They cover the devices that pods hold.

use super::quantity::Quantity;
use super::table::{BYTES, Dialect, metric};

pub(super) const GKE: Dialect = Dialect {
    metrics: &[
        metric("duty_cycle", Quantity::Utilization, 0, 1.0),
        metric("memory_used", Quantity::MemoryUsed, 0, BYTES),
        metric("memory_total", Quantity::MemoryTotal, 0, BYTES),
        metric(
            "kubernetes_io:container_accelerator_duty_cycle",
            Quantity::Utilization,
            1,
            1.0,
        ),
        metric(
            "kubernetes_io:container_accelerator_memory_used",
            Quantity::MemoryUsed,
            1,
            BYTES,
        ),
        metric(
            "kubernetes_io:container_accelerator_memory_total",
            Quantity::MemoryTotal,
            1,
            BYTES,
        ),
        metric(
            "container_accelerator_duty_cycle",
            Quantity::Utilization,
            2,
            1.0,
        ),
        metric(
            "container_accelerator_memory_used_bytes",
            Quantity::MemoryUsed,
            2,
            BYTES,
        ),
        metric(
            "container_accelerator_memory_total_bytes",
            Quantity::MemoryTotal,
            2,
            BYTES,
        ),
    ],
    required: &["make"],
    uuid: &["accelerator_id", "acc_id"],
    model: &["model"],
    pod: &[("namespace_name", "pod_name")],
    container: &["container_name"],
    exporter_containers: &["nvidia-gpu-device-plugin", "tpu-device-plugin"],
    ..Dialect::EMPTY
};
