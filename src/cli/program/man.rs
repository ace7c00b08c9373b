//! Arguments and help for `gpuctl man`.

use std::path::PathBuf;

use clap::Args;

/// Print the manual page, or write the pages of all commands
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl man | man -l -
  gpuctl man --dir /usr/local/share/man/man1")]
pub(crate) struct Man {
    /// Folder to write one page per command to
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}
