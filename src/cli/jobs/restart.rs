//! Arguments and help for `gpuctl restart`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::candidates;

/// Restart a job's pods, or free a job whose node is down
///
/// Training and notebook pods are evicted, which does not count as a retry. With `job.restart:
/// rank`, a rank that fails because its peer is missing does use up one of its own retries. A
/// service's pods are replaced one after another. A pod on a node that does not respond is
/// force-deleted, so its containers may still run there.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl restart llama3-8b
  gpuctl restart job team-a/qwen2-7b-sft --rank 1")]
pub(crate) struct Restarted {
    /// Job, as NAME or NAMESPACE/NAME
    #[arg(add = ArgValueCandidates::new(candidates::job_names))]
    pub name: String,
    /// Restart only the pod of this rank of a training job
    #[arg(long, value_name = "N")]
    pub rank: Option<u32>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
