//! Arguments and help for `gpuctl describe defaults`.

use clap::Args;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;

/// Show the site's defaults as they were submitted, and their author
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl describe defaults
  gpuctl describe defaults -o yaml")]
pub(crate) struct DescribeDefaults {
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
