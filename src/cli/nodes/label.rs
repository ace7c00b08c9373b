//! Arguments and help for `gpuctl label node`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;
use crate::cli::args::submit::dry_run;
use crate::cli::candidates;
use gpuctl_cluster::DryRun;

/// Set or remove a node label
///
/// Changing the value of an existing label requires --overwrite. Changing a label that belongs to
/// Kubernetes or to pools requires --force.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl label node gpu-a-01 nvidia.com/gpu-type=a100-80g
  gpuctl label node gpu-a-01 gpu-a-02 company.com/gpu-model=a100-40g --overwrite
  gpuctl label node gpu-a-01 nvidia.com/gpu-type --delete")]
pub(crate) struct LabelNode {
    /// Nodes, then KEY=VALUE, or KEY with --delete
    #[arg(required = true, num_args = 2.., value_names = ["NODE", "KEY=VALUE"], add = ArgValueCandidates::new(candidates::node_names))]
    pub words: Vec<String>,
    /// Overwrite an existing value
    #[arg(long, conflicts_with = "delete")]
    pub overwrite: bool,
    /// Remove the label
    #[arg(long)]
    pub delete: bool,
    /// Also change labels that belong to Kubernetes or to pools
    #[arg(long)]
    pub force: bool,
    /// Show the result without changing anything; `server` also lets the API server check it
    #[arg(long, value_parser = dry_run(), value_name = "WHERE", num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub dry_run: Option<DryRun>,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
