//! Arguments and help for `gpuctl version`.

use clap::Args;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;

/// Show the version of this program
#[derive(Args, Debug)]
#[command(after_help = "Example:
  gpuctl version -o json")]
pub(crate) struct VersionArgs {
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
