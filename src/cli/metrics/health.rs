//! Arguments and help for `gpuctl get health`.

use clap::Args;

use crate::cli::args::list::PrintArgs;

/// List GPUs and GPU nodes that show signs of trouble, worst first
///
/// Signs of a GPU are faults (XID, row remapping), uncorrected and corrected memory errors and
/// repeated PCIe transfers within a day, overheating, use without a pod, and missing samples. Signs
/// of a node are a condition that reports a fault, lost GPUs, and an exporter that is silent. A GPU
/// that is not listed shows none of these, as far as its exporter reports them.
///
/// Without Prometheus, prints the faults of nodes and their lost GPUs, and exits with 6, because
/// the state of the other GPUs is unknown.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get health
  gpuctl get health -o json")]
pub(crate) struct GetHealth {
    #[command(flatten)]
    pub print: PrintArgs,
}
