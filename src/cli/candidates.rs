//! Completes live names: jobs, workloads, nodes, pools and quotas of the current context. It gives up after 300 ms and
//! prints no errors, because a shell waits for it at every press of the tab key.

use std::collections::BTreeSet;
use std::time::Duration;

use clap_complete::engine::CompletionCandidate;

use crate::cluster::{Access, Connection, Wanted};
use crate::config::Environment;
use crate::model::{Inventory, Job, Workload};

/// A person waits for the next keystroke.
pub(crate) const WITHIN: Duration = Duration::from_millis(300);

/// Names of jobs, for the shell. Any trouble gives no candidates and no message.
#[must_use]
pub(crate) fn job_names() -> Vec<CompletionCandidate> {
    candidates(async |connection| {
        let home = connection.namespace.clone();
        let jobs = connection.jobs(&Wanted::default()).await.ok()?.jobs;
        let name = |job: Job| if job.namespace == home { job.name } else { format!("{}/{}", job.namespace, job.name) };
        Some(jobs.into_iter().map(name).collect())
    })
}

/// Workloads by kind and name, for the shell.
#[must_use]
pub(crate) fn workload_names() -> Vec<CompletionCandidate> {
    candidates(async |connection| {
        let owners = connection.owners(None).await.ok()?;
        let found = owners.forest.workloads(&Inventory::default());
        let name = |one: Workload| format!("{}/{}/{}", one.top.namespace, one.top.kind, one.top.name);
        Some(found.into_iter().map(name).collect())
    })
}

/// Names of nodes, for the shell.
#[must_use]
pub(crate) fn node_names() -> Vec<CompletionCandidate> {
    candidates(async |connection| Some(connection.nodes().await.ok()?.all().iter().map(|node| node.name.clone()).collect()))
}

/// Names of pools, for the shell.
#[must_use]
pub(crate) fn pool_names() -> Vec<CompletionCandidate> {
    candidates(async |connection| {
        let (nodes, defined) = futures::future::join(connection.nodes(), connection.pools()).await;
        let mut names: BTreeSet<String> = defined.unwrap_or_default().into_iter().map(|pool| pool.name).collect();
        names.extend(nodes.ok()?.all().iter().filter_map(|node| node.pool().map(ToOwned::to_owned)));
        Some(names.into_iter().collect())
    })
}

/// Names of gpuctl's quotas, for the shell.
#[must_use]
pub(crate) fn quota_names() -> Vec<CompletionCandidate> {
    candidates(async |connection| {
        let found = connection.quotas(None).await.ok()?;
        let names: BTreeSet<String> = found.into_iter().filter_map(|quota| quota.quota).collect();
        Some(names.into_iter().collect())
    })
}

/// Namespaces that have a quota, for the shell.
#[must_use]
pub(crate) fn quota_namespaces() -> Vec<CompletionCandidate> {
    candidates(async |connection| {
        let found = connection.quotas(None).await.ok()?;
        let names: BTreeSet<String> = found.into_iter().map(|quota| quota.namespace).collect();
        Some(names.into_iter().collect())
    })
}

/// Returns what `ask` finds in the cluster, in time for the next keystroke.
pub(crate) fn candidates(ask: impl AsyncFnOnce(Connection) -> Option<Vec<String>>) -> Vec<CompletionCandidate> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return Vec::new() };
    let access = Access { kubeconfig: Environment::read().kubeconfig, request_timeout: WITHIN, ..Access::default() };
    let names = async { ask(Connection::open(&access).await.ok()?).await };
    let found = runtime.block_on(async { tokio::time::timeout(WITHIN, names).await.ok().flatten() });
    found.unwrap_or_default().into_iter().map(CompletionCandidate::new).collect()
}
