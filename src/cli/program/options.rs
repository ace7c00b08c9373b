//! Arguments and help of `gpuctl options`.

use clap::Args;

/// Print the options of every command
#[derive(Args, Debug)]
pub(crate) struct Options {}
