//! Defines the command line: clap's structs and help texts, in one folder per noun. The file of the
//! same name in `commands` implements each command.

pub(crate) mod access;
pub(crate) mod args;
pub(crate) mod candidates;
pub(crate) mod claims;
pub(crate) mod command;
pub(crate) mod complete;
mod completion_cache;
pub(crate) mod defaults;
mod elsewhere;
pub(crate) mod files;
pub(crate) mod help;
pub(crate) mod history;
pub(crate) mod inherited_options;
pub(crate) mod jobs;
pub(crate) mod metrics;
pub(crate) mod misuse;
pub(crate) mod next;
pub(crate) mod nodes;
mod offers;
mod other_values;
pub(crate) mod plugin;
pub(crate) mod pools;
pub(crate) mod program;
pub(crate) mod queues;
pub(crate) mod quotas;
pub(crate) mod score;
pub(crate) mod search;
pub(crate) mod shorthand;
pub(crate) mod tasks;
pub(crate) mod topics;
mod typed_overrides;
pub(crate) mod workloads;

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, ValueEnum};
use clap_complete::engine::ArgValueCandidates;

use crate::config::SettingKey;
use args::kubectl::KubectlOptions;
use args::metrics::MetricsArgs;
use args::value::{duration, namespace};
use command::Command;

/// Output of `--version`.
pub(crate) const VERSION: &str = concat!("gpuctl ", env!("CARGO_PKG_VERSION"), "\n");

/// Run and watch GPU jobs on Kubernetes from a short YAML file
///
/// gpuctl turns a small file into Kubernetes objects on your own machine, applies them with your
/// kubeconfig, and shows which pods hold which GPUs and why a job is waiting. It installs nothing
/// in the cluster.
#[derive(Debug, Parser)]
#[command(
    name = "gpuctl",
    version,
    propagate_version = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(flatten)]
    pub metrics: MetricsArgs,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command
#[derive(Args, Clone, Debug)]
pub(crate) struct Global {
    /// Kubeconfig file to use instead of KUBECONFIG or ~/.kube/config
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        help_heading = "Global options"
    )]
    pub kubeconfig: Option<PathBuf>,
    /// Kubeconfig context to use
    #[arg(long, global = true, value_name = "NAME", help_heading = "Global options", add = ArgValueCandidates::new(candidates::context_names))]
    pub context: Option<String>,
    #[command(flatten)]
    pub kubectl: KubectlOptions,
    /// Namespace to use
    #[arg(short, long, global = true, value_name = "NAME", value_parser = namespace, help_heading = "Global options", add = ArgValueCandidates::new(candidates::namespace_names))]
    pub namespace: Option<String>,
    /// Use all namespaces; most list commands do so by default, unless -n is given
    #[arg(
        short = 'A',
        long,
        global = true,
        conflicts_with = "namespace",
        help_heading = "Global options"
    )]
    pub all_namespaces: bool,
    /// Read from a bundle written by `gpuctl doctor --bundle` instead of from a cluster
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        help_heading = "Global options"
    )]
    pub replay: Option<PathBuf>,
    #[arg(
        long,
        global = true,
        help_heading = "Global options",
        help = SettingKey::help_with("safety.read_only", "; GPUCTL_READ_ONLY=1 does the same")
    )]
    pub read_only: bool,
    /// User to impersonate
    #[arg(
        long = "as",
        global = true,
        value_name = "USER",
        help_heading = "Global options"
    )]
    pub impersonate: Option<String>,
    /// Group to impersonate; may be repeated
    #[arg(
        long = "as-group",
        global = true,
        value_name = "GROUP",
        requires = "impersonate",
        help_heading = "Global options"
    )]
    pub impersonate_group: Vec<String>,
    /// How long a single request may take
    #[arg(long, global = true, value_name = "TIME", default_value = "60s", value_parser = duration, help_heading = "Global options")]
    pub request_timeout: Duration,
    /// When to use colors
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "WHEN",
        help_heading = "Global options"
    )]
    pub color: When,
    /// Draw bars and boxes with ASCII characters
    #[arg(long, global = true, help_heading = "Global options")]
    pub plain: bool,
    /// Show data one screen at a time, with GPUCTL_PAGER, PAGER or less
    #[arg(long, global = true, help_heading = "Global options")]
    pub pager: bool,
    /// Print only data and errors
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub quiet: bool,
    /// Print more about what gpuctl does; -vv also logs each request
    #[arg(
        short,
        long,
        global = true,
        action = ArgAction::Count,
        conflicts_with = "quiet",
        help_heading = "Global options"
    )]
    pub verbose: u8,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum When {
    #[default]
    Auto,
    Always,
    Never,
}
