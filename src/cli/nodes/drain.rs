//! Arguments and help of `gpuctl drain`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::list::PrintArgs;
use crate::cli::candidates;

/// Show what draining a node would do: whose pods end, since which checkpoint, and where each could
/// run. Changes nothing
///
/// Pods are placed on the other nodes as the scheduler would place them now, those with most GPUs
/// first; budgets of disruption, volumes and rules about other pods are not looked at. Pods of
/// daemons stay. `kubectl drain` does it.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl drain gpu-a-07 --plan
  gpuctl drain gpu-a-07 --plan -o json")]
pub(crate) struct Drain {
    /// Node
    #[arg(add = ArgValueCandidates::new(candidates::node_names))]
    pub node: String,
    /// Only show the plan; there is nothing else that this command does
    #[arg(long, required = true)]
    pub plan: bool,
    #[command(flatten)]
    pub print: PrintArgs,
}
