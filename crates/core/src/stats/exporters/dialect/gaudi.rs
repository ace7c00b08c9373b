//! Intel's metric exporter for Gaudi. Source of the metrics: the page Prometheus Metric Exporter of
//! docs.habana.ai. It does not document the labels, so `UUID` and `device` are assumptions.

use super::quantity::Quantity;
use super::table::{BYTES, Dialect, metric};

pub(super) const GAUDI: Dialect = Dialect {
    metrics: &[
        metric("habanalabs_utilization", Quantity::Utilization, 0, 1.0),
        metric(
            "habanalabs_memory_used_bytes",
            Quantity::MemoryUsed,
            0,
            BYTES,
        ),
        metric(
            "habanalabs_memory_free_bytes",
            Quantity::MemoryFree,
            0,
            BYTES,
        ),
        metric(
            "habanalabs_memory_total_bytes",
            Quantity::MemoryTotal,
            0,
            BYTES,
        ),
        metric("habanalabs_power_mW", Quantity::Power, 0, 0.001),
        metric(
            "habanalabs_power_default_limit_mW",
            Quantity::PowerLimit,
            0,
            0.001,
        ),
        metric(
            "habanalabs_temperature_onchip",
            Quantity::Temperature,
            0,
            1.0,
        ),
        metric("habanalabs_clock_soc_mhz", Quantity::Clock, 0, 1.0),
    ],
    uuid: &["UUID", "uuid"],
    index: &["device"],
    exporter_containers: &["metric-exporter"],
    ..Dialect::EMPTY
};
