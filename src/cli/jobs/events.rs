//! Arguments and help for `gpuctl events`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::list::PrintArgs;
use crate::cli::candidates;

/// Show a job's events, such as scheduling, image pulls, restarts and errors
///
/// Clusters usually keep events for about an hour.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl events llama3-8b
  gpuctl events llama3-8b --warnings -o json
  gpuctl events llama3-8b -w")]
pub(crate) struct EventsArgs {
    /// Job, as NAME or NAMESPACE/NAME
    #[arg(add = ArgValueCandidates::new(candidates::job_names))]
    pub name: String,
    /// Show only warnings
    #[arg(long)]
    pub warnings: bool,
    /// Keep watching and print each new event on a line
    #[arg(short, long)]
    pub watch: bool,
    #[command(flatten)]
    pub print: PrintArgs,
}
