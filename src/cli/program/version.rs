//! Arguments and help for `gpuctl version`.

use clap::Args;

use crate::cli::args::format::OneFormat;

/// Show the version of this program
#[derive(Args, Debug)]
#[command(after_help = "Example:
  gpuctl version -o json")]
pub(crate) struct VersionArgs {
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
