//! Arguments and help for `gpuctl get training-performance`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;
use crate::cli::args::time::TimeRangeArgs;
use crate::cli::candidates;

/// Show a training job's loss, speed and iteration, from its metrics and log
///
/// Parses the log lines of common trainers and ignores all other lines.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get training-performance Job/qwen2-7b-sft
  gpuctl get training-performance qwen2-7b-sft --start 1h -o json | jq '.[] | select(.metric == \"loss\")'")]
pub(crate) struct TrainingPerformance {
    /// Workload, as UID, NAME, KIND/NAME, NAMESPACE/NAME or NAMESPACE/KIND/NAME
    #[arg(add = ArgValueCandidates::new(candidates::workload_names))]
    pub name: String,
    #[command(flatten)]
    pub range: TimeRangeArgs,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
