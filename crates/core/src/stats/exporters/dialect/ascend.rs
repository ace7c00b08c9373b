//! Huawei's npu-exporter for Ascend, from version 5 on. Source: component/npu-exporter of
//! Ascend/mind-cluster: collector/metrics. Memory is in MB, as the exporter's documentation states.

use super::quantity::Quantity;
use super::table::{Dialect, metric};

pub(super) const ASCEND: Dialect = Dialect {
    metrics: &[
        metric("npu_chip_info_utilization", Quantity::Utilization, 0, 1.0),
        metric(
            "npu_chip_info_hbm_bandwidth_utilization",
            Quantity::MemoryCopy,
            0,
            1.0,
        ),
        metric(
            "npu_chip_info_hbm_used_memory",
            Quantity::MemoryUsed,
            0,
            1.0,
        ),
        metric(
            "npu_chip_info_hbm_total_memory",
            Quantity::MemoryTotal,
            0,
            1.0,
        ),
        // Chips without HBM, such as the 310.
        metric("npu_chip_info_used_memory", Quantity::MemoryUsed, 1, 1.0),
        metric("npu_chip_info_total_memory", Quantity::MemoryTotal, 1, 1.0),
        metric("npu_chip_info_power", Quantity::Power, 0, 1.0),
        metric("npu_chip_info_temperature", Quantity::Temperature, 0, 1.0),
        metric("npu_chip_info_health_status", Quantity::Health, 0, 1.0),
    ],
    uuid: &["vdie_id"],
    index: &["id", "npu_id", "npuID"],
    model: &["model_name", "modelName"],
    pod: &[
        ("exported_namespace", "pod_name"),
        ("namespace", "pod_name"),
    ],
    container: &["container_name"],
    exporter_containers: &["npu-exporter"],
    ..Dialect::EMPTY
};
