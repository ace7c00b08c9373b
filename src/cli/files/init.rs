//! Arguments and help of `gpuctl init`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::files::kinds;

/// Write a starter file: required fields are set, all others are comments
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl init training --output job.yaml
  gpuctl init inference | less")]
pub(crate) struct Init {
    /// Kind of the document
    #[arg(value_name = "KIND", value_parser = kinds())]
    pub kind: String,
    /// File to write; stdout without it
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long, requires = "output")]
    pub force: bool,
}
