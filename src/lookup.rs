//! Finds the job or node with a given name. If none exists, the error suggests the most similar
//! name.

use gpuctl_cluster::{Connection, InventorySnapshot, JobFilter};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::values::text::{count, is_namespace};
use gpuctl_core::model::{Job, NodeUsage};
use gpuctl_manifest::spec::nearest;

/// Purpose of a lookup. A change searches fewer namespaces than a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookupPurpose {
    Read,
    /// Reads a job in order to copy it. NAMESPACE/NAME selects the original, and `-n` the namespace
    /// of the copy.
    Copy,
    Change,
}

/// Splits `NS/NAME`, or accepts `NAME` alone. Rejects names that are invalid in Kubernetes, so that
/// user input cannot change the path of a request URL.
pub(crate) fn split(text: &str) -> Result<(Option<&str>, &str), Error> {
    let (namespace, name) = text
        .split_once('/')
        .map_or((None, text), |(namespace, name)| (Some(namespace), name));
    if let Some(namespace) = namespace.filter(|namespace| !is_namespace(namespace)) {
        let message = format!("`{namespace}` in `{text}` is not a valid namespace");
        return Err(Error::usage(message).hint("write NAME, or NAMESPACE/NAME such as team-a/bert"));
    }
    // An object name is a DNS subdomain of at most 253 characters (RFC 1123).
    let is_valid = !name.is_empty()
        && name.len() <= 253
        && name.bytes().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
        })
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && !name.contains("..");
    if is_valid {
        return Ok((namespace, name));
    }
    Err(Error::usage(format!("`{text}` is not a valid job name")).hint("see `gpuctl get jobs`"))
}

/// Fails if `explicit`, the value of `-n`, contradicts the namespace in NAMESPACE/NAME.
pub(crate) fn check_namespace(
    explicit: Option<&str>,
    namespace: Option<&str>,
    name: &str,
) -> Result<(), Error> {
    match (explicit, namespace) {
        (Some(explicit), Some(namespace)) if explicit != namespace => {
            let message =
                format!("`{name}` is in namespace `{namespace}`, but `-n {explicit}` was given");
            Err(Error::new(ErrorName::NamespaceConflict, message).hint("remove `-n`"))
        }
        _ => Ok(()),
    }
}

/// The namespace given by `-n`, or `None` without `-n`.
pub(crate) fn explicit_namespace(connection: &Connection) -> Option<&str> {
    connection
        .namespace_is_explicit
        .then_some(connection.namespace.as_str())
}

/// Fails if a list is empty because its namespace does not exist. Sends a request only if the list
/// is empty.
pub(crate) async fn check_empty(
    connection: &Connection,
    namespace: Option<&str>,
    is_empty: bool,
) -> Result<(), Error> {
    match namespace.filter(|_| is_empty) {
        Some(namespace) => missing_namespace(connection, namespace)
            .await
            .map_or(Ok(()), Err),
        None => Ok(()),
    }
}

/// Builds the error for a missing namespace. Returns `None` if the namespace exists or cannot be
/// read.
async fn missing_namespace(connection: &Connection, namespace: &str) -> Option<Error> {
    if connection
        .namespaces()
        .exists(namespace)
        .await
        .unwrap_or(true)
    {
        return None;
    }
    let names = connection.namespaces().names().await.unwrap_or_default();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let error = Error::new(
        ErrorName::NotFound,
        format!("namespace `{namespace}` does not exist"),
    );
    Some(match nearest(namespace, &names) {
        Some(suggestion) => error.hint(format!("did you mean `{suggestion}`?")),
        None => error.hint("`kubectl get namespaces` lists all namespaces"),
    })
}

/// Finds the job that `text` names. If the job does not exist, the error suggests the most similar
/// name.
pub(crate) async fn job(
    connection: &Connection,
    text: &str,
    purpose: LookupPurpose,
) -> Result<Job, Error> {
    match find(connection, text, purpose).await? {
        Some(job) => Ok(job),
        None => Err(missing(connection, text, purpose).await?),
    }
}

