//! Arguments and help of `gpuctl get defaults`.

use clap::{Args, ValueEnum};

use crate::cli::args::list::ListArgs;

/// List what this site sets for everybody's jobs, and what it limits
///
/// The nearest scope holds: the job's pool, its kind, all. A file may say otherwise, except where a
/// field is enforced.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get defaults
  gpuctl get defaults --sort-by field
  gpuctl get defaults -o json")]
pub(crate) struct GetDefaults {
    #[command(flatten)]
    pub list: ListArgs<DefaultsSortKey>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum DefaultsSortKey {
    /// The widest first
    Scope,
    Field,
}
