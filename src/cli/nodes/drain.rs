//! Arguments and help for `gpuctl drain`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::list::PrintArgs;
use crate::cli::candidates;

/// Show which pods a drain would stop, their last checkpoints, and where they could run
///
/// Changes nothing; use `kubectl drain` to drain the node. The plan assigns the pods to the other
/// nodes as the scheduler would now, the largest pods first. It ignores disruption budgets, volumes
/// and pod (anti-)affinity. Pods of DaemonSets stay on the node.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl drain gpu-a-07 --plan
  gpuctl drain gpu-a-07 --plan -o json")]
pub(crate) struct Drain {
    /// Name of the node
    #[arg(add = ArgValueCandidates::new(candidates::node_names))]
    pub node: String,
    /// Show the plan; required, because gpuctl does not drain nodes
    #[arg(long, required = true)]
    pub plan: bool,
    #[command(flatten)]
    pub print: PrintArgs,
}
