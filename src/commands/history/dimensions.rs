//! `gpuctl get namespaces`, `get dimension-keys` and `get dimension-values`: list the possible
//! groups of statistics.

use std::collections::BTreeSet;
use std::process::ExitCode;

use crate::cli::history::dimensions::{
    GetDimensionKeys, GetDimensionValues, GetNamespaces, LookbackArgs,
};
use crate::context::Context;
use crate::observe::history::{ClusterHistory, clusters};
use crate::observe::hourly::{Dimension, NONE_SERVED};
use crate::observe::names::print;
use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::model::UnixSeconds;
use gpuctl_core::stats::exporters::kube_state;
use gpuctl_core::stats::exporters::kube_state::PodQuery;

pub(crate) async fn namespaces(args: &GetNamespaces, context: &Context) -> Result<ExitCode, Error> {
    let found = pods(&args.back, context, async |_, namespaces, _, _| {
        Ok(namespaces)
    })
    .await?;
    print(
        &found.into_iter().collect::<Vec<_>>(),
        args.back.output.into(),
        "no pod requested GPUs",
        context,
    )
}

pub(crate) async fn keys(args: &GetDimensionKeys, context: &Context) -> Result<ExitCode, Error> {
    let named = names(&args.back, args.kind, context).await?;
    let keys: BTreeSet<String> = named.into_iter().map(|(key, _)| key).collect();
    print(
        &keys.into_iter().collect::<Vec<_>>(),
        args.back.output.into(),
        NONE_SERVED,
        context,
    )
}

pub(crate) async fn values(
    args: &GetDimensionValues,
    context: &Context,
) -> Result<ExitCode, Error> {
    let written = kube_state::label_key(&args.key);
    let named = names(&args.back, args.kind, context).await?;
    let values: BTreeSet<String> = named
        .into_iter()
        .filter(|(key, _)| *key == written)
        .map(|(_, value)| value)
        .collect();
    print(
        &values.into_iter().collect::<Vec<_>>(),
        args.back.output.into(),
        NONE_SERVED,
        context,
    )
}

/// Ten years in seconds.
const LONGEST: i64 = 315_360_000;

/// Reads the label or annotation keys and values of pods that requested GPUs.
pub(crate) async fn names(
    back: &LookbackArgs,
    kind: Dimension,
    context: &Context,
) -> Result<BTreeSet<(String, String)>, Error> {
    let (what, before) = match kind {
        Dimension::Label => (PodQuery::Labels, "label_"),
        Dimension::Annotation => (PodQuery::Annotations, "annotation_"),
    };
    pods(
        back,
        context,
        async |past, _, pods, (label, seconds, end)| {
            let found = past
                .queries(seconds, end)
                .about(what, &pods, &label)
                .await?;
            Ok(found
                .iter()
                .flat_map(|series| kube_state::names(series, before))
                .collect())
        },
    )
    .await
}

/// Finds pods that requested GPUs recently. Passes their namespaces, their names, and the label and
/// time range for further queries to `ask`.
async fn pods<T>(
    back: &LookbackArgs,
    context: &Context,
    ask: impl AsyncFnOnce(
        &ClusterHistory<'_>,
        BTreeSet<String>,
        BTreeSet<String>,
        (String, i64, UnixSeconds),
    ) -> Result<T, Error>,
) -> Result<T, Error> {
    context.terminal.set_format(back.output.into());
    let (cluster, access) = clusters(back.cluster.as_deref(), false, context)?.swap_remove(0);
    let connection = Connection::open(&access).await?;
    let seconds = i64::try_from(back.start.as_secs())
        .unwrap_or(i64::MAX)
        .clamp(60, LONGEST);
    let end = UnixSeconds::from(context.now());
    let past = ClusterHistory::of(cluster, context, &connection, end - seconds).await?;
    let answer = past
        .prometheus
        .query_at(&kube_state::holders(seconds), end)
        .await?;
    crate::observe::metrics::tell_warnings(context, &past.prometheus);
    let of = |name: &str| {
        answer
            .iter()
            .filter_map(|series| kube_state::label(series, name))
            .map(ToOwned::to_owned)
            .collect()
    };
    let label = kube_state::label_name(&answer, "pod");
    ask(&past, of("namespace"), of("pod"), (label, seconds, end)).await
}
