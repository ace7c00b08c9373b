//! Arguments and help for `gpuctl init`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::cli::files::kinds;
use gpuctl_manifest::spec::preset;

/// Write a starter file, with required fields set and all others commented out
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl init training --output job.yaml
  gpuctl init inference | less
  gpuctl init --preset vllm | gpuctl create -")]
pub(crate) struct Init {
    /// Kind of the document
    #[arg(value_name = "KIND", value_parser = kinds(), required_unless_present = "preset")]
    pub kind: Option<String>,
    /// Write a file for a common tool instead of a KIND
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(preset::names()), conflicts_with = "kind")]
    pub preset: Option<String>,
    /// File to write [default: stdout]
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long, requires = "output")]
    pub force: bool,
}
