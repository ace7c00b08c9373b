//! Arguments and help for `gpuctl eff`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;
use crate::cli::candidates;

/// Show how efficiently a job or workload used its GPUs, even after it was deleted
///
/// Reports GPU-hours held, used and wasted, every device, memory, energy, the waiting time, and
/// what to change. All data comes from Prometheus history.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl eff bert-ft
  gpuctl eff team-a/llama3-70b --start 30d -o json
  gpuctl eff 7b0e8c5a-3f1d-4d7e-9a55-0c7de1fa0001")]
pub(crate) struct Eff {
    /// Job or workload, as NAME, NAMESPACE/NAME, NAMESPACE/KIND/NAME, or the UID of one that still
    /// exists
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(candidates::job_names))]
    pub name: String,
    /// How far back to search, as a time in RFC 3339 or Unix seconds, or a span before now such as
    /// 7d [default: 7d, or the start of an older workload, up to 92d]
    #[arg(long, value_name = "TIME")]
    pub start: Option<String>,
    /// End time, in the same formats [default: now]
    #[arg(long, value_name = "TIME")]
    pub end: Option<String>,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
