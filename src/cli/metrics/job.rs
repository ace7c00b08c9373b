//! Arguments and help for `gpuctl get metrics job`.

use clap::{Args, ValueEnum};
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;
use crate::cli::args::time::TimeRangeArgs;
use crate::cli::candidates;
use gpuctl_view::history::metrics::JobMetric;

/// Show a job's GPU utilization, memory and throughput over time
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get metrics job qwen2-7b-sft
  gpuctl get metrics job qwen2-7b-sft --start 2h --step 1m -o json
  gpuctl get metrics job qwen2-7b-sft --metric gpuUtilization --per-gpu")]
pub(crate) struct JobMetricsArgs {
    /// Job, as NAME or NAMESPACE/NAME
    #[arg(add = ArgValueCandidates::new(candidates::job_names))]
    pub name: String,
    /// Show only this metric; may be repeated
    #[arg(long, value_enum, value_name = "METRIC", value_delimiter = ',')]
    pub metric: Vec<JobMetricArg>,
    /// Show every GPU separately
    #[arg(long)]
    pub per_gpu: bool,
    #[command(flatten)]
    pub range: TimeRangeArgs,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "camelCase")]
pub(crate) enum JobMetricArg {
    GpuUtilization,
    MemoryUsage,
    Throughput,
}

impl From<JobMetricArg> for JobMetric {
    fn from(shown: JobMetricArg) -> Self {
        match shown {
            JobMetricArg::GpuUtilization => Self::GpuUtilization,
            JobMetricArg::MemoryUsage => Self::MemoryUsage,
            JobMetricArg::Throughput => Self::Throughput,
        }
    }
}
