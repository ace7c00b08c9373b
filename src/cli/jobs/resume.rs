//! Arguments and help for `gpuctl resume`.

use clap::Args;

use crate::cli::args::selection::ChangeArgs;

/// Resume a paused job with its previous size
///
/// A notebook that mounts host directories resumes on the same node, where its files are.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl resume data-prep
  gpuctl resume job data-prep --anywhere
  gpuctl resume --mine --status paused --yes")]
pub(crate) struct Resumed {
    #[command(flatten)]
    pub change: ChangeArgs,
    /// Resume on any node, giving up the files on the notebook's previous node
    #[arg(long)]
    pub anywhere: bool,
}
