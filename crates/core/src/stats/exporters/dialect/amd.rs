//! AMD's device-metrics-exporter, with and without the prefix of its example configuration. Source:
//! its metricslist.md.

use super::quantity::Quantity;
use super::table::{Dialect, SliceLabels, metric};

pub(super) const AMD: Dialect = Dialect {
    metrics: &[
        metric("gpu_gfx_activity", Quantity::Utilization, 0, 1.0),
        metric("amd_gpu_gfx_activity", Quantity::Utilization, 0, 1.0),
        metric("gpu_umc_activity", Quantity::MemoryCopy, 0, 1.0),
        metric("amd_gpu_umc_activity", Quantity::MemoryCopy, 0, 1.0),
        metric("gpu_used_vram", Quantity::MemoryUsed, 0, 1.0),
        metric("amd_gpu_used_vram", Quantity::MemoryUsed, 0, 1.0),
        metric("gpu_free_vram", Quantity::MemoryFree, 0, 1.0),
        metric("amd_gpu_free_vram", Quantity::MemoryFree, 0, 1.0),
        metric("gpu_total_vram", Quantity::MemoryTotal, 0, 1.0),
        metric("amd_gpu_total_vram", Quantity::MemoryTotal, 0, 1.0),
        metric("gpu_package_power", Quantity::Power, 0, 1.0),
        metric("gpu_average_package_power", Quantity::Power, 1, 1.0),
        metric("gpu_power_usage", Quantity::Power, 2, 1.0),
        metric("amd_gpu_package_power", Quantity::Power, 0, 1.0),
        metric("amd_gpu_average_package_power", Quantity::Power, 1, 1.0),
        metric("amd_gpu_power_usage", Quantity::Power, 2, 1.0),
        metric("gpu_junction_temperature", Quantity::Temperature, 0, 1.0),
        metric("gpu_edge_temperature", Quantity::Temperature, 1, 1.0),
        metric(
            "amd_gpu_junction_temperature",
            Quantity::Temperature,
            0,
            1.0,
        ),
        metric("amd_gpu_edge_temperature", Quantity::Temperature, 1, 1.0),
        metric("gpu_health", Quantity::Health, 0, 1.0),
        metric("amd_gpu_health", Quantity::Health, 0, 1.0),
    ],
    node: &["hostname"],
    uuid: &["gpu_uuid"],
    index: &["gpu_id"],
    model: &["card_series", "card_model"],
    exporter_containers: &["metrics-exporter-container", "amd-metrics-exporter"],
    slice: Some(SliceLabels::Modes {
        compute: "gpu_compute_partition_type",
        memory: "gpu_memory_partition_type",
        number: "gpu_partition_id",
    }),
    first_slice_only: &[
        Quantity::Utilization,
        Quantity::MemoryCopy,
        Quantity::Power,
        Quantity::Temperature,
    ],
    ..Dialect::EMPTY
};
