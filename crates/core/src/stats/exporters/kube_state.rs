//! Builds queries for kube-state-metrics, which is the only source of facts about deleted pods, and
//! reads their results.
//!
//! Source: kube-state-metrics' docs/metrics/workload/pod-metrics.md, and internal/store/utils.go
//! for the conversion of names.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::facts::gpu::WHOLE;
use crate::model::facts::reading::PodKey;
use crate::model::values::series::Series;

use super::query::{Pods, quoted};
pub(crate) use resources::{clean, shared_memory};

pub mod created;
mod deleted;
pub mod namespace;
pub mod node_state;
pub(crate) mod resources;
pub mod sharing;

pub use deleted::{ends, job_ends, namespaces_of_owner, owned};

/// Builds the range selector for the half-open window `[start, end)` that ends at the evaluation
/// time.
///
/// The offset of 1 ms is necessary because range selectors in Prometheus 3 exclude their start,
/// while those in Prometheus 2 include both ends.
fn window(seconds: i64) -> String {
    format!("[{seconds}s] offset 1ms")
}

/// Queries the devices and slices that containers request, including those of unscheduled pods.
pub fn requests(seconds: i64) -> String {
    let resources = resources::requested();
    format!(
        "{{__name__=~\"kube_pod_container_resource_requests|kube_pod_init_container_resource_requests\",resource=~\"{resources}\"}}{}",
        window(seconds)
    )
}

/// Queries the labels of nodes, which name the type, the sharing and the pool of their GPUs.
/// kube-state-metrics exports them only if configured.
pub fn node_labels(seconds: i64) -> String {
    format!("last_over_time(kube_node_labels{})", window(seconds))
}

/// Queries the pods that requested devices at any time in the window, one series per pod.
pub fn holders(seconds: i64) -> String {
    let selector = format!(
        "kube_pod_container_resource_requests{{resource=~\"{}\"}}",
        resources::whole()
    );
    format!(
        "group by ({OF_POD}) (last_over_time({selector}{}))",
        window(seconds)
    )
}

/// Labels that identify a pod.
const OF_POD: &str = "namespace,pod,exported_namespace,exported_pod";

/// A fact about the start of pods that requested devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartQuery {
    /// Creation time in Unix seconds.
    Created,
    /// Time of scheduling in Unix seconds.
    Placed,
    /// Number of devices that all containers request.
    Requested,
    /// Node, in the label `node`.
    Place,
    /// Owner, in the labels `owner_kind` and `owner_name`.
    Owner,
}

/// Queries a fact about pods that requested devices in the last `seconds`, one series per pod.
pub fn starts(fact: StartQuery, seconds: i64) -> String {
    let latest = |labels: &str, metric: &str| {
        let last = format!(
            "max by ({OF_POD}{labels}) (last_over_time({metric}{}))",
            window(seconds)
        );
        format!("{last} and on ({OF_POD}) {}", holders(seconds))
    };
    match fact {
        StartQuery::Created => latest("", "kube_pod_created"),
        StartQuery::Placed => latest("", "kube_pod_status_scheduled_time"),
        StartQuery::Place => latest(",node", "kube_pod_info{node!=\"\"}"),
        StartQuery::Owner => latest(
            ",owner_kind,owner_name,owner_is_controller",
            "kube_pod_owner",
        ),
        StartQuery::Requested => {
            let selector = format!(
                "kube_pod_container_resource_requests{{resource=~\"{}\"}}",
                resources::whole()
            );
            let per_container = format!(
                "max by ({OF_POD},container,resource) (last_over_time({selector}{}))",
                window(seconds)
            );
            format!("sum by ({OF_POD}) ({per_container})")
        }
    }
}

/// Queries the number of devices that each namespace may request under its resource quotas.
pub fn quotas() -> String {
    // Quotas for extended resources always have the prefix `requests.`.
    let names = WHOLE
        .map(|name| format!("requests.{}", regex::escape(name)))
        .join("|")
        .replace('\\', "\\\\");
    format!(
        "sum by (namespace,exported_namespace) (min by (namespace,exported_namespace,resource) (max by (namespace,exported_namespace,resourcequota,resource) (kube_resourcequota{{type=\"hard\",resource=~\"{names}\"}})))"
    )
}

