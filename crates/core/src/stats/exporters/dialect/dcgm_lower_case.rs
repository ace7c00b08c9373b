//! NVIDIA's first dcgm-exporter, a script for node-exporter's text files. Source:
//! exporters/prometheus-dcgm of NVIDIA/gpu-monitoring-tools, whose README contains the output.

use super::quantity::Quantity;
use super::table::{Dialect, metric};

pub(super) const DCGM_LOWER_CASE: Dialect = Dialect {
    metrics: &[
        metric("dcgm_gpu_utilization", Quantity::Utilization, 0, 1.0),
        metric("dcgm_mem_copy_utilization", Quantity::MemoryCopy, 0, 1.0),
        metric("dcgm_fb_used", Quantity::MemoryUsed, 0, 1.0),
        metric("dcgm_fb_free", Quantity::MemoryFree, 0, 1.0),
        metric("dcgm_power_usage", Quantity::Power, 0, 1.0),
        metric("dcgm_gpu_temp", Quantity::Temperature, 0, 1.0),
        metric("dcgm_sm_clock", Quantity::Clock, 0, 1.0),
    ],
    uuid: &["uuid"],
    index: &["gpu"],
    pod: &[("pod_namespace", "pod_name")],
    container: &["container_name"],
    exporter_containers: &["pod-nvidia-gpu-metrics-exporter", "nvidia-dcgm-exporter"],
    ..Dialect::EMPTY
};
