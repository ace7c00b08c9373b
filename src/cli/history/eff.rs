//! Arguments and help of `gpuctl eff`.

use clap::Args;

use crate::cli::args::format::OneFormat;

/// Show what a job or workload made of its GPUs, also after it is gone
///
/// GPU-hours held, used and wasted, every device, memory, energy, how long it waited, and what to change. All of it is
/// from Prometheus' history.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl eff bert-ft
  gpuctl eff team-a/llama3-70b --start 30d -o json
  gpuctl eff 7b0e8c5a-3f1d-4d7e-9a55-0c7de1fa0001")]
pub(crate) struct Eff {
    /// Job or workload: NAME, NAMESPACE/NAME, or the UID of one that still exists
    #[arg(value_name = "NAME")]
    pub name: String,
    /// How far back it is looked for: RFC 3339, Unix seconds, a span before now such as 7d
    #[arg(long, value_name = "TIME", default_value = "7d")]
    pub start: String,
    /// End, in the same forms; now without it
    #[arg(long, value_name = "TIME")]
    pub end: Option<String>,
    /// Context of the kubeconfig whose cluster is meant
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
