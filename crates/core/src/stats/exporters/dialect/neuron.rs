//! AWS' neuron-monitor with its Prometheus companion. Source: neuron-monitor-prometheus.py of the
//! AWS Neuron SDK, whose output the tests of open-telemetry/opentelemetry-collector-contrib contain.
//! Each NeuronCore is one row, because the exporter does not name the device of a core.

use super::quantity::Quantity;
use super::table::{Dialect, metric};

pub(super) const NEURON: Dialect = Dialect {
    metrics: &[metric(
        "neuroncore_utilization_ratio",
        Quantity::Utilization,
        0,
        100.0,
    )],
    index: &["neuroncore"],
    model: &["instance_type"],
    exporter_containers: &["neuron-monitor", "neuron-monitor-prometheus"],
    ..Dialect::EMPTY
};
