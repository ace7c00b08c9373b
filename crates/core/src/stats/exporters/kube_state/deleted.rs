//! Builds queries about jobs and pods that may have been deleted.

use super::super::query::quoted;
use super::{OF_POD, resources, window};

/// Queries the pods of a Job with this name in the last `seconds`, and the pod with this name.
pub fn owned(name: &str, seconds: i64) -> String {
    let (window, exact) = (window(seconds), quoted(name));
    let selectors = [
        format!("owner_kind=\"Job\",owner_name={exact}"),
        format!("pod={exact}"),
        format!("exported_pod={exact}"),
    ];
    selectors
        .map(|matcher| format!("last_over_time(kube_pod_owner{{{matcher}}}{window})"))
        .join(" or ")
}

/// Queries the namespaces where an object with this name, or its ReplicaSet, owned pods with devices
/// in the last `seconds`.
pub fn namespaces_of_owner(name: &str, seconds: i64) -> String {
    let window = window(seconds);
    // The hash of a ReplicaSet consists of these characters (k8s.io/apimachinery/pkg/util/rand).
    let replica_sets = quoted(&format!(
        "{}-[bcdfghjklmnpqrstvwxz2456789]+",
        regex::escape(name)
    ));
    let owned = [
        format!("owner_name={}", quoted(name)),
        format!("owner_kind=\"ReplicaSet\",owner_name=~{replica_sets}"),
    ]
    .map(|matcher| format!("last_over_time(kube_pod_owner{{{matcher}}}{window})"))
    .join(" or ");
    // The names of the pods begin with that of their owner, which keeps the second part small.
    let pods = quoted(&format!("{}-.+", regex::escape(name)));
    let resources = resources::requested();
    let holders = ["pod", "exported_pod"]
        .map(|label| {
            format!(
                "last_over_time(kube_pod_container_resource_requests{{resource=~\"{resources}\",{label}=~{pods}}}{window})"
            )
        })
        .join(" or ");
    format!("group by (namespace,exported_namespace) (({owned}) and on ({OF_POD}) ({holders}))")
}

/// Queries how pods started and ended. `label` contains the pod name. Returns only positive values:
/// conditions that hold, and times in Unix seconds.
pub fn ends(names: &[&str], label: &str, seconds: i64) -> String {
    const OF: &str = "created|info|completion_time|status_phase|status_reason|container_status_terminated_reason";
    let names: Vec<String> = names.iter().map(|name| regex::escape(name)).collect();
    let names = quoted(&names.join("|"));
    format!(
        "last_over_time({{__name__=~\"kube_pod_({OF})\",{label}=~{names}}}{}) > 0",
        window(seconds)
    )
}

/// Queries how Jobs with this name started and ended, in the same form as [`ends`].
pub fn job_ends(name: &str, seconds: i64) -> String {
    let (window, exact) = (window(seconds), quoted(name));
    format!(
        "last_over_time({{__name__=~\"kube_job_(created|complete|failed|status_failed)\",job_name={exact}}}{window}) > 0"
    )
}
