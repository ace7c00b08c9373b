//! Decides whether a label such as `cluster` distinguishes clusters in a store. A label that all
//! series of one source lack distinguishes nothing there: AMD's exporter adds `cluster_name` to its
//! own series, and kube-state-metrics of the same cluster has no such label. Sources:
//! ROCm/device-metrics-exporter#135, NVIDIA/dcgm-exporter#529.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::Series;

use super::dialect::dialect_of;

/// The program that exports a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LabelSource {
    /// An exporter of GPU metrics, by the name of the first metric in its table.
    Exporter(&'static str),
    KubeState,
}

/// Values of one label in a store. A series without the label has the empty value.
#[derive(Clone, Debug, Default)]
pub struct ClusterLabel {
    now: BTreeMap<LabelSource, BTreeSet<String>>,
    /// Values that exporters' series had in the window.
    past_exporters: BTreeSet<String>,
    /// Values that the series of kube-state-metrics had in the window.
    past_kube_state: BTreeSet<String>,
}

impl ClusterLabel {
    /// Reads the response to [`super::query::clusters`], and the label's values in the window from
    /// exporters and from kube-state-metrics.
    pub fn new(
        label: &str,
        now: &[Series],
        past_exporters: BTreeSet<String>,
        past_kube_state: BTreeSet<String>,
    ) -> Self {
        let mut values: BTreeMap<LabelSource, BTreeSet<String>> = BTreeMap::new();
        for series in now {
            let source = match dialect_of(series.name()) {
                Some(dialect) => LabelSource::Exporter(dialect.metrics[0].name),
                None => LabelSource::KubeState,
            };
            let value = series.label(label).unwrap_or_default().to_owned();
            values.entry(source).or_default().insert(value);
        }
        Self {
            now: values,
            past_exporters,
            past_kube_state,
        }
    }

    /// Returns the values that may each be a cluster. The empty value is one of them only if a
    /// source has series with and without the label.
    pub fn clusters(&self) -> BTreeSet<String> {
        let past = self.past_exporters.iter().chain(&self.past_kube_state);
        let all = self.now.values().flatten().chain(past);
        all.filter(|value| !value.is_empty() || self.is_mixed())
            .cloned()
            .collect()
    }

    /// Returns true if a query for one of the clusters must include series without the label,
    /// because a source has the label on none of its series.
    pub fn is_absent_from_a_source(&self) -> bool {
        let is_unlabeled = |values: &BTreeSet<String>| values.iter().all(String::is_empty);
        !self.is_mixed() && self.now.values().any(is_unlabeled)
    }

    /// Returns true if no source has several values.
    pub fn has_one_value_per_source(&self) -> bool {
        let exporters = || self.now.iter().filter(|(source, _)| is_exporter(source));
        let is_past_of = |past: &BTreeSet<String>, exporter: bool| {
            past.iter().all(|value| {
                self.now.iter().any(|(source, values)| {
                    is_exporter(source) == exporter && values.contains(value)
                })
            })
        };
        exporters().next().is_some()
            && self.now.values().all(|values| values.len() == 1)
            && is_past_of(&self.past_exporters, true)
            && is_past_of(&self.past_kube_state, false)
    }

    /// Returns true if a source has series with and without the label.
    fn is_mixed(&self) -> bool {
        // A value that only past series had is compared with all sources of its kind.
        let has_lost_it = |past: &BTreeSet<String>, exporters: bool| {
            let mut now = self
                .now
                .iter()
                .filter(|(source, _)| is_exporter(source) == exporters)
                .map(|(_, values)| values);
            let is_gone = past
                .iter()
                .any(|value| !now.clone().any(|values| values.contains(value)));
            is_gone && now.any(|values| values.contains(""))
        };
        let is_partial = |values: &BTreeSet<String>| values.len() > 1 && values.contains("");
        self.now.values().any(is_partial)
            || has_lost_it(&self.past_exporters, true)
            || has_lost_it(&self.past_kube_state, false)
    }
}

fn is_exporter(source: &LabelSource) -> bool {
    matches!(source, LabelSource::Exporter(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds the values from (metric, value) pairs of the present and values of the past.
    fn label(now: &[(&str, &str)], exporters: &[&str], kube_state: &[&str]) -> ClusterLabel {
        let series = |(name, value): &(&str, &str)| Series {
            labels: [("__name__", *name), ("cluster_name", *value)]
                .into_iter()
                .filter(|(_, value)| !value.is_empty())
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
            points: Vec::new(),
        };
        let now: Vec<Series> = now.iter().map(series).collect();
        let set = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
        ClusterLabel::new("cluster_name", &now, set(exporters), set(kube_state))
    }

    fn clusters(label: &ClusterLabel) -> Vec<String> {
        label.clusters().into_iter().collect()
    }

    const DCGM: &str = "DCGM_FI_DEV_GPU_UTIL";
    const AMD: &str = "gpu_gfx_activity";
    const KUBE: &str = "kube_node_status_capacity";

    #[test]
    fn label_of_one_source_is_not_a_second_cluster() {
        let gpus_only = label(&[(DCGM, "oke-prod"), (KUBE, "")], &["oke-prod"], &[]);
        assert_eq!(clusters(&gpus_only), ["oke-prod"]);
        assert!(gpus_only.is_absent_from_a_source());
        // AMD's exporter sets the label, and NVIDIA's on the same cluster does not.
        let one_vendor = label(&[(AMD, "amdgpu"), (DCGM, ""), (KUBE, "")], &["amdgpu"], &[]);
        assert_eq!(clusters(&one_vendor), ["amdgpu"]);
        // The exporters stopped, so the label exists only in the past.
        let stopped = label(&[(KUBE, "")], &["oke-prod"], &[]);
        assert_eq!(clusters(&stopped), ["oke-prod"]);
    }

    #[test]
    fn source_with_and_without_the_label_has_two_clusters() {
        let kube_of_two = label(
            &[(DCGM, "prod"), (KUBE, "prod"), (KUBE, "")],
            &["prod"],
            &["prod"],
        );
        assert_eq!(clusters(&kube_of_two), ["", "prod"]);
        assert!(!kube_of_two.is_absent_from_a_source());
        let two = label(&[(DCGM, "a"), (DCGM, "b"), (KUBE, "")], &["a", "b"], &[]);
        assert_eq!(clusters(&two), ["a", "b"]);
        assert!(two.is_absent_from_a_source());
        // Series of the labeled cluster ended, and unlabeled ones continue.
        let ended = label(&[(DCGM, ""), (KUBE, "")], &["prod"], &[]);
        assert_eq!(clusters(&ended), ["", "prod"]);
        let complete = label(&[(DCGM, "a"), (KUBE, "a")], &["a"], &["a"]);
        assert_eq!(clusters(&complete), ["a"]);
        assert!(!complete.is_absent_from_a_source());
    }

    #[test]
    fn programs_may_name_one_cluster_differently() {
        let named = label(&[(AMD, "amdgpu"), (KUBE, "prod")], &["amdgpu"], &["prod"]);
        assert_eq!(clusters(&named), ["amdgpu", "prod"]);
        assert!(named.has_one_value_per_source());
        let renamed = label(&[(AMD, "a"), (KUBE, "prod")], &["a", "b"], &["prod"]);
        assert!(!renamed.has_one_value_per_source());
        let two = label(&[(DCGM, "a"), (DCGM, "b")], &["a", "b"], &[]);
        assert!(!two.has_one_value_per_source());
    }
}
