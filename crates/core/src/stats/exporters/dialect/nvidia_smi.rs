//! utkuozdemir's nvidia_gpu_exporter, which reads `nvidia-smi` or NVML. Source: its docs/METRICS.md
//! and internal/integration/testdata. Its UUIDs lack the start `GPU-`, and its metrics name neither
//! pods nor nodes.

use super::quantity::Quantity;
use super::table::{BYTES, Dialect, metric};

pub(super) const NVIDIA_SMI: Dialect = Dialect {
    metrics: &[
        metric(
            "nvidia_smi_utilization_gpu_ratio",
            Quantity::Utilization,
            0,
            100.0,
        ),
        metric(
            "nvidia_smi_utilization_memory_ratio",
            Quantity::MemoryCopy,
            0,
            100.0,
        ),
        metric(
            "nvidia_smi_memory_used_bytes",
            Quantity::MemoryUsed,
            0,
            BYTES,
        ),
        metric(
            "nvidia_smi_memory_free_bytes",
            Quantity::MemoryFree,
            0,
            BYTES,
        ),
        metric(
            "nvidia_smi_memory_total_bytes",
            Quantity::MemoryTotal,
            0,
            BYTES,
        ),
        metric("nvidia_smi_power_draw_watts", Quantity::Power, 0, 1.0),
        metric(
            "nvidia_smi_power_draw_average_watts",
            Quantity::Power,
            1,
            1.0,
        ),
        metric(
            "nvidia_smi_enforced_power_limit_watts",
            Quantity::PowerLimit,
            0,
            1.0,
        ),
        metric("nvidia_smi_power_limit_watts", Quantity::PowerLimit, 1, 1.0),
        metric("nvidia_smi_temperature_gpu", Quantity::Temperature, 0, 1.0),
        metric(
            "nvidia_smi_remapped_rows_failure",
            Quantity::RowRemapFailure,
            0,
            1.0,
        ),
        // Its value is always 1. Its labels contain the model.
        metric("nvidia_smi_gpu_info", Quantity::Share, 6, 1.0),
    ],
    uuid: &["uuid"],
    uuid_prefix: "GPU-",
    model: &["name"],
    exporter_containers: &["nvidia-gpu-exporter"],
    ..Dialect::EMPTY
};
