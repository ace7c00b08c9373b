//! Tables of the supported GPU exporters (`dcgm.rs`, `amd.rs`, …) and their common code. The tables
//! convert units, and physically impossible values are rejected.

mod amd;
mod ascend;
mod dcgm;
mod dcgm_lower_case;
mod gaudi;
mod gke;
mod hami;
mod neuron;
mod nvidia_gpu;
mod nvidia_smi;
mod quantity;
mod table;
mod xpum;

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use crate::model::Series;

pub use quantity::Quantity;
pub use table::{Dialect, ExporterMetric, SliceLabels};

/// All supported exporters. If a series has the labels of several exporters, the first one wins.
pub const DIALECTS: &[&Dialect] = &[
    &dcgm::DCGM,
    &amd::AMD,
    &hami::HAMI,
    &nvidia_gpu::NVIDIA_GPU,
    &nvidia_smi::NVIDIA_SMI,
    &dcgm_lower_case::DCGM_LOWER_CASE,
    &gke::GKE,
    &xpum::XPUM,
    &gaudi::GAUDI,
    &ascend::ASCEND,
    &neuron::NEURON,
];

/// All metrics by name, with their exporters.
static BY_NAME: LazyLock<HashMap<&'static str, (&'static ExporterMetric, &'static Dialect)>> =
    LazyLock::new(|| {
        let of_dialect = |dialect: &&'static Dialect| {
            let dialect = *dialect;
            dialect
                .metrics
                .iter()
                .map(move |metric| (metric.name, (metric, dialect)))
        };
        DIALECTS.iter().flat_map(of_dialect).collect()
    });

/// Labels (namespace, pod) of the holder after Prometheus renamed the exporter's labels, because
/// the target's own labels have the same names (`honor_labels: false`).
pub const EXPORTED_POD: (&str, &str) = ("exported_namespace", "exported_pod");

/// Labels (namespace, pod) of the holder, or of the exporter's own pod if Prometheus put the
/// target's labels there.
pub const PLAIN_POD: (&str, &str) = ("namespace", "pod");

/// Label with the name of the DRA claim through which a pod holds the device.
pub(crate) const CLAIM: &str = "dra_claim_name";

/// Returns true if a label describes a DRA claim. Such a label does not distinguish collectors.
pub(crate) fn is_of_claim(label: &str) -> bool {
    label.starts_with("dra_")
}

/// Labels of the container that belong to [`EXPORTED_POD`] and [`PLAIN_POD`], in this order.
const CONTAINERS: [&str; 2] = ["exported_container", "container"];

/// Labels that scrape configurations usually use for the name of the node. OpenTelemetry's
/// collector and Grafana's agent write the last three.
const TARGET_NODE: [&str; 8] = [
    "node",
    "node_name",
    "kubernetes_node",
    "nodename",
    "kubernetes_io_hostname",
    "k8s_node_name",
    "kubernetes_node_name",
    "host_name",
];

/// Labels with an address of the node, used only if no label contains the node's name.
pub const NODE_ADDRESS: [&str; 2] = ["exported_instance", "instance"];

/// Returns the labels that contain the name of a node.
pub fn node_labels() -> impl Iterator<Item = &'static str> {
    DIALECTS
        .iter()
        .flat_map(|dialect| dialect.node)
        .copied()
        .chain(TARGET_NODE)
}

/// Returns the labels that contain the UUID of a device.
pub(crate) fn uuid_labels() -> impl Iterator<Item = &'static str> {
    DIALECTS.iter().flat_map(|dialect| dialect.uuid).copied()
}

/// Returns the labels that contain the number of a device on its node.
pub(crate) fn index_labels() -> impl Iterator<Item = &'static str> {
    DIALECTS.iter().flat_map(|dialect| dialect.index).copied()
}

/// Returns the pairs of labels (namespace, pod) that name the holder of a device. Only exporters
/// write these labels, never scrape configurations.
pub(crate) fn holder_labels() -> impl Iterator<Item = (&'static str, &'static str)> {
    std::iter::once(EXPORTED_POD).chain(DIALECTS.iter().flat_map(|dialect| dialect.pod).copied())
}

