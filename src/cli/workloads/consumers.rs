//! Arguments and help of `gpuctl get consumers`.

use clap::Args;

use crate::cli::args::format::ListFormat;
use crate::cli::args::page::Page;

/// List who holds GPUs or waits for them, the biggest first, with how busy they keep them
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get consumers
  gpuctl get consumers -o json --page 1 --page-size 20")]
pub struct GetConsumers {
    #[command(flatten)]
    pub page: Page,
    /// Leave the titles out
    #[arg(long)]
    pub no_headers: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: ListFormat,
}
