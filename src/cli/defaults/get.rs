//! Arguments and help for `gpuctl get defaults`.

use clap::{Args, ValueEnum};

use crate::cli::args::list::ListArgs;

/// List the defaults and limits that this site sets for all jobs
///
/// If several scopes set a field, the job's pool wins over its kind, and its kind over all jobs. A
/// file can override a default, unless the field is enforced.
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
    /// Widest scope first
    Scope,
    Field,
}
