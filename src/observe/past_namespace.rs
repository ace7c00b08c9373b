//! Checks the namespace of `-n` in commands that read history. A mistyped namespace looks like one
//! without GPUs, and a deleted one is not a mistake.

use crate::context::Context;
use crate::lookup;
use crate::observe::history::ClusterHistory;
use gpuctl_core::error::Error;
use gpuctl_core::model::UnixSeconds;
use gpuctl_core::stats::exporters::kube_state;

/// Fails if a namespace without results does not exist and had no pods in the half-open range
/// `[start, end)`. Warns if it had pods, or if that is unknown. Does nothing if `namespace` is
/// `None`, or if the user may not read namespaces.
pub(crate) async fn check(
    namespace: Option<&str>,
    history: &ClusterHistory<'_>,
    (start, end): (UnixSeconds, UnixSeconds),
    context: &Context,
) -> Result<(), Error> {
    let Some(namespace) = namespace else {
        return Ok(());
    };
    let existence = lookup::check_empty(history.connection(), Some(namespace), true).await;
    let Err(error) = existence else {
        return Ok(());
    };
    let query = kube_state::namespace::any_pod(namespace, (end - start).max(1));
    match history.prometheus.query_at(&query, end).await {
        Ok(pods) if pods.is_empty() => return Err(error),
        Ok(_) => context
            .terminal
            .warn(&format!("namespace `{namespace}` no longer exists")),
        Err(_) => context.terminal.warn(&error.message),
    }
    Ok(())
}