/// A job name and the namespaces to search.
struct JobScope<'t> {
    name: &'t str,
    /// The namespace that takes precedence if jobs in several namespaces have this name.
    default_namespace: String,
    /// The only namespace to search, or `None` to search all.
    namespace: Option<String>,
}

impl<'t> JobScope<'t> {
    fn new(connection: &Connection, text: &'t str, purpose: LookupPurpose) -> Result<Self, Error> {
        let (namespace, name) = split(text)?;
        let explicit_namespace = explicit_namespace(connection);
        if purpose != LookupPurpose::Copy {
            check_namespace(explicit_namespace, namespace, name)?;
        }
        let explicit_namespace = namespace.or(explicit_namespace).map(ToOwned::to_owned);
        let default_namespace = explicit_namespace
            .clone()
            .unwrap_or_else(|| connection.namespace.clone());
        // A command that writes must never match a job of the same name in another namespace.
        let namespace = if purpose == LookupPurpose::Change {
            Some(default_namespace.clone())
        } else {
            explicit_namespace
        };
        Ok(Self {
            name,
            default_namespace,
            namespace,
        })
    }
}

/// Finds the job that `text` names, or returns `None` if it does not exist.
pub(crate) async fn find(
    connection: &Connection,
    text: &str,
    purpose: LookupPurpose,
) -> Result<Option<Job>, Error> {
    let JobScope {
        name,
        default_namespace,
        namespace,
    } = JobScope::new(connection, text, purpose)?;
    let selector = JobFilter {
        namespace,
        names: vec![name.to_owned()],
        ..JobFilter::default()
    };
    let selection = connection.jobs().list(&selector).await?;
    let mut jobs = selection.jobs;
    // Pods of a deleted job still look like a job until they have terminated.
    if purpose == LookupPurpose::Change
        && let Some(terminating_job) = jobs.iter().find(|job| job.owner_is_gone)
    {
        return Err(deleted_job(terminating_job));
    }
    if let Some(index) = jobs
        .iter()
        .position(|job| job.namespace == default_namespace)
    {
        return Ok(Some(jobs.swap_remove(index)));
    }
    if jobs.len() > 1 {
        let full_names: Vec<String> = jobs
            .iter()
            .map(|job| format!("{}/{}", job.namespace, job.name))
            .collect();
        let error = Error::new(
            ErrorName::AmbiguousName,
            format!(
                "{} jobs are named `{name}`: {}",
                jobs.len(),
                full_names.join(", ")
            ),
        );
        return Err(error.hint(format!("choose one: {}", full_names[0])));
    }
    match jobs.pop() {
        None if !selection.unreadable.is_empty() => Err(unknown_job(name, &selection.unreadable)),
        jobs => Ok(jobs),
    }
}

/// Builds the error for a deleted job with terminating pods.
fn deleted_job(job: &Job) -> Error {
    let (pods, verb) = (
        count(job.pods.len() as u64, "pod"),
        if job.pods.len() == 1 { "is" } else { "are" },
    );
    let error = Error::new(
        ErrorName::NotFound,
        format!(
            "job `{}` was deleted, but {pods} {verb} still terminating",
            job.name
        ),
    );
    error.hint(format!(
        "gpuctl wait {}/{} --for deleted",
        job.namespace, job.name
    ))
}

