//! Arguments and help for `gpuctl resume`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::candidates;

/// Resume a paused job with its previous size
///
/// A notebook that mounts folders of its node resumes on the same node, which has its files.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl resume data-prep
  gpuctl resume job data-prep --anywhere")]
pub(crate) struct Resumed {
    /// Job, as NAME or NAMESPACE/NAME
    #[arg(add = ArgValueCandidates::new(candidates::job_names))]
    pub name: String,
    /// Resume on any node, without the files that a notebook has on its last node
    #[arg(long)]
    pub anywhere: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
