//! The GPU exporters that gpuctl reads: one file with one table each (`dcgm.rs`, `amd.rs`, …), and
//! what all of them share. Units are converted by the tables, and physically impossible values are
//! refused.

mod amd;
mod dcgm;
mod hami;
mod nvidia_gpu;
mod quantity;
mod table;

use std::collections::BTreeSet;

pub use quantity::Quantity;
pub use table::{Dialect, ExporterMetric, SliceLabels};

/// Every exporter that is understood. Where a series has labels of several, those of the first
/// count.
pub const DIALECTS: &[&Dialect] = &[&dcgm::DCGM, &amd::AMD, &hami::HAMI, &nvidia_gpu::NVIDIA_GPU];

/// The pod of a series, as (namespace, pod), where Prometheus renamed the exporter's labels because
/// those of the target have the same names (`honor_labels: false`).
pub const EXPORTED_POD: (&str, &str) = ("exported_namespace", "exported_pod");

/// The pod of a series, as (namespace, pod): the holder of the device, or the exporter itself where
/// Prometheus wrote the target's labels.
pub const PLAIN_POD: (&str, &str) = ("namespace", "pod");

/// The label with the claim of dynamic allocation by which a pod holds the device.
pub(crate) const CLAIM: &str = "dra_claim_name";

/// Returns true for what exporters tell of claims: it is no part of who collected a sample.
pub(crate) fn is_of_claim(label: &str) -> bool {
    label.starts_with("dra_")
}

/// The container beside [`EXPORTED_POD`] and the one beside [`PLAIN_POD`].
const CONTAINERS: [&str; 2] = ["exported_container", "container"];

/// Labels with the node's name that scrape configurations add.
const TARGET_NODE: [&str; 3] = ["node", "node_name", "kubernetes_node"];

/// Labels with an address of the node, which count only where no name is told.
pub const NODE_ADDRESS: [&str; 2] = ["exported_instance", "instance"];

/// Returns the labels with the name of a node.
pub fn node_labels() -> impl Iterator<Item = &'static str> {
    DIALECTS
        .iter()
        .flat_map(|dialect| dialect.node)
        .copied()
        .chain(TARGET_NODE)
}

/// Returns the labels with the identity of a device.
pub(crate) fn uuid_labels() -> impl Iterator<Item = &'static str> {
    DIALECTS.iter().flat_map(|dialect| dialect.uuid).copied()
}

/// Returns the labels with the number of a device on its node.
pub(crate) fn index_labels() -> impl Iterator<Item = &'static str> {
    DIALECTS.iter().flat_map(|dialect| dialect.index).copied()
}

/// Returns the labels with the pod that holds a device, as (namespace, pod), which no scrape
/// configuration writes.
pub(crate) fn holder_labels() -> impl Iterator<Item = (&'static str, &'static str)> {
    std::iter::once(EXPORTED_POD).chain(DIALECTS.iter().flat_map(|dialect| dialect.pod).copied())
}

/// Returns all pairs of labels that may name a pod, each once.
pub fn pod_labels() -> Vec<(&'static str, &'static str)> {
    let mut pairs = Vec::new();
    for pair in holder_labels().chain([PLAIN_POD]) {
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    pairs
}

/// Returns true for what an exporter calls its own container.
pub(crate) fn is_own_container(name: &str) -> bool {
    DIALECTS
        .iter()
        .any(|dialect| dialect.own_containers.contains(&name))
}

/// Returns every metric of every exporter.
pub fn metrics() -> impl Iterator<Item = &'static ExporterMetric> {
    DIALECTS.iter().flat_map(|dialect| dialect.metrics)
}

/// Returns the metric of this name.
pub fn metric_of(name: &str) -> Option<&'static ExporterMetric> {
    metrics().find(|metric| metric.name == name)
}

/// Returns the exporter that has a metric of this name.
pub(crate) fn dialect_of(name: &str) -> Option<&'static Dialect> {
    DIALECTS
        .iter()
        .copied()
        .find(|dialect| dialect.metrics.iter().any(|metric| metric.name == name))
}

/// Returns every label that is read, so that a server may leave the others out.
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
    let devices = node_labels()
        .chain(NODE_ADDRESS)
        .chain(uuid_labels())
        .chain(index_labels());
    let mut seen = BTreeSet::new();
    let all = pods
        .chain(containers)
        .chain(devices)
        .chain(models)
        .chain(slices)
        .chain(["job"]);
    all.filter(move |label| seen.insert(*label))
}

/// The codes that [`is_fatal_xid`] means.
pub const FATAL_XIDS: [u32; 8] = [48, 64, 74, 79, 95, 119, 120, 140];

/// Errors after which a device must not be used before somebody has looked at it (NVIDIA's catalog
/// of XIDs): double bit errors, row remapping failed, NVLink, fallen off the bus, uncontained
/// errors, a firmware that does not answer, unrecovered ECC errors. What a program can cause by
/// itself is not among them.
pub fn is_fatal_xid(code: u32) -> bool {
    FATAL_XIDS.contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_device_can_have_is_refused() {
        let read = |name: &str, value: f64| metric_of(name).unwrap().read(value);
        assert_eq!(read("DCGM_FI_DEV_GPU_UTIL", 97.0), Some(97.0));
        assert_eq!(read("DCGM_FI_DEV_GPU_UTIL", 0.0), Some(0.0));
        for garbage in [
            -1.0,
            101.0,
            2_147_483_632.0,
            9_223_372_036_854_775_794.0,
            f64::NAN,
            f64::INFINITY,
        ] {
            assert_eq!(read("DCGM_FI_DEV_GPU_UTIL", garbage), None, "{garbage}");
        }
        assert_eq!(read("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.431), Some(43.1));
        assert_eq!(
            read("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1.000_000_001),
            Some(100.0)
        );
        assert_eq!(
            read("nvidia_gpu_memory_used_bytes", 3.0 * 1024.0 * 1024.0),
            Some(3.0)
        );
        assert_eq!(
            read("nvidia_gpu_power_usage_milliwatts", 312_500.0),
            Some(312.5)
        );
        assert_eq!(read("DCGM_FI_DEV_GPU_TEMP", 151.0), None);
    }

    #[test]
    fn a_name_is_one_metric_of_one_exporter_and_a_label_is_read_once() {
        let names: BTreeSet<_> = metrics().map(|metric| metric.name).collect();
        assert_eq!(names.len(), metrics().count());
        assert_eq!(labels().filter(|label| *label == "pod_name").count(), 1);
    }

    #[test]
    fn an_exporter_names_its_devices_and_none_claims_the_targets_labels() {
        for dialect in DIALECTS {
            assert!(!dialect.metrics.is_empty(), "{dialect:?}");
            assert!(
                !dialect.uuid.is_empty() || !dialect.index.is_empty(),
                "{dialect:?}"
            );
            assert!(
                !dialect.pod.contains(&PLAIN_POD) && !dialect.pod.contains(&EXPORTED_POD),
                "{dialect:?}"
            );
        }
    }
}
