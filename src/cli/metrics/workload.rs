//! Arguments and help for `gpuctl get metrics workload`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;
use crate::cli::args::time::TimeRangeArgs;
use crate::cli::candidates;

/// Show a workload's GPU utilization, memory, power and TFLOPS over time
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get metrics workload Deployment/llama3-8b
  gpuctl get metrics workload 7c1f9f52-0d3c-4a53-9a6e-6f1d5a0a9d51 --start 1609459200 --end 1609462800 --step 300 -o json")]
pub(crate) struct WorkloadMetrics {
    /// Workload, as UID, NAME, KIND/NAME, NAMESPACE/NAME or NAMESPACE/KIND/NAME
    #[arg(add = ArgValueCandidates::new(candidates::workload_names))]
    pub name: String,
    #[command(flatten)]
    pub range: TimeRangeArgs,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
