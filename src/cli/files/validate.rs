//! Arguments and help for `gpuctl validate`.

use clap::Args;

use crate::cli::args::format::OneFormat;
use crate::cli::args::local::LocalFileArgs;
use crate::cli::args::output::output_format;
use gpuctl_manifest::spec::checks::{self};

/// Validate files without a cluster
///
/// Reports every problem at once, with line and column. To silence a finding, add the comment `#
/// gpuctl: ignore ID` to its document. Exits with 3 if a file is invalid.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl validate -f job.yaml
  gpuctl validate -f jobs/ --strict -o json
  gpuctl validate -f job.yaml --server -n team-a
  gpuctl validate --explain tensor-parallel")]
pub(crate) struct Validate {
    /// File, folder of *.yaml files, or - for stdin; the -f is optional; may be repeated
    #[arg(short, long = "filename", required_unless_present = "explain", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub files: Vec<String>,
    #[command(flatten)]
    pub local: LocalFileArgs,
    /// Also check against the cluster, as `create` would
    #[arg(long)]
    pub server: bool,
    /// Treat warnings as errors
    #[arg(long)]
    pub strict: bool,
    /// Explain this check instead of validating files
    #[arg(long, value_name = "ID", conflicts_with_all = ["files", "server", "strict", "allow_files_from"], value_parser = clap::builder::PossibleValuesParser::new(checks::CHECKS.iter().map(|check| check.id)))]
    pub explain: Option<String>,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