/// Queries when pods of an owner existed. The owner has this name, or was created by an object with
/// this name.
pub fn lifetimes(name: &str) -> String {
    let generated = quoted(&format!("{}(-[a-z0-9-]+)?", regex::escape(name)));
    let exact = quoted(name);
    // The look-back of 5 minutes also finds pods that existed only between two evaluation steps.
    let seen = |matcher: String| format!("max_over_time(kube_pod_owner{{{matcher}}}[5m])");
    let selectors = [
        seen(format!("owner_name=~{generated}")),
        seen(format!("pod={exact}")),
        seen(format!("exported_pod={exact}")),
    ];
    format!(
        "max by (namespace,exported_namespace) ({})",
        selectors.join(" or ")
    )
}

/// Queries the devices and slices in the capacity of nodes.
pub fn capacity(seconds: i64) -> String {
    format!("{}{}", resources::current_capacity(), window(seconds))
}

/// A fact about pods or their owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodQuery {
    /// All phases that a pod was ever in.
    PhasesEver,
    /// The phases of pods over time.
    Phases,
    /// The nodes of pods.
    Places,
    /// The owners of pods.
    Owners,
    /// The labels of pods.
    Labels,
    /// The annotations of pods.
    Annotations,
    /// The owners of ReplicaSets.
    ReplicaSets,
    /// The owners of Jobs.
    Jobs,
    /// The owners of Deployments.
    Deployments,
    /// Init containers that are sidecars. Since kube-state-metrics 2.11.
    Sidecars,
    /// The labels of pods that belong to a LeaderWorkerSet.
    Groups,
}

/// Queries a fact about the objects for which `label` is one of `names`: pods, ReplicaSets, Jobs or
/// Deployments.
pub fn pod_facts(fact: PodQuery, names: &[&str], label: &str, seconds: i64) -> String {
    let names: Vec<String> = names.iter().map(|name| regex::escape(name)).collect();
    let names = quoted(&names.join("|"));
    let metric = match fact {
        PodQuery::PhasesEver | PodQuery::Phases => "kube_pod_status_phase",
        PodQuery::Places => "kube_pod_info",
        PodQuery::Owners => "kube_pod_owner",
        PodQuery::Labels | PodQuery::Groups => "kube_pod_labels",
        PodQuery::Annotations => "kube_pod_annotations",
        PodQuery::ReplicaSets => "kube_replicaset_owner",
        PodQuery::Jobs => "kube_job_owner",
        PodQuery::Deployments => "kube_deployment_owner",
        PodQuery::Sidecars => "kube_pod_init_container_info",
    };
    let extra = match fact {
        PodQuery::Groups => ",label_leaderworkerset_sigs_k8s_io_name!=\"\"",
        PodQuery::Sidecars => ",restart_policy=\"Always\"",
        _ => "",
    };
    let selector = format!("{metric}{{{label}=~{names}{extra}}}{}", window(seconds));
    match fact {
        PodQuery::PhasesEver => format!("max_over_time({selector}) > 0"),
        PodQuery::Phases => selector,
        // The other facts do not change, so one sample is enough.
        _ => format!("last_over_time({selector})"),
    }
}

/// Queries whether kube-state-metrics has samples in the last `seconds`. Returns one series without
/// labels, or none.
///
/// The samples of all pods of a month can exceed the store's limits, so this selects only nodes,
/// their devices and the pods with devices. A store that drops `kube_node_info` has the others, and
/// a cluster whose devices are all claimed has only `kube_node_info`.
pub fn scraped(seconds: i64) -> String {
    let requests = format!(
        "kube_pod_container_resource_requests{{resource=~\"{}\"}}",
        resources::requested()
    );
    let selectors = [
        "kube_node_info".to_owned(),
        resources::current_capacity(),
        requests,
    ];
    let window = window(seconds);
    let groups = selectors.map(|selector| format!("group(last_over_time({selector}{window}))"));
    groups.join(" or ")
}

/// Queries any one pod, to see which labels its series have.
pub fn any_pod(seconds: i64) -> String {
    format!("topk(1, last_over_time(kube_pod_owner{}))", window(seconds))
}

/// Queries the owners of custom objects. kube-state-metrics exports them only if configured.
pub fn custom_owners(seconds: i64) -> String {
    format!(
        "last_over_time(kube_customresource_owner{}{})",
        "{owner_name!=\"\"}",
        window(seconds)
    )
}

