//! Arguments and help for `gpuctl options`.

use clap::Args;

/// Print the options of every command
#[derive(Args, Debug)]
pub(crate) struct Options {}
