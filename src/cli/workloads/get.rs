//! Arguments and help of `gpuctl get workloads`.

use clap::{Args, ValueEnum};

use crate::cli::args::format::ListFormat;
use crate::cli::args::page::Page;

/// List everything that requests GPUs, whoever made it: the owner at the top of each chain
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get workloads --status Running
  gpuctl get workloads --kind PyTorchJob --order-by start_at
  gpuctl get workloads -n team-a -o json --page 2")]
pub struct GetWorkloads {
    /// Only workloads with this in their name
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
    /// Only workloads of this kind, such as Job or PyTorchJob
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,
    /// Only workloads in this state
    #[arg(long, value_name = "STATUS", ignore_case = true, value_parser = ["Running", "Completed", "Failed", "Pending", "Unknown"])]
    pub status: Option<String>,
    /// Order of the list: the newest first; by namespace and name without it
    #[arg(long, value_enum, value_name = "KEY")]
    pub order_by: Option<Order>,
    #[command(flatten)]
    pub page: Page,
    /// Leave the titles out
    #[arg(long)]
    pub no_headers: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: ListFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Order {
    #[value(name = "start_at")]
    StartAt,
    #[value(name = "end_at")]
    EndAt,
}
