//! Arguments and help of `gpuctl init`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::files::kinds;

/// Write a file to begin with: what is needed is set, everything else stands there as a comment
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl init training --output job.yaml
  gpuctl init inference | less")]
pub(crate) struct Init {
    /// What the file is to describe
    #[arg(value_name = "KIND", value_parser = kinds())]
    pub kind: String,
    /// File to write; stdout without it
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Overwrite a file that is there
    #[arg(long, requires = "output")]
    pub force: bool,
}
