//! Tables of the supported GPU exporters (`dcgm.rs`, `amd.rs`, …) and their common code. The tables
//! convert units, and physically impossible values are rejected.

mod amd;
mod dcgm;
mod hami;
mod nvidia_gpu;
mod quantity;
mod table;

use std::collections::BTreeSet;

pub use quantity::Quantity;
pub use table::{Dialect, ExporterMetric, SliceLabels};

/// All supported exporters. If a series has the labels of several exporters, the first one wins.
pub const DIALECTS: &[&Dialect] = &[&dcgm::DCGM, &amd::AMD, &hami::HAMI, &nvidia_gpu::NVIDIA_GPU];

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

/// Labels that scrape configurations usually use for the name of the node.
const TARGET_NODE: [&str; 3] = ["node", "node_name", "kubernetes_node"];

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
    metrics().find(|metric| metric.name == name)
}

/// Returns the exporter that defines a metric.
pub(crate) fn dialect_of(name: &str) -> Option<&'static Dialect> {
    DIALECTS
        .iter()
        .copied()
        .find(|dialect| dialect.metrics.iter().any(|metric| metric.name == name))
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
    let devices = node_labels()
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

/// XIDs for which [`is_fatal_xid`] returns true.
pub const FATAL_XIDS: [u32; 8] = [48, 64, 74, 79, 95, 119, 120, 140];

/// Returns true if NVIDIA's XID catalog requires checking a device after this error before its next
/// use: double-bit ECC errors, failed row remapping, NVLink errors, a GPU that has fallen off the
/// bus, uncontained errors, a firmware timeout and unrecovered ECC errors. Excludes errors that a
/// user program alone can cause.
pub fn is_fatal_xid(code: u32) -> bool {
    FATAL_XIDS.contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_values_are_dropped() {
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
    fn metric_names_and_labels_are_unique() {
        let names: BTreeSet<_> = metrics().map(|metric| metric.name).collect();
        assert_eq!(names.len(), metrics().count());
        assert_eq!(labels().filter(|label| *label == "pod_name").count(), 1);
    }

    #[test]
    fn dialects_have_device_labels_but_no_target_labels() {
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
