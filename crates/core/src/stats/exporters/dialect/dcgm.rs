//! NVIDIA's dcgm-exporter. Source: its default-counters.csv and render_metrics.go.

use super::quantity::Quantity;
use super::table::{Dialect, SliceLabels, device_metric, metric};

pub(super) const DCGM: Dialect = Dialect {
    metrics: &[
        // Instances have no GPU_UTIL, or a constant zero (NVIDIA/dcgm-exporter#216).
        device_metric("DCGM_FI_DEV_GPU_UTIL", Quantity::Utilization, 0),
        // The fraction of time that the graphics engine was active, also of instances.
        metric(
            "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
            Quantity::Utilization,
            1,
            100.0,
        ),
        device_metric("DCGM_FI_DEV_MEM_COPY_UTIL", Quantity::MemoryCopy, 0),
        metric("DCGM_FI_PROF_DRAM_ACTIVE", Quantity::MemoryCopy, 1, 100.0),
        metric("DCGM_FI_DEV_FB_USED", Quantity::MemoryUsed, 0, 1.0),
        metric("DCGM_FI_DEV_FB_FREE", Quantity::MemoryFree, 0, 1.0),
        metric("DCGM_FI_DEV_FB_TOTAL", Quantity::MemoryTotal, 0, 1.0),
        metric("DCGM_FI_DEV_POWER_USAGE", Quantity::Power, 0, 1.0),
        metric("DCGM_FI_DEV_POWER_USAGE_INSTANT", Quantity::Power, 1, 1.0),
        metric(
            "DCGM_FI_DEV_ENFORCED_POWER_LIMIT",
            Quantity::PowerLimit,
            0,
            1.0,
        ),
        metric("DCGM_FI_DEV_POWER_MGMT_LIMIT", Quantity::PowerLimit, 1, 1.0),
        metric("DCGM_FI_DEV_GPU_TEMP", Quantity::Temperature, 0, 1.0),
        metric("DCGM_FI_DEV_SM_CLOCK", Quantity::Clock, 0, 1.0),
        metric("DCGM_FI_PROF_SM_ACTIVE", Quantity::SmActive, 0, 100.0),
        metric(
            "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
            Quantity::TensorActive,
            0,
            100.0,
        ),
        metric(
            "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
            Quantity::Throttle,
            0,
            1.0,
        ),
        // Name of the metric up to DCGM 3.
        metric(
            "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",
            Quantity::Throttle,
            1,
            1.0,
        ),
        metric("DCGM_FI_DEV_XID_ERRORS", Quantity::Xid, 0, 1.0),
        metric(
            "DCGM_FI_DEV_ROW_REMAP_FAILURE",
            Quantity::RowRemapFailure,
            0,
            1.0,
        ),
        // Exported since version 4.7 (NVIDIA/dcgm-exporter#745).
        metric(
            "DCGM_FI_DEV_FABRIC_HEALTH_SUMMARY",
            Quantity::FabricHealth,
            0,
            1.0,
        ),
    ],
    // The label is `Hostname` up to version 4.4, and `hostname` in later versions.
    node: &["Hostname", "hostname"],
    uuid: &["UUID"],
    index: &["gpu"],
    model: &["modelName"],
    // Labels of versions before 3.
    pod: &[("pod_namespace", "pod_name")],
    container: &["container_name"],
    exporter_containers: &["exporter", "dcgm-exporter", "nvidia-dcgm-exporter"],
    slice: Some(SliceLabels::Profile {
        profile: "GPU_I_PROFILE",
        number: "GPU_I_ID",
    }),
    ..Dialect::EMPTY
};
