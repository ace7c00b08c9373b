//! Arguments and help of `gpuctl doctor`.

use clap::Args;

use crate::cli::args::format::OneFormat;

/// Check what gpuctl works with: the cluster and Prometheus
#[derive(Args, Debug)]
#[command(after_help = "Exit codes: 0 when the cluster answers, also without Prometheus; 6 when it does not.

Examples:
  gpuctl doctor
  gpuctl doctor -o json
  gpuctl doctor --adapter-rules > rules.yaml")]
pub(crate) struct Doctor {
    /// Print rules for prometheus-adapter that serve GPU utilization and memory to autoscaling
    #[arg(long, conflicts_with = "output")]
    pub adapter_rules: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
