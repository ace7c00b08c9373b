//! Arguments and help for `gpuctl cp`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::candidates;

/// Copy files into a job or out of it
///
/// One of the two arguments is JOB:PATH or NAMESPACE/JOB:PATH. A folder is copied with all its
/// content. A copy out of a job skips links that lead out of the folder, and appears only when it
/// is complete. A copy into a job writes each file completely or not at all, and writes a folder
/// file by file. The image must contain `tar`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl cp qwen2-7b-sft:/output/checkpoint-100 ./checkpoint-100
  gpuctl cp ./data.jsonl team-a/data-prep:/home/jovyan/work/")]
pub(crate) struct Copy {
    /// Source
    #[arg(add = ArgValueCandidates::new(candidates::copy_places))]
    pub from: String,
    /// Destination; a copy to an existing folder goes into it
    #[arg(add = ArgValueCandidates::new(candidates::copy_places))]
    pub to: String,
    /// Rank of a training, or index of a service's pod, from 0
    #[arg(long, value_name = "N", conflicts_with = "pod")]
    pub rank: Option<u32>,
    /// Name of the pod
    #[arg(long, value_name = "NAME")]
    pub pod: Option<String>,
    /// Container to use instead of the job's own
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
