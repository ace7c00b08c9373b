//! Arguments and help of `gpuctl restart`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::candidates;

/// Restart the pods of a job, and free a job whose node is dead
///
/// Pods of a training and of a notebook are evicted, which costs no retry; with `job.restart:
/// rank`, a rank that fails because its peer is gone costs its own. The pods of a service are
/// replaced one after the other. A pod on a node that does not answer is taken away by force:
/// its containers may still run there.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl restart job llama3-8b
  gpuctl restart job team-a/qwen2-7b-sft --rank 1")]
pub(crate) struct Restarted {
    /// Job, as NAME or NAMESPACE/NAME
    #[arg(add = ArgValueCandidates::new(candidates::job_names))]
    pub name: String,
    /// Only the pod of this rank of a training
    #[arg(long, value_name = "N")]
    pub rank: Option<u32>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
