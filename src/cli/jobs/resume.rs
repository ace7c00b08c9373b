//! Arguments and help for `gpuctl resume`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::candidates;

/// Resume a paused job with its previous size
///
/// A notebook that mounts host directories resumes on the same node, where its files are.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl resume data-prep
  gpuctl resume job data-prep --anywhere")]
pub(crate) struct Resumed {
    /// Job, as NAME or NAMESPACE/NAME
    #[arg(add = ArgValueCandidates::new(candidates::job_names))]
    pub name: String,
    /// Resume on any node, giving up the files on the notebook's previous node
    #[arg(long)]
    pub anywhere: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
