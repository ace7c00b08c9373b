//! Arguments and help for `gpuctl resume`.

use clap::Args;

use crate::cli::args::selection::ChangeArgs;

/// Resume a paused job with its previous size
///
/// A notebook that mounts folders of its node resumes on the same node, which has its files.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl resume data-prep
  gpuctl resume job data-prep --anywhere
  gpuctl resume --mine --status paused --yes")]
pub(crate) struct Resumed {
    #[command(flatten)]
    pub change: ChangeArgs,
    /// Resume on any node, without the files that a notebook has on its last node
    #[arg(long)]
    pub anywhere: bool,
}