/// Queries the pods that objects of this kind with these names owned in the last `seconds`.
pub fn owned_by(namespace: &str, kind: &str, names: &[&str], seconds: i64) -> String {
    let names: Vec<String> = names.iter().map(|name| regex::escape(name)).collect();
    let (namespace, names) = (quoted(namespace), quoted(&names.join("|")));
    let selector = |space: &str| {
        format!(
            "kube_pod_owner{{{space}={namespace},owner_kind={},owner_name=~{names}}}{}",
            quoted(kind),
            window(seconds)
        )
    };
    format!(
        "group by (pod,exported_pod) (last_over_time({}) or last_over_time({}))",
        selector("exported_namespace"),
        selector("namespace")
    )
}

/// Queries the time at which the first of these pods started in the last `seconds`, in Unix
/// seconds.
pub fn first_start(pods: &Pods, seconds: i64) -> String {
    let (namespace, names) = (quoted(&pods.namespace), quoted(&pods.names));
    let selector = |space: &str, pod: &str| {
        format!(
            "min_over_time(kube_pod_start_time{{{space}={namespace},{pod}=~{names}}}{})",
            window(seconds)
        )
    };
    format!(
        "min({} or {})",
        selector("exported_namespace", "exported_pod"),
        selector("namespace", "pod")
    )
}

/// Returns `namespace` or `pod` as set by kube-state-metrics. If the scrape replaced it with a
/// label of the target, it is in the `exported_…` label.
pub fn label<'a>(series: &'a Series, name: &str) -> Option<&'a str> {
    series
        .label(&format!("exported_{name}"))
        .or_else(|| series.label(name))
}

/// Returns the form of a label in a query result: exported or plain.
pub fn label_name(answer: &[Series], name: &str) -> String {
    let exported = format!("exported_{name}");
    if answer
        .iter()
        .any(|series| series.label(&exported).is_some())
    {
        exported
    } else {
        name.to_owned()
    }
}

/// Returns the pod of a series with its UID, which is empty if the series has none.
pub fn pod(series: &Series) -> Option<(PodKey, String)> {
    let key = (
        label(series, "namespace")?.to_owned(),
        label(series, "pod")?.to_owned(),
    );
    Some((key, label(series, "uid").unwrap_or_default().to_owned()))
}

/// Returns the names of pods that were in more than one phase.
pub fn changed(phases_ever: &[Series]) -> BTreeSet<String> {
    let mut phases: BTreeMap<(PodKey, String), BTreeSet<&str>> = BTreeMap::new();
    for (id, phase) in phases_ever
        .iter()
        .filter_map(|series| pod(series).zip(series.label("phase")))
    {
        phases.entry(id).or_default().insert(phase);
    }
    phases
        .into_iter()
        .filter(|(_, phases)| phases.len() > 1)
        .map(|(((_, name), _), _)| name)
        .collect()
}

/// Returns the controller of a pod as (kind, name), or `None` if it has none.
pub fn owner(series: &Series) -> Option<(String, String)> {
    // Older versions of kube-state-metrics write `<none>` for pods without an owner.
    let controller_label = |name: &str| {
        series
            .label(name)
            .filter(|text| !text.is_empty() && *text != "<none>")
    };
    // Only the controller manages the pod. Other owners matter only for garbage collection.
    if series.label("owner_is_controller") == Some("false") {
        return None;
    }
    Some((
        controller_label("owner_kind")?.to_owned(),
        controller_label("owner_name")?.to_owned(),
    ))
}

/// Returns the labels or annotations of a pod without `prefix`. In kube-state-metrics, every
/// character of their keys other than letters and digits is an underscore.
pub fn names(series: &Series, prefix: &str) -> BTreeMap<String, String> {
    let stripped = series.labels.iter().filter_map(|(name, value)| {
        Some((name.strip_prefix(prefix)?.to_owned(), value.to_owned()))
    });
    stripped.collect()
}

/// Converts a key to the form in kube-state-metrics: `app.kubernetes.io/name` becomes
/// `app_kubernetes_io_name`, and `costCenter` becomes `cost_center`.
pub fn label_key(key: &str) -> String {
    let mut text = String::new();
    let mut lower = false;
    for c in key.chars() {
        if c.is_ascii_uppercase() && lower {
            text.push('_');
        }
        lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        text.push(if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '_'
        });
    }
    text
}

#[cfg(test)]
mod tests;
