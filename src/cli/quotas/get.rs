//! Arguments and help of `gpuctl get quotas`.

use clap::{Args, ValueEnum};

use crate::cli::args::format::ListFormat;
use crate::cli::args::page::Page;

/// List quotas of namespaces: what is allowed and what is used
///
/// Of all namespaces, or of the one that -n names.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get quotas
  gpuctl get quotas --sort-by used
  gpuctl get quotas -n team-a -o json")]
pub struct GetQuotas {
    /// Of all namespaces, as without -n
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Order of the list: `used` has the fullest first
    #[arg(long, value_enum, value_name = "KEY")]
    pub sort_by: Option<SortKey>,
    #[command(flatten)]
    pub page: Page,
    /// Go on: redraw on a terminal, one JSON object per change in a pipe
    #[arg(short, long)]
    pub watch: bool,
    /// Leave the titles out
    #[arg(long)]
    pub no_headers: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: ListFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum SortKey {
    Namespace,
    Name,
    Used,
}
