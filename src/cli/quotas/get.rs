//! Arguments and help for `gpuctl get quotas`.

use clap::{Args, ValueEnum};

use crate::cli::args::list::ListArgs;

/// List namespace quotas, with their limits and usage
///
/// Lists all namespaces, or only the namespace of -n.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get quotas
  gpuctl get quotas --sort-by used
  gpuctl get quotas -n team-a -o json")]
pub(crate) struct GetQuotas {
    #[command(flatten)]
    pub list: ListArgs<QuotaSortKey>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum QuotaSortKey {
    Namespace,
    Name,
    /// Most used first
    Used,
}
