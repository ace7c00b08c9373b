//! HAMi, which shares a device among several pods. Metrics come from its node monitor and its
//! scheduler. Source: cmd/vGPUmonitor/metrics.go and cmd/scheduler/metrics.go, before and after the
//! metrics were renamed.

use super::quantity::Quantity;
use super::table::{BYTES, Dialect, metric};

pub(super) const HAMI: Dialect = Dialect {
    // Ranks start at 2, so that the exporter of the device's vendor, which reports more metrics,
    // takes precedence.
    metrics: &[
        metric(
            "hami_host_gpu_utilization_ratio",
            Quantity::Utilization,
            2,
            1.0,
        ),
        metric("HostCoreUtilization", Quantity::Utilization, 3, 1.0),
        metric(
            "hami_host_gpu_memory_used_bytes",
            Quantity::MemoryUsed,
            1,
            BYTES,
        ),
        metric("HostGPUMemoryUsage", Quantity::MemoryUsed, 2, BYTES),
        metric(
            "hami_gpu_memory_limit_bytes",
            Quantity::MemoryTotal,
            2,
            BYTES,
        ),
        // Utilization by a single pod. A query for one pod finds no other utilization.
        metric(
            "hami_container_device_utilization_ratio",
            Quantity::Utilization,
            8,
            1.0,
        ),
        metric(
            "Device_utilization_desc_of_container",
            Quantity::Utilization,
            9,
            1.0,
        ),
        metric(
            "hami_vgpu_memory_used_bytes",
            Quantity::MemoryUsed,
            8,
            BYTES,
        ),
        metric(
            "vGPU_device_memory_usage_in_bytes",
            Quantity::MemoryUsed,
            9,
            BYTES,
        ),
        metric(
            "hami_vgpu_memory_limit_bytes",
            Quantity::MemoryTotal,
            8,
            BYTES,
        ),
        metric("GPUDeviceSharedNum", Quantity::Share, 4, 1.0),
        metric("hami_gpu_shared_count", Quantity::Share, 5, 1.0),
    ],
    node: &["nodeid", "node"],
    uuid: &["device_uuid", "deviceuuid"],
    index: &["device_index", "deviceidx"],
    model: &["device_type", "devicetype"],
    pod: &[("pod_namespace", "pod_name"), ("podnamespace", "podname")],
    container: &["ctrname"],
    exporter_containers: &["vgpu-monitor"],
    ..Dialect::EMPTY
};
