//! Queries the pods that share a GPU in Run:ai and in the KAI scheduler. kube-state-metrics exports
//! the label and the annotation only if its allow-lists name them.
//!
//! Source: run-ai/fake-gpu-operator, internal/common/constants (`runai-gpu-group`, `gpu-fraction`).

use super::window;
use crate::model::values::series::Series;

/// Queries when pods had a group of pods on one GPU.
pub fn groups(seconds: i64) -> String {
    let window = window(seconds);
    format!("kube_pod_labels{{label_runai_gpu_group!=\"\"}}{window}")
}

/// Queries the fractions of a GPU that pods requested.
pub fn fractions(seconds: i64) -> String {
    let window = window(seconds);
    format!("last_over_time(kube_pod_annotations{{annotation_gpu_fraction!=\"\"}}{window})")
}

/// Returns the group of the pod in a series of [`groups`].
pub(crate) fn group(series: &Series) -> Option<&str> {
    series.label("label_runai_gpu_group")
}

/// Returns the fraction, above 0 and at most 1, in a series of [`fractions`].
pub(crate) fn fraction(series: &Series) -> Option<f64> {
    let fraction: f64 = series.label("annotation_gpu_fraction")?.parse().ok()?;
    (fraction > 0.0 && fraction <= 1.0).then_some(fraction)
}
