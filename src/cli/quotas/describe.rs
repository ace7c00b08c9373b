//! Arguments and help for `gpuctl describe quota`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;
use crate::cli::candidates;

/// Show a namespace's limits and usage
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl describe quota team-a
  gpuctl describe quota team-a -o json")]
pub(crate) struct DescribeQuota {
    /// Name of the namespace
    // With the name `namespace`, clap would also set the global option of this name.
    #[arg(value_name = "NAMESPACE", value_parser = crate::cli::args::value::object_name, add = ArgValueCandidates::new(candidates::quota_namespaces))]
    pub name: String,
    /// Treat the argument as the name of a quota, and show what `delete quota` would delete; for
    /// agent previews
    #[arg(long, hide = true)]
    pub to_delete: bool,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
