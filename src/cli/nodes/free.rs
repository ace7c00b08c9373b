//! Arguments and help for `gpuctl free`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::list::PrintArgs;
use crate::cli::args::value;
use crate::cli::candidates;

/// Show which free GPUs a job can use, the largest gang, and stranded GPUs with their cause
///
/// Counts whole GPUs, by type. A free GPU is stranded if its node is cordoned or tainted (as faulty
/// nodes are), or has too little free CPU or memory. BLOCKS shows how many nodes have how many free
/// GPUs. The largest gang is the largest job that fits now with the same number of GPUs in each
/// pod. A job that needs more GPUs than a node has takes whole nodes. Unlike the scheduler, `free`
/// ignores quotas, selectors, volumes and other job limits.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl free
  gpuctl free --type h100-80g --slots 64
  gpuctl free --all-contexts
  gpuctl free --by topology.kubernetes.io/zone -o json")]
pub(crate) struct Free {
    /// Count only GPUs of this type
    #[arg(long = "type", value_name = "TYPE", add = ArgValueCandidates::new(candidates::gpu_types))]
    pub gpu_type: Option<String>,
    /// Count only nodes of this pool
    #[arg(long, value_name = "POOL", add = ArgValueCandidates::new(candidates::pool_names))]
    pub pool: Option<String>,
    /// Show how many jobs of N GPUs fit, and which pods to move for one more
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub slots: Option<u64>,
    /// Group the nodes by this label; a job must run in one group
    #[arg(long, value_name = "LABEL")]
    pub by: Option<String>,
    /// CPUs that a job needs for each GPU
    #[arg(long, value_name = "CPUS", default_value = "1", value_parser = value::thousandths)]
    pub cpu: u64,
    /// Memory that a job needs for each GPU
    #[arg(long, value_name = "BYTES", default_value = "4Gi", value_parser = value::thousandths)]
    pub memory: u64,
    /// Show the free GPUs of all kubeconfig contexts; a context that cannot be read is skipped with
    /// a warning
    #[arg(long)]
    pub all_contexts: bool,
    #[command(flatten)]
    pub print: PrintArgs,
}
