//! Finds jobs by name. If a job does not exist but Prometheus has samples of it, the error names the
//! commands that show its past.

use std::time::Duration;

use crate::context::Context;
use crate::lookup::{self, LookupPurpose};
use crate::observe::metrics::{self, StoreUse};
use gpuctl_cluster::Connection;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::values::natural;
use gpuctl_core::model::{Job, UnixSeconds};
use gpuctl_core::stats::exporters::kube_state;

/// How many seconds of history to search: as many as `gpuctl eff` searches by default.
const HISTORY_SECONDS: i64 = 7 * 86_400;
/// The search is short, so that a mistyped name does not cause a long wait.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Finds a job like [`lookup::job`].
pub(crate) async fn job(
    context: &Context,
    connection: &Connection,
    text: &str,
    purpose: LookupPurpose,
) -> Result<Job, Error> {
    match lookup::job(connection, text, purpose).await {
        Ok(job) => Ok(job),
        Err(error) => Err(with_history(context, connection, text, error).await),
    }
}

/// Adds the commands that show a deleted job to the error that it does not exist. Adds nothing if
/// Prometheus has no samples of it, or cannot be queried.
pub(crate) async fn with_history(
    context: &Context,
    connection: &Connection,
    text: &str,
    error: Error,
) -> Error {
    if error.name != ErrorName::NotFound {
        return error;
    }
    let timeout = TIMEOUT.min(context.access.request_timeout);
    let search = past_job(context, connection, text, timeout);
    match tokio::time::timeout(timeout, search).await {
        Ok(Some(full_name)) => error
            .hint(format!(
                "if it was deleted, `gpuctl eff {full_name}` shows how it used its GPUs"
            ))
            .hint("`gpuctl get jobs --at TIME` lists the jobs of a past time"),
        _ => error,
    }
}

/// Searches the recent past for a job with GPUs. Returns its NAMESPACE/NAME.
async fn past_job(
    context: &Context,
    connection: &Connection,
    text: &str,
    timeout: Duration,
) -> Option<String> {
    let (namespace, name) = lookup::split(text).ok()?;
    let namespace = namespace.or_else(|| lookup::explicit_namespace(connection));
    let since = UnixSeconds::from(context.now()) - HISTORY_SECONDS;
    let prometheus = metrics::find(context, connection, timeout, StoreUse::Sums { since })
        .await
        .ok()?;
    let query = kube_state::namespaces_of_owner(name, HISTORY_SECONDS);
    let series = prometheus.now(&query).await.ok()?;
    let namespaces = series
        .iter()
        .filter_map(|series| kube_state::label(series, "namespace"));
    let namespaces =
        natural::sorted(namespaces.filter(|found| namespace.is_none_or(|only| *found == only)));
    // Prefer the current namespace, as the lookup of existing jobs does.
    let found = namespaces
        .iter()
        .find(|namespace| **namespace == connection.namespace)
        .or(namespaces.first())?;
    Some(format!("{found}/{name}"))
}
