//! Recognizes the pods of exporters in the labels `namespace` and `pod`. Prometheus writes the
//! target's own pod there, unless the scrape configuration sets `honor_labels`. One scrape job can
//! have targets of both kinds, such as a PodMonitor with and a ServiceMonitor without `honorLabels`.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::Series;

use super::dialect::{EXPORTED_POD, PLAIN_POD};

/// Exporters' pods by scrape job, for jobs whose target labels clash with the exporter's.
#[derive(Debug, Default)]
pub(crate) struct ClashingTargets {
    /// Namespaces and names of the pods, without the random end of the name. An empty set means
    /// that the pods are unknown, so any pod may be an exporter.
    by_job: BTreeMap<String, BTreeSet<(String, String)>>,
}

impl ClashingTargets {
    /// Reads the targets from the series of one query result. `exported_pod` exists only if the
    /// target's own `pod` label took precedence.
    pub(crate) fn new(answer: &[Series]) -> Self {
        let mut by_job: BTreeMap<String, BTreeSet<(String, String)>> = BTreeMap::new();
        for series in answer {
            if series.label(EXPORTED_POD.1).is_none() {
                continue;
            }
            let targets = by_job.entry(job(series)).or_default();
            targets.extend(pod_family(series));
        }
        Self { by_job }
    }

    /// Returns true if the plain labels of a series name the exporter's pod.
    pub(crate) fn is_exporter_pod(&self, series: &Series) -> bool {
        let Some(targets) = self.by_job.get(&job(series)) else {
            return false;
        };
        let has_family = || pod_family(series).is_some_and(|family| targets.contains(&family));
        targets.is_empty() || series.label(EXPORTED_POD.1).is_some() || has_family()
    }
}

/// Returns the namespace of the pod in the plain labels, and its name without the last part, which
/// differs between the pods of a DaemonSet.
fn pod_family(series: &Series) -> Option<(String, String)> {
    let (namespace, pod) = (series.label(PLAIN_POD.0)?, series.label(PLAIN_POD.1)?);
    let family = pod.rsplit_once('-').map_or(pod, |(family, _)| family);
    Some((namespace.to_owned(), family.to_owned()))
}

fn job(series: &Series) -> String {
    series.label("job").unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(labels: &[(&str, &str)]) -> Series {
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        Series {
            labels,
            points: Vec::new(),
        }
    }

    #[test]
    fn job_may_have_targets_of_both_kinds() {
        let clashing = series(&[
            ("job", "dcgm"),
            ("namespace", "gpu-operator"),
            ("pod", "nvidia-dcgm-exporter-x7k2p"),
            ("exported_namespace", "team"),
            ("exported_pod", "train-0"),
        ]);
        let targets = ClashingTargets::new(std::slice::from_ref(&clashing));
        let is_exporter = |job: &str, namespace: &str, pod: &str| {
            let labels = [("job", job), ("namespace", namespace), ("pod", pod)];
            targets.is_exporter_pod(&series(&labels))
        };
        // A target with `honor_labels` names the holder in the plain labels.
        assert!(!is_exporter("dcgm", "team", "train-1"));
        // A free device of another target has the exporter's own pod there.
        assert!(is_exporter(
            "dcgm",
            "gpu-operator",
            "nvidia-dcgm-exporter-abcde"
        ));
        assert!(!is_exporter(
            "other",
            "gpu-operator",
            "nvidia-dcgm-exporter-abcde"
        ));
        assert!(targets.is_exporter_pod(&clashing));
    }

    #[test]
    fn any_pod_may_be_an_exporter_if_the_targets_are_unknown() {
        let nameless = series(&[("exported_namespace", "team"), ("exported_pod", "train-0")]);
        let targets = ClashingTargets::new(&[nameless]);
        assert!(targets.is_exporter_pod(&series(&[("namespace", "team"), ("pod", "train-0")])));
    }
}
