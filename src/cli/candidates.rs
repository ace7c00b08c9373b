//! Completes live names of the current context, such as jobs, nodes and pools. The shell waits at
//! every Tab, so completion stops after 300 ms, offers the names that have arrived, and prints no
//! errors. Names of the current namespace do not wait for those of other namespaces.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap_complete::engine::CompletionCandidate;
use futures::future::join;
use tokio::time::{Instant, timeout_at};

use crate::config::{Config, Environment, KubeContexts};
use gpuctl_cluster::{Access, Connection, JobFilter, OtherPods};
use gpuctl_core::model::{Inventory, Job, Node, Workload};
use gpuctl_view::files::reference;

use super::completion_cache::CachedNames;
use super::typed_overrides::typed_overrides;

/// Time limit of one completion.
pub(crate) const WITHIN: Duration = Duration::from_millis(300);

/// Completes job names. Offers nothing after an error.
pub(crate) fn job_names() -> Vec<CompletionCandidate> {
    candidates_near("jobs", async |connection, namespace| {
        let jobs = connection
            .jobs()
            .list(&JobFilter {
                namespace,
                ..JobFilter::default()
            })
            .await
            .ok()?
            .jobs;
        Some(
            jobs.into_iter()
                .map(|job| display_name(&job, &connection.namespace))
                .collect(),
        )
    })
}

/// Returns the job's name, with the namespace unless it is `home`, the current namespace.
fn display_name(job: &Job, home: &str) -> String {
    if job.namespace == home {
        job.name.clone()
    } else {
        format!("{}/{}", job.namespace, job.name)
    }
}

/// Completes workloads as NAMESPACE/KIND/NAME.
pub(crate) fn workload_names() -> Vec<CompletionCandidate> {
    candidates_near("workloads", async |connection, namespace| {
        let owners = connection
            .workloads()
            .owners(namespace.as_deref(), OtherPods::Summed)
            .await
            .ok()?;
        let workloads = owners.forest.workloads(&Inventory::default());
        let name = |workload: Workload| {
            format!(
                "{}/{}/{}",
                workload.top.namespace, workload.top.kind, workload.top.name
            )
        };
        Some(workloads.into_iter().map(name).collect())
    })
}

/// Completes namespaces. If the user may not list them, completes the namespaces of jobs.
pub(crate) fn namespace_names() -> Vec<CompletionCandidate> {
    candidates("namespaces", async |connection| {
        if let Ok(names) = connection.namespaces().names().await {
            return Some(names);
        }
        let jobs = connection
            .jobs()
            .list(&JobFilter::default())
            .await
            .ok()?
            .jobs;
        let names: BTreeSet<String> = jobs.into_iter().map(|job| job.namespace).collect();
        Some(names.into_iter().collect())
    })
}

