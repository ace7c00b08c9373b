//! Queries whether a namespace had pods.

use super::{quoted, window};

/// Queries one pod of a namespace in the last `seconds`, whether or not the pod had GPUs. It may
/// have ended or been deleted since.
pub fn any_pod(namespace: &str, seconds: i64) -> String {
    let (window, exact) = (window(seconds), quoted(namespace));
    // If the scrape keeps its own labels, `namespace` is that of kube-state-metrics itself.
    let selectors = ["exported_namespace", "namespace"]
        .map(|label| format!("last_over_time(kube_pod_owner{{{label}={exact}}}{window})"));
    format!("topk(1, {})", selectors.join(" or "))
}
