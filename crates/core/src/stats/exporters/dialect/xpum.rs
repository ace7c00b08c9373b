//! Intel's XPU Manager up to version 1. Source: prometheus_exporter.py of intel/xpumanager. It reports
//! each tile of a device with the label `sub_dev`, and the whole device without it. Temperature and
//! frequency have one series per location, so they are not read.

use super::quantity::Quantity;
use super::table::{BYTES, Dialect, metric};

pub(super) const XPUM: Dialect = Dialect {
    metrics: &[
        metric("xpum_engine_ratio", Quantity::Utilization, 0, 100.0),
        metric(
            "xpum_memory_bandwidth_ratio",
            Quantity::MemoryCopy,
            0,
            100.0,
        ),
        metric("xpum_memory_used_bytes", Quantity::MemoryUsed, 0, BYTES),
        metric("xpum_power_watts", Quantity::Power, 0, 1.0),
    ],
    node: &["node"],
    uuid: &["uuid"],
    part: &["sub_dev"],
    model: &["dev_name"],
    pod: &[("kube_namespace", "kube_pod")],
    container: &["kube_container"],
    exporter_containers: &["python-exporter"],
    ..Dialect::EMPTY
};
