//! `gpuctl get namespaces`, `get dimension-keys` and `get dimension-values`: list the values by
//! which statistics can be grouped.

use std::collections::BTreeSet;
use std::process::ExitCode;

use crate::cli::history::dimensions::{
    GetDimensionKeys, GetDimensionValues, GetNamespaces, LookbackArgs,
};
use crate::context::Context;
use crate::observe::history::{ClusterHistory, clusters};
use crate::observe::hourly::{Dimension, LABEL_NOT_EXPORTED};
use crate::observe::names::print;
use crate::observe::past_namespace;
use crate::observe::times;
use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::model::UnixSeconds;
use gpuctl_core::model::values::natural;
use gpuctl_core::stats::exporters::kube_state;
use gpuctl_core::stats::exporters::kube_state::PodQuery;

pub(crate) async fn namespaces(args: &GetNamespaces, context: &Context) -> Result<ExitCode, Error> {
    let names = pods(&args.back, context, async |_, namespaces, _, _| {
        Ok(namespaces)
    })
    .await?;
    print(
        &natural::sorted(names),
        &args.back.print.options(),
        "no pod requested GPUs",
        context,
    )
}

pub(crate) async fn keys(args: &GetDimensionKeys, context: &Context) -> Result<ExitCode, Error> {
    let pairs = names(&args.back, args.kind, context).await?;
    let keys: BTreeSet<String> = pairs.into_iter().map(|(key, _)| key).collect();
    print(
        &natural::sorted(keys),
        &args.back.print.options(),
        LABEL_NOT_EXPORTED,
        context,
    )
}

pub(crate) async fn values(
    args: &GetDimensionValues,
    context: &Context,
) -> Result<ExitCode, Error> {
    let exported_key = kube_state::label_key(&args.key);
    let pairs = names(&args.back, args.kind, context).await?;
    let values: BTreeSet<String> = pairs
        .into_iter()
        .filter(|(key, _)| *key == exported_key)
        .map(|(_, value)| value)
        .collect();
    print(
        &natural::sorted(values),
        &args.back.print.options(),
        LABEL_NOT_EXPORTED,
        context,
    )
}

/// Longest lookback (ten years) in seconds.
const MAX_SECONDS: i64 = 315_360_000;

/// Reads the labels or annotations of pods that requested GPUs, as pairs of key and value.
pub(crate) async fn names(
    lookback: &LookbackArgs,
    kind: Dimension,
    context: &Context,
) -> Result<BTreeSet<(String, String)>, Error> {
    let (about, prefix) = match kind {
        Dimension::Label => (PodQuery::Labels, "label_"),
        Dimension::Annotation => (PodQuery::Annotations, "annotation_"),
    };
    pods(
        lookback,
        context,
        async |history, _, pods, (label, seconds, end)| {
            let series = history
                .queries(seconds, end)
                .about(about, &pods, &label)
                .await?;
            Ok(series
                .iter()
                .flat_map(|series| kube_state::names(series, prefix))
                .collect())
        },
    )
    .await
}

/// Finds pods that recently requested GPUs. Calls `query` with their namespaces and names, the
/// label that holds the names, and the range in seconds.
async fn pods<T>(
    lookback: &LookbackArgs,
    context: &Context,
    query: impl AsyncFnOnce(
        &ClusterHistory<'_>,
        BTreeSet<String>,
        BTreeSet<String>,
        (String, i64, UnixSeconds),
    ) -> Result<T, Error>,
) -> Result<T, Error> {
    context.terminal.set_format(lookback.print.options().format);
    let (start, end) = times::past(Some(&lookback.start), None, context.now())?;
    let seconds = (end - start).clamp(60, MAX_SECONDS);
    let (cluster, access) = clusters(false, context)?.swap_remove(0);
    let connection = Connection::open(&access).await?;
    let history = ClusterHistory::open(cluster, context, &connection, end - seconds).await?;
    let series = history
        .prometheus
        .query_at(&kube_state::holders(seconds), end)
        .await?;
    crate::observe::metrics::print_warnings(context, &history.prometheus);
    let label_values = |name: &str| {
        series
            .iter()
            .filter_map(|series| kube_state::label(series, name))
            .map(ToOwned::to_owned)
            .collect()
    };
    let namespaces: BTreeSet<String> = label_values("namespace");
    let expected_namespace = context.access.namespace.as_deref();
    let unseen = expected_namespace.filter(|name| !namespaces.contains(*name));
    past_namespace::check(unseen, &history, (end - seconds, end), context).await?;
    let label = kube_state::label_name(&series, "pod");
    query(
        &history,
        namespaces,
        label_values("pod"),
        (label, seconds, end),
    )
    .await
}
