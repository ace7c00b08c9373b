//! Arguments and help for `gpuctl restart`.

use clap::Args;

use crate::cli::args::selection::ChangeArgs;
use gpuctl_manifest::spec::Override;

/// Restart a job's pods, or rerun a job that has ended
///
/// A training job that has ended is deleted and submitted again, from the YAML and the files stored
/// in the cluster. With --set, the job is submitted with the changed fields; a service is updated
/// in place.
///
/// Training and notebook pods are evicted, which does not count as a retry. With `job.restart:
/// rank`, however, a rank that fails because its peer is missing uses up a retry. A service's pods
/// are replaced one after another. A pod on a node that does not respond is force-deleted, so its
/// containers may still run there.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl restart llama3-8b
  gpuctl restart llama3-8b --set resources.memory=128Gi
  gpuctl restart job team-a/qwen2-7b-sft --rank 1
  gpuctl restart -l team=nlp --dry-run=server")]
pub(crate) struct Restarted {
    #[command(flatten)]
    pub change: ChangeArgs,
    /// Restart only the pod of this rank of a training job
    #[arg(long, value_name = "N")]
    pub rank: Option<u32>,
    /// Submit the job again with this field changed, for example resources.gpu=4; may be repeated
    #[arg(
        long = "set",
        value_name = "FIELD=VALUE",
        value_parser = Override::parse,
        conflicts_with = "rank"
    )]
    pub sets: Vec<Override>,
}