/// Returns all pairs of labels that may name a pod, without duplicates.
pub fn pod_labels() -> Vec<(&'static str, &'static str)> {
    let mut pairs = Vec::new();
    for pair in holder_labels().chain([PLAIN_POD]) {
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    pairs
}

/// Returns true for names that exporters give their own container.
pub(crate) fn is_exporter_container(name: &str) -> bool {
    DIALECTS
        .iter()
        .any(|dialect| dialect.exporter_containers.contains(&name))
}

/// Returns the metrics of all exporters.
pub fn metrics() -> impl Iterator<Item = &'static ExporterMetric> {
    DIALECTS.iter().flat_map(|dialect| dialect.metrics)
}

pub fn metric_of(name: &str) -> Option<&'static ExporterMetric> {
    BY_NAME.get(name).map(|(metric, _)| *metric)
}

/// Returns the exporter that defines a metric.
pub(crate) fn dialect_of(name: &str) -> Option<&'static Dialect> {
    BY_NAME.get(name).map(|(_, dialect)| *dialect)
}

/// Returns false if a series only has the name of an exporter's metric.
fn has_required_labels(dialect: Option<&Dialect>, series: &Series) -> bool {
    let mut required = dialect.into_iter().flat_map(|dialect| dialect.required);
    required.all(|label| series.label(label).is_some())
}

/// Returns the UUID of a series' device, with the start that its exporter omits.
pub(crate) fn uuid(series: &Series) -> Option<String> {
    let text = series.first(uuid_labels())?;
    let dialect = dialect_of(series.name());
    if !has_required_labels(dialect, series) {
        return None;
    }
    let prefix = dialect.map_or("", |dialect| dialect.uuid_prefix);
    Some(match text.starts_with(prefix) {
        true => text.to_owned(),
        false => format!("{prefix}{text}"),
    })
}

/// Returns the number of a series' device on its node.
pub(crate) fn index(series: &Series) -> Option<u32> {
    let index = index_labels()
        .filter_map(|label| series.label(label))
        .find_map(|text| text.parse().ok())?;
    has_required_labels(dialect_of(series.name()), series).then_some(index)
}

/// Returns true if a series is about a part of a device that its exporter also reports as a whole.
pub(crate) fn is_of_a_part(series: &Series) -> bool {
    let parts = dialect_of(series.name()).map_or(&[][..], |dialect| dialect.part);
    parts.iter().any(|label| series.label(label).is_some())
}

/// Returns all labels that gpuctl reads. A server may drop the others.
pub fn labels() -> impl Iterator<Item = &'static str> {
    let pods = pod_labels()
        .into_iter()
        .flat_map(|(namespace, pod)| [namespace, pod]);
    let containers = DIALECTS
        .iter()
        .flat_map(|dialect| dialect.container)
        .copied()
        .chain(CONTAINERS);
    let models = DIALECTS.iter().flat_map(|dialect| dialect.model).copied();
    let slices = DIALECTS
        .iter()
        .filter_map(|dialect| dialect.slice)
        .flat_map(|slice| match slice {
            SliceLabels::Profile { profile, number } => vec![profile, number],
            SliceLabels::Modes {
                compute,
                memory,
                number,
            } => vec![compute, memory, number],
        });
    let parts = DIALECTS
        .iter()
        .flat_map(|dialect| dialect.part.iter().chain(dialect.required))
        .copied();
    let devices = node_labels()
        .chain(parts)
        .chain(NODE_ADDRESS)
        .chain(uuid_labels())
        .chain(index_labels());
    let mut seen = BTreeSet::new();
    let labels = pods
        .chain(containers)
        .chain(devices)
        .chain(models)
        .chain(slices)
        .chain(["job"]);
    labels.filter(move |label| seen.insert(*label))
}

#[cfg(test)]
mod tests;