/// Completes kubeconfig contexts.
pub(crate) fn context_names() -> Vec<CompletionCandidate> {
    let (names, _) = Connection::contexts(&access()).unwrap_or_default();
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// Completes GPU types of the cluster.
pub(crate) fn gpu_types() -> Vec<CompletionCandidate> {
    candidates("gpu types", async |connection| {
        let nodes = connection.nodes().list().await.ok()?;
        let types: BTreeSet<String> = nodes
            .all()
            .iter()
            .filter_map(|node| node.gpu_type().map(|kind| kind.to_string()))
            .collect();
        Some(types.into_iter().collect())
    })
}

/// Completes pod names of jobs.
pub(crate) fn pod_names() -> Vec<CompletionCandidate> {
    candidates_near("pods", async |connection, namespace| {
        let jobs = connection
            .jobs()
            .list(&JobFilter {
                namespace,
                ..JobFilter::default()
            })
            .await
            .ok()?
            .jobs;
        Some(
            jobs.into_iter()
                .flat_map(|job| job.pods)
                .map(|pod| pod.name)
                .collect(),
        )
    })
}

/// Completes GPUs in the form of `who gpu`.
pub(crate) fn device_names() -> Vec<CompletionCandidate> {
    candidates("devices", async |connection| {
        let nodes = connection.nodes().list().await.ok()?;
        let devices = |node: &Node| {
            let count = node
                .whole_resource()
                .map_or(0, |resource| node.allocatable(resource));
            (0..count)
                .map(|index| format!("{}/{index}", node.name))
                .collect::<Vec<_>>()
        };
        Some(nodes.all().iter().flat_map(devices).collect())
    })
}

/// Completes fields of the job file.
pub(crate) fn field_names() -> Vec<CompletionCandidate> {
    reference::paths()
        .into_iter()
        .map(CompletionCandidate::new)
        .collect()
}

/// Completes the source or destination of `cp`.
pub(crate) fn copy_places() -> Vec<CompletionCandidate> {
    candidates_near("places to copy", async |connection, namespace| {
        let jobs = connection
            .jobs()
            .list(&JobFilter {
                namespace,
                ..JobFilter::default()
            })
            .await
            .ok()?
            .jobs;
        Some(
            jobs.into_iter()
                .map(|job| format!("{}:/", display_name(&job, &connection.namespace)))
                .collect(),
        )
    })
}

/// Completes node names.
pub(crate) fn node_names() -> Vec<CompletionCandidate> {
    candidates("nodes", async |connection| {
        Some(
            connection
                .nodes()
                .list()
                .await
                .ok()?
                .all()
                .iter()
                .map(|node| node.name.clone())
                .collect(),
        )
    })
}

/// Completes pool names.
pub(crate) fn pool_names() -> Vec<CompletionCandidate> {
    candidates("pools", async |connection| {
        let (nodes, defined) = join(connection.nodes().list(), connection.pools().list()).await;
        let mut names: BTreeSet<String> = defined
            .unwrap_or_default()
            .into_iter()
            .map(|pool| pool.name)
            .collect();
        names.extend(
            nodes
                .ok()?
                .all()
                .iter()
                .filter_map(|node| node.pool().map(ToOwned::to_owned)),
        );
        Some(names.into_iter().collect())
    })
}

/// Completes names of quotas that gpuctl manages.
pub(crate) fn quota_names() -> Vec<CompletionCandidate> {
    candidates("quotas", async |connection| {
        let quotas = connection.quotas().list(None).await.ok()?;
        let names: BTreeSet<String> = quotas.into_iter().filter_map(|quota| quota.quota).collect();
        Some(names.into_iter().collect())
    })
}

/// Completes namespaces with a quota.
pub(crate) fn quota_namespaces() -> Vec<CompletionCandidate> {
    candidates("namespaces with quotas", async |connection| {
        let quotas = connection.quotas().list(None).await.ok()?;
        let names: BTreeSet<String> = quotas.into_iter().map(|quota| quota.namespace).collect();
        Some(names.into_iter().collect())
    })
}

/// Completes queue names.
pub(crate) fn queues() -> Vec<CompletionCandidate> {
    candidates("queues", async |connection| {
        let served = connection.queues().served().await.ok()?;
        let (queues, _) = connection.queues().list(&served, None).await.ok()?;
        Some(queues.iter().map(gpuctl_view::queues::list::name).collect())
    })
}

/// Uses the cluster and namespace options on the command line, or else the environment.
fn access() -> Access {
    let words: Vec<String> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let file = typed_option(&words, "--kubeconfig", None).map(|file| vec![file.into()]);
    let config_file = typed_option(&words, "--config", None).map(PathBuf::from);
    let config = Config::read(config_file.as_deref(), KubeContexts::default);
    let environment = Environment::read();
    let typed = |long: &str, short: Option<&str>| typed_option(&words, long, short);
    let is_insecure = words
        .iter()
        .any(|word| word == "--insecure-skip-tls-verify");
    Access {
        kubeconfig: file.unwrap_or(environment.kubeconfig),
        overrides: typed_overrides(typed, is_insecure, environment.token),
        kuberc: environment.kuberc,
        context: typed_option(&words, "--context", None),
        namespace: typed_option(&words, "--namespace", Some("-n")),
        default_namespace: config
            .and_then(|config| config.text("namespace"))
            .ok()
            .flatten(),
        request_timeout: WITHIN,
        ..Access::default()
    }
}

/// Returns the value of an option on the command line. Ignores the last word, which is incomplete.
fn typed_option(words: &[String], long: &str, short: Option<&str>) -> Option<String> {
    let words = words.split_last().map_or(&[][..], |(_, before)| before);
    let value = |(index, word): (usize, &String)| {
        if word == long || short.is_some_and(|short| word == short) {
            return words.get(index + 1).cloned();
        }
        let joined = word
            .strip_prefix(long)
            .and_then(|value_part| value_part.strip_prefix('='));
        joined
            .or_else(|| {
                word.strip_prefix(short?)
                    .filter(|_| !word.starts_with("--"))
            })
            .map(ToOwned::to_owned)
    };
    // As in clap, the last value of a repeated option applies.
    words
        .iter()
        .enumerate()
        .filter_map(value)
        .next_back()
        .filter(|value| !value.is_empty())
}

/// Names, and whether the list is complete.
type Names = (Vec<String>, bool);

/// Completes names of all namespaces. If the cluster is slow, completes names of the current
/// namespace and cached names.
fn candidates_near(
    kind: &str,
    list: impl AsyncFn(&Connection, Option<String>) -> Option<Vec<String>>,
) -> Vec<CompletionCandidate> {
    // Leave time to print the candidates.
    let end = Instant::now() + WITHIN.mul_f64(0.95);
    answered(kind, async |connection| {
        let home_names = timeout_at(end, list(&connection, Some(connection.namespace.clone())));
        let all_names = timeout_at(end, list(&connection, None));
        let (home_names, all_names) = join(home_names, all_names).await;
        match all_names.ok().flatten() {
            Some(names) => Some((names, true)),
            None => Some((home_names.ok().flatten()?, false)),
        }
    })
}

/// Completes cluster-wide names.
pub(crate) fn candidates(
    kind: &str,
    list: impl AsyncFnOnce(Connection) -> Option<Vec<String>>,
) -> Vec<CompletionCandidate> {
    answered(kind, async |connection| {
        Some((list(connection).await?, true))
    })
}

/// Completes names within the time limit. Reuses names that are a few seconds old, and falls back
/// to older names if the cluster is slow.
fn answered(
    kind: &str,
    list: impl AsyncFnOnce(Connection) -> Option<Names>,
) -> Vec<CompletionCandidate> {
    // A bundle may be from another cluster, so it has no live names.
    if std::env::args_os().any(|word| word.to_string_lossy().starts_with("--replay")) {
        return Vec::new();
    }
    let access = access();
    #[expect(
        clippy::disallowed_methods,
        reason = "a shell asks for names, and no context is made for it"
    )]
    let cached = CachedNames::open(kind, &access, jiff::Timestamp::now());
    let names = cached.fresh().unwrap_or_else(|| {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
        else {
            return Vec::new();
        };
        let request = async { list(Connection::open(&access).await.ok()?).await };
        match runtime.block_on(async { tokio::time::timeout(WITHIN, request).await }) {
            Ok(Some((names, true))) => {
                cached.store(&names);
                names
            }
            Ok(Some((names, false))) => names
                .into_iter()
                .chain(cached.usable().unwrap_or_default())
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
            // The cluster responded without any matching name.
            Ok(None) => Vec::new(),
            Err(_) => cached.usable().unwrap_or_default(),
        }
    });
    names.into_iter().map(CompletionCandidate::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_count_once_they_are_typed() {
        let namespace_of = |line: &str| {
            let words: Vec<String> = line.split(' ').map(ToOwned::to_owned).collect();
            typed_option(&words, "--namespace", Some("-n"))
        };
        for line in [
            "gpuctl logs -n ml ",
            "gpuctl -nml logs x",
            "gpuctl --namespace ml logs ",
            "gpuctl --namespace=ml logs ",
            "a -n x -n ml ",
        ] {
            assert_eq!(namespace_of(line).as_deref(), Some("ml"), "{line}");
        }
        for line in [
            "gpuctl logs ",
            "gpuctl logs -n ml",
            "gpuctl -n ",
            "gpuctl --name ml ",
        ] {
            assert_eq!(namespace_of(line), None, "{line}");
        }
    }
}
