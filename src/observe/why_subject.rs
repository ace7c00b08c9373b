//! Resolves the argument of `why`: a gpuctl job, or else a pod, or else another workload.

use std::collections::BTreeSet;

use crate::lookup::{self, LookupPurpose};
use crate::observe::workloads::{self, is_kind};
use gpuctl_cluster::{Connection, OtherPods, unless_forbidden};
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_core::model::contract::labels::{MANAGED_BY, MANAGED_BY_US};
use gpuctl_core::model::values::text::is_namespace;
use gpuctl_core::model::{Inventory, Job};
use gpuctl_diagnosis::Subject;

/// Finds the object that `text` names, and its kind.
pub(crate) async fn subject(connection: &Connection, text: &str) -> Result<(Subject, Job), Error> {
    let parts: Vec<&str> = text.split('/').collect();
    // With a kind, the name refers to a Kubernetes object instead of a gpuctl job.
    let has_kind = parts.len() == 3 || matches!(parts[..], [first, _] if is_kind(first));
    let explicit_namespace = lookup::explicit_namespace(connection);
    if let [namespace, _, name] = parts[..] {
        lookup::check_namespace(explicit_namespace, Some(namespace), name)?;
    }
    let not_found = if has_kind {
        Error::new(ErrorName::NotFound, format!("`{text}` does not exist"))
            .hint("`gpuctl get workloads` lists all workloads")
    } else {
        match lookup::job(connection, text, LookupPurpose::Read).await {
            Ok(job) => return Ok((subject_of_kind(job.kind.word(), true), job)),
            // A pod may be visible even if the user may not list all kinds of jobs.
            Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Access) => error,
            // The first part may be a custom kind instead of a namespace.
            Err(error) if error.name == ErrorName::NamespaceConflict => {
                return find_workload(connection, explicit_namespace, text)
                    .await?
                    .ok_or(error);
            }
            Err(error) => return Err(error),
        }
    };
    let (kind, namespace, name) = match parts.as_slice() {
        [name] => (None, connection.namespace.as_str(), *name),
        [first, name] if is_kind(first) => (Some(*first), connection.namespace.as_str(), *name),
        [namespace, name] => (None, *namespace, *name),
        [namespace, kind, name] => (Some(*kind), *namespace, *name),
        _ => return Err(not_found),
    };
    if let Some(subject) = find_by_name(connection, kind, namespace, name).await? {
        return Ok(subject);
    }
    let namespace = match parts[..] {
        [namespace, _, _] if is_namespace(namespace) => Some(namespace),
        _ => explicit_namespace,
    };
    find_workload(connection, namespace, text)
        .await?
        .ok_or(not_found)
}

fn subject_of_kind(kind: &str, is_managed: bool) -> Subject {
    Subject {
        kind: kind.to_owned(),
        is_managed,
    }
}

/// Reads the pod or the workload of a known kind with this name.
async fn find_by_name(
    connection: &Connection,
    kind: Option<&str>,
    namespace: &str,
    name: &str,
) -> Result<Option<(Subject, Job)>, Error> {
    let kind = kind.map(|kind| kind.trim_end_matches('s').to_ascii_lowercase());
    if kind.as_deref().is_none_or(|kind| kind == "pod")
        && let Some(job) =
            unless_forbidden(connection.jobs().pod_as_job(namespace, name).await)?.flatten()
    {
        return Ok(Some((subject_of_kind("pod", false), job)));
    }
    let workload = connection
        .jobs()
        .workload_as_job(kind.as_deref(), namespace, name)
        .await;
    Ok(unless_forbidden(workload)?.flatten().map(|(job, word)| {
        let is_managed = job
            .labels
            .get(MANAGED_BY)
            .is_some_and(|manager| manager == MANAGED_BY_US);
        (subject_of_kind(word, is_managed), job)
    }))
}

/// Searches the owners of all pods, as listed by `gpuctl get workloads`.
async fn find_workload(
    connection: &Connection,
    namespace: Option<&str>,
    text: &str,
) -> Result<Option<(Subject, Job)>, Error> {
    let owners = connection
        .workloads()
        .owners(namespace, OtherPods::Named)
        .await;
    let Some(owners) = unless_forbidden(owners)? else {
        return Ok(None);
    };
    let workloads = owners.forest.workloads(&Inventory::default());
    let Ok(workload) = workloads::find_workload(&workloads, text) else {
        return Ok(None);
    };
    let pods: BTreeSet<String> = workload
        .pods
        .iter()
        .map(|pod| pod.name.to_string())
        .collect();
    let job = connection.jobs().pods_as_job(&workload.top, &pods).await?;
    let kind = workload.top.kind.to_ascii_lowercase();
    Ok(Some((subject_of_kind(&kind, false), job)))
}
