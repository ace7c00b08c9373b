//! Exporters of the `nvidia_gpu_*` metrics, which predate DCGM, such as the device plugin of
//! Google's clusters.

use super::quantity::Quantity;
use super::table::{BYTES, Dialect, metric};

pub(super) const NVIDIA_GPU: Dialect = Dialect {
    metrics: &[
        metric("nvidia_gpu_duty_cycle", Quantity::Utilization, 0, 1.0),
        metric(
            "nvidia_gpu_memory_used_bytes",
            Quantity::MemoryUsed,
            0,
            BYTES,
        ),
        metric(
            "nvidia_gpu_memory_total_bytes",
            Quantity::MemoryTotal,
            0,
            BYTES,
        ),
        metric(
            "nvidia_gpu_power_usage_milliwatts",
            Quantity::Power,
            0,
            0.001,
        ),
        metric(
            "nvidia_gpu_temperature_celsius",
            Quantity::Temperature,
            0,
            1.0,
        ),
    ],
    node: &["node_name"],
    uuid: &["uuid"],
    index: &["minor_number", "gpu_index"],
    model: &["name"],
    pod: &[
        ("namespace_name", "pod_name"),
        ("kube_namespace", "kube_pod"),
    ],
    container: &["container_name", "kube_container"],
    exporter_containers: &["nvidia-gpu-exporter", "node-exporter"],
    ..Dialect::EMPTY
};
