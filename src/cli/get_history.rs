//! `get clusters`, `get namespaces`, `get dimension-keys`, `get dimension-values`: what statistics can be asked about.

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::Args;

use crate::cluster::Connection;
use crate::error::Error;
use crate::stats::kube_state::{self, About};
use crate::view::{Format, document};

use super::past::{Past, clusters};
use super::stats::Dimension;
use super::{OneFormat, World};

/// List the clusters that can be asked: the contexts of the kubeconfig
#[derive(Args, Debug)]
#[command(after_help = "Example:
  gpuctl get clusters -o json")]
pub struct GetClusters {
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

/// Where and how far back names are looked for
#[derive(Args, Clone, Debug)]
pub struct Back {
    /// Context of the kubeconfig whose cluster is meant
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// How far to look back
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = super::duration)]
    since: std::time::Duration,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

/// List namespaces whose pods requested GPUs lately
#[derive(Args, Debug)]
#[command(after_help = "Example:
  gpuctl get namespaces --since 7d -o json")]
pub struct GetNamespaces {
    #[command(flatten)]
    back: Back,
}

/// List keys of labels or annotations that pods with GPUs had lately, as kube-state-metrics writes them
#[derive(Args, Debug)]
#[command(after_help = "Example:
  gpuctl get dimension-keys --type annotation -o json")]
pub struct GetDimensionKeys {
    /// Label or annotation
    #[arg(long = "type", value_enum, default_value_t, value_name = "TYPE")]
    kind: Dimension,
    #[command(flatten)]
    back: Back,
}

/// List values of a label or annotation that pods with GPUs had lately
#[derive(Args, Debug)]
#[command(after_help = "Example:
  gpuctl get dimension-values team -o json")]
pub struct GetDimensionValues {
    /// The key, such as team
    #[arg(value_name = "KEY")]
    key: String,
    /// Label or annotation
    #[arg(long = "type", value_enum, default_value_t, value_name = "TYPE")]
    kind: Dimension,
    #[command(flatten)]
    back: Back,
}

pub fn get_clusters(args: &GetClusters, world: &World) -> Result<ExitCode, Error> {
    let (contexts, _) = Connection::contexts(&world.access)?;
    print(&contexts, args.output, "no context is configured", world)
}

pub async fn namespaces(args: &GetNamespaces, world: &World) -> Result<ExitCode, Error> {
    let found = pods(&args.back, world, async |_, namespaces, _, _| Ok(namespaces)).await?;
    print(&found.into_iter().collect::<Vec<_>>(), args.back.output, "no pod requested GPUs", world)
}

pub async fn keys(args: &GetDimensionKeys, world: &World) -> Result<ExitCode, Error> {
    let named = names(&args.back, args.kind, world).await?;
    let keys: BTreeSet<String> = named.into_iter().map(|(key, _)| key).collect();
    print(&keys.into_iter().collect::<Vec<_>>(), args.back.output, NONE_SERVED, world)
}

pub async fn values(args: &GetDimensionValues, world: &World) -> Result<ExitCode, Error> {
    let written = kube_state::written(&args.key);
    let named = names(&args.back, args.kind, world).await?;
    let values: BTreeSet<String> = named.into_iter().filter(|(key, _)| *key == written).map(|(_, value)| value).collect();
    print(&values.into_iter().collect::<Vec<_>>(), args.back.output, NONE_SERVED, world)
}

/// When there is no such label.
pub const NONE_SERVED: &str = "no pod with GPUs had it, as far as kube-state-metrics serves labels: --metric-labels-allowlist=pods=[*], --metric-annotations-allowlist=pods=[*]";

/// Ten years in seconds.
const LONGEST: i64 = 315_360_000;

/// Keys with values of pods that requested GPUs.
async fn names(back: &Back, kind: Dimension, world: &World) -> Result<BTreeSet<(String, String)>, Error> {
    let (what, before) = match kind {
        Dimension::Label => (About::Labels, "label_"),
        Dimension::Annotation => (About::Annotations, "annotation_"),
    };
    pods(back, world, async |past, _, pods, (label, seconds, end)| {
        let found = past.about(what, &pods, &label, seconds, end).await?;
        Ok(found.iter().flat_map(|series| kube_state::names(series, before)).collect())
    })
    .await
}

/// Asks about pods that requested GPUs lately: their namespaces, their names, and where and when to ask for more.
async fn pods<T>(
    back: &Back,
    world: &World,
    ask: impl AsyncFnOnce(&Past<'_>, BTreeSet<String>, BTreeSet<String>, (String, i64, i64)) -> Result<T, Error>,
) -> Result<T, Error> {
    world.terminal.set_format(back.output.into());
    let (cluster, access) = clusters(back.cluster.as_deref(), false, world)?.swap_remove(0);
    let connection = Connection::open(&access).await?;
    let past = Past::of(cluster, world, &connection).await?;
    let seconds = i64::try_from(back.since.as_secs()).unwrap_or(i64::MAX).clamp(60, LONGEST);
    let end = world.now().as_second();
    let answer = past.prometheus.at(&kube_state::holders(seconds), end).await?;
    super::metrics::tell_warnings(world, &past.prometheus);
    let of = |name: &str| answer.iter().filter_map(|series| kube_state::label(series, name)).map(ToOwned::to_owned).collect();
    let label = kube_state::label_name(&answer, "pod");
    ask(&past, of("namespace"), of("pod"), (label, seconds, end)).await
}

fn print(names: &[String], output: OneFormat, none: &str, world: &World) -> Result<ExitCode, Error> {
    let format: Format = output.into();
    world.terminal.set_format(format);
    let lines = || names.iter().map(|name| format!("{}\n", crate::view::text::clean(name))).collect::<String>();
    world.terminal.print(&document(format, &names).unwrap_or_else(lines))?;
    if names.is_empty() {
        world.terminal.note(none);
    }
    Ok(ExitCode::SUCCESS)
}
