//! Arguments and help for `gpuctl cp`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;
use crate::cli::candidates;

/// Copy files into a job or out of it
///
/// One of the two arguments is JOB:PATH or NAMESPACE/JOB:PATH. Folders are copied recursively. When
/// copying out of a job, symlinks that point outside the folder are skipped, and the destination
/// appears only once the copy is complete. When copying into a job, each file is written completely
/// or not at all, and a folder is written file by file. The image must contain `tar`.
///
/// If the job has ended or is paused, only its claims still exist. gpuctl then starts a small pod
/// with the job's image that mounts them read-only, copies, and removes the pod. Nothing can be
/// copied into such a job.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl cp qwen2-7b-sft:/output/checkpoint-100 ./checkpoint-100
  gpuctl cp finished-job:/output ./output
  gpuctl cp ./data.jsonl team-a/data-prep:/home/jovyan/work/")]
pub(crate) struct Copy {
    /// Source
    #[arg(add = ArgValueCandidates::new(candidates::copy_places))]
    pub from: String,
    /// Destination; if it is an existing folder, the source is copied into it
    #[arg(add = ArgValueCandidates::new(candidates::copy_places))]
    pub to: String,
    /// Rank of a training job, or index of a service's pod, from 0
    #[arg(long, value_name = "N", conflicts_with = "pod")]
    pub rank: Option<u32>,
    /// Name of the pod
    #[arg(long, value_name = "NAME")]
    pub pod: Option<String>,
    /// Container to use instead of the job's own
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
