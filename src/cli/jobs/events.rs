//! Arguments and help of `gpuctl events`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::list::PrintArgs;
use crate::cli::candidates;

/// Show what happened to a job: placing, pulling, restarts, refusals
///
/// The cluster keeps events for an hour or so.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl events llama3-8b
  gpuctl events llama3-8b --warnings -o json
  gpuctl events llama3-8b -w")]
pub(crate) struct Events {
    /// Job, as NAME or NAMESPACE/NAME
    #[arg(add = ArgValueCandidates::new(candidates::job_names))]
    pub name: String,
    /// Only what went wrong
    #[arg(long)]
    pub warnings: bool,
    /// Go on with what happens, one event a line
    #[arg(short, long)]
    pub watch: bool,
    #[command(flatten)]
    pub print: PrintArgs,
}
