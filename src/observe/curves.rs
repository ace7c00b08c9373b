//! Reads the time series of the devices that a set of pods held within a window.

use std::collections::BTreeMap;

use futures::future::join;
use jiff::Timestamp;

use crate::context::Context;
use crate::observe::metrics::{self, StoreUse};
use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::model::{Job, Pod, Series, UnixSeconds};
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::exporters::identity::ApiFacts;
use gpuctl_core::stats::exporters::kube_state;
use gpuctl_core::stats::exporters::query;
use gpuctl_core::stats::exporters::query::Pods;
use gpuctl_core::stats::history::curves as history;
use gpuctl_core::stats::history::curves::{History, Lifetimes};
use gpuctl_prometheus::{Prometheus, Window};

/// Finds the Prometheus to query for series from `since` on.
pub(crate) async fn find_store<'c>(
    context: &Context,
    connection: &'c Connection,
    since: UnixSeconds,
) -> Result<Prometheus<'c>, Error> {
    metrics::find(
        context,
        connection,
        context.access.request_timeout,
        StoreUse::Sums { since },
    )
    .await
}

/// Returns when the first of the pods started, at or after `since`. Returns `None` if no series
/// shows the start.
pub(crate) async fn first_start(
    prometheus: &Prometheus<'_>,
    pods: &Pods,
    since: UnixSeconds,
    end: UnixSeconds,
) -> Option<UnixSeconds> {
    // PromQL rejects a range of zero seconds.
    let query = kube_state::first_start(pods, (end - since).max(1));
    let series = prometheus.query_at(&query, end).await.ok()?;
    let start = series.first()?.last()?.value;
    #[expect(clippy::cast_possible_truncation, reason = "a time in seconds")]
    start
        .is_finite()
        .then(|| UnixSeconds(start as i64).max(since))
}

/// Adds pods that the objects of these kinds and names owned within the window, including deleted
/// pods.
pub(crate) async fn add_deleted_pods(
    prometheus: &Prometheus<'_>,
    pods: Pods,
    owners: &BTreeMap<String, Vec<String>>,
    window: Window,
) -> Result<Pods, Error> {
    let mut names: Vec<String> = Some(pods.names)
        .into_iter()
        .filter(|names| !names.is_empty())
        .collect();
    for (kind, owner_names) in owners {
        let owner_names: Vec<&str> = owner_names.iter().map(String::as_str).collect();
        let query = kube_state::owned_by(
            &pods.namespace,
            kind,
            &owner_names,
            (window.end - window.start).max(1),
        );
        let series = prometheus.query_at(&query, window.end).await?;
        names.extend(
            series
                .iter()
                .filter_map(|series| kube_state::label(series, "pod"))
                // The names become part of a regex, and pod names can contain dots.
                .map(regex::escape),
        );
    }
    names.sort_unstable();
    names.dedup();
    Ok(Pods {
        names: names.join("|"),
        namespace: pods.namespace,
    })
}

/// Reads the series of the pods' devices, and the training metrics that the pods expose.
pub(crate) async fn curves(
    context: &Context,
    prometheus: &Prometheus<'_>,
    quantities: &[Quantity],
    pods: &Pods,
    window: Window,
    lifetimes: &Lifetimes,
) -> Result<(History, Vec<Series>), Error> {
    // An empty regex also matches series without a pod label, which are unrelated.
    if pods.names.is_empty() {
        return Ok((History::default(), Vec::new()));
    }
    let (gauges, exposed) = (query::gauges(quantities, Some(pods)), query::exposed(pods));
    let (series, exposed) = join(
        prometheus.range(&gauges, window),
        prometheus.range(&exposed, window),
    )
    .await;
    metrics::print_warnings(context, prometheus);
    Ok((
        history::read(&series?, &ApiFacts::default(), lifetimes),
        exposed?,
    ))
}

pub(crate) fn milliseconds(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::as_millisecond)
}

/// Returns for each pod the time from which series with its name belong to the job: the creation of
/// the job. Series from before the pod's own creation come from the pod that it replaced.
pub(crate) fn lifetimes(job: &Job) -> Lifetimes {
    let since = |current_pod: &Pod| milliseconds(job.created_at.or(current_pod.created_at));
    job.pods
        .iter()
        .map(|pod| {
            (
                (job.namespace.clone(), pod.name.clone()),
                (since(pod), None),
            )
        })
        .collect()
}
