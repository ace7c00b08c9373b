//! Arguments and help for `gpuctl drain`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::list::PrintArgs;
use crate::cli::candidates;

/// Show which pods a drain would stop, their last checkpoints, and where they could run
///
/// Changes nothing: to drain the node, use `kubectl drain`. The plan places the pods on the other
/// nodes as the scheduler would at present, largest pods first. It ignores disruption budgets,
/// volumes and pod (anti-)affinity. Pods of DaemonSets stay.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl drain gpu-a-07 --plan
  gpuctl drain gpu-a-07 --plan -o json")]
pub(crate) struct Drain {
    /// Name of the node
    #[arg(add = ArgValueCandidates::new(candidates::node_names))]
    pub node: String,
    /// Only show the plan; required, because this command does nothing else
    #[arg(long, required = true)]
    pub plan: bool,
    #[command(flatten)]
    pub print: PrintArgs,
}