/// Builds the error for a missing job. Lists all jobs in order to suggest the same name in another
/// namespace, or a similar name.
pub(crate) async fn missing(
    connection: &Connection,
    text: &str,
    purpose: LookupPurpose,
) -> Result<Error, Error> {
    let JobScope {
        name,
        namespace,
        default_namespace,
    } = JobScope::new(connection, text, purpose)?;
    if let Some(namespace) = &namespace
        && let Some(error) = missing_namespace(connection, namespace).await
    {
        return Ok(error);
    }
    let scope = namespace
        .map(|namespace| format!(" in namespace `{namespace}`"))
        .unwrap_or_default();
    let error = Error::new(
        ErrorName::NotFound,
        format!("job `{name}` does not exist{scope}"),
    );
    let all_jobs = connection
        .jobs()
        .list(&JobFilter::default())
        .await
        .map(|selection| selection.jobs)
        .unwrap_or_default();
    let names: Vec<(&str, &str)> = all_jobs
        .iter()
        .map(|job| (job.namespace.as_str(), job.name.as_str()))
        .collect();
    let Some((namespace, suggestion)) = similar(name, &default_namespace, &names) else {
        return Ok(error.hint("`gpuctl get jobs` lists all jobs"));
    };
    // A bare name refers to the namespace of the connection.
    let is_local = namespace == connection.namespace && !text.contains('/');
    let suggestion = match is_local {
        true => suggestion.to_owned(),
        false => format!("{namespace}/{suggestion}"),
    };
    let contradicts = purpose != LookupPurpose::Copy
        && explicit_namespace(connection).is_some_and(|explicit| explicit != namespace);
    let condition = if contradicts { " without `-n`" } else { "" };
    Ok(error.hint(format!("did you mean `{suggestion}`{condition}?")))
}

/// Selects the job that `name` probably means, as namespace and name: the same name in another
/// namespace, a similar name in `default_namespace`, or a similar name elsewhere.
fn similar<'j>(
    name: &str,
    default_namespace: &str,
    jobs: &[(&'j str, &'j str)],
) -> Option<(&'j str, &'j str)> {
    let nearest_of = |jobs: &[(&'j str, &'j str)]| {
        let names: Vec<&str> = jobs.iter().map(|(_, name)| *name).collect();
        let nearest = nearest(name, &names)?;
        jobs.iter().find(|(_, name)| *name == nearest).copied()
    };
    let same_name = jobs.iter().find(|(_, other)| *other == name).copied();
    let (local, others): (Vec<_>, Vec<_>) = jobs
        .iter()
        .partition(|(namespace, _)| *namespace == default_namespace);
    same_name
        .or_else(|| nearest_of(&local))
        .or_else(|| nearest_of(&others))
}

/// Builds the error for a job that was not found, but may be of a kind that the user may not list.
fn unknown_job(name: &str, unreadable: &[&str]) -> Error {
    let kinds = unreadable.join("s and ");
    let message = format!(
        "you are not allowed to list {kinds}s, so it is unknown whether job `{name}` exists"
    );
    Error::new(ErrorName::Forbidden, message)
}

/// Finds a node by name. If the node does not exist, the error suggests the most similar name.
pub(crate) fn node<'s>(
    snapshot: &'s InventorySnapshot,
    name: &str,
) -> Result<&'s NodeUsage, Error> {
    let hosts = &snapshot.inventory.hosts;
    hosts
        .iter()
        .find(|host| host.name() == name)
        .ok_or_else(|| {
            let names: Vec<&str> = hosts.iter().map(NodeUsage::name).collect();
            missing_node(name, &names)
        })
}

/// Builds the error for a missing node. `names` are the candidates for the suggestion.
pub(crate) fn missing_node(name: &str, names: &[&str]) -> Error {
    let error = Error::new(
        ErrorName::NodeNotFound,
        format!("node `{name}` does not exist"),
    );
    match nearest(name, names) {
        Some(suggestion) => error.hint(format!("did you mean `{suggestion}`?")),
        None => error.hint("`gpuctl get nodes` lists all nodes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_similar_job_of_the_same_namespace_wins_over_others() {
        let jobs = [("b", "train"), ("a", "trains"), ("c", "eval")];
        assert_eq!(similar("train", "a", &jobs), Some(("b", "train")));
        assert_eq!(similar("trian", "a", &jobs), Some(("a", "trains")));
        assert_eq!(similar("trian", "c", &jobs), Some(("b", "train")));
        assert_eq!(similar("notebook", "c", &jobs), None);
    }
}
