//! Arguments and help of `gpuctl get health`.

use clap::Args;

use crate::cli::args::list::PrintArgs;

/// List GPUs whose counters contradict «healthy», the worst first
///
/// Faults (XID, row remapping), uncorrected and corrected memory errors and repeated PCIe transfers
/// within a day, heat, use without a pod, and devices that have fallen silent. A GPU that is not
/// listed has none of these as far as its exporter tells.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get health
  gpuctl get health -o json")]
pub(crate) struct GetHealth {
    #[command(flatten)]
    pub print: PrintArgs,
}
