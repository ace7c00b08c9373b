//! Arguments and help for `gpuctl get namespaces`, `get dimension-keys` and `get dimension-values`.

use clap::Args;

use crate::cli::args::list::PrintArgs;
use crate::cli::args::value::dimension;
use crate::observe::hourly::Dimension;

/// Range to search for names
#[derive(Args, Clone, Debug)]
pub(crate) struct LookbackArgs {
    /// How far back to search, as a time in RFC 3339 or Unix seconds, or a span before now such as
    /// 7d
    #[arg(long, alias = "since", value_name = "TIME", default_value = "24h")]
    pub start: String,
    #[command(flatten)]
    pub print: PrintArgs,
}

/// List namespaces with recent pods that requested GPUs
#[derive(Args, Debug)]
#[command(after_help = "Example:
  gpuctl get namespaces --start 7d -o json")]
pub(crate) struct GetNamespaces {
    #[command(flatten)]
    pub back: LookbackArgs,
}

/// List label or annotation keys found on recent GPU pods, in kube-state-metrics form
#[derive(Args, Debug)]
#[command(after_help = "Example:
  gpuctl get dimension-keys --type annotation -o json")]
pub(crate) struct GetDimensionKeys {
    /// Label or annotation
    #[arg(long = "type", value_parser = dimension(), default_value = "label", value_name = "TYPE")]
    pub kind: Dimension,
    #[command(flatten)]
    pub back: LookbackArgs,
}

/// List the values of a label or annotation on recent GPU pods
#[derive(Args, Debug)]
#[command(after_help = "Example:
  gpuctl get dimension-values team -o json")]
pub(crate) struct GetDimensionValues {
    /// Key, such as team
    #[arg(value_name = "KEY")]
    pub key: String,
    /// Label or annotation
    #[arg(long = "type", value_parser = dimension(), default_value = "label", value_name = "TYPE")]
    pub kind: Dimension,
    #[command(flatten)]
    pub back: LookbackArgs,
}
