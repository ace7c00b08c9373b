//! Arguments and help for `gpuctl doctor`.

use clap::Args;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;

/// Check the cluster, Prometheus, and the GPU software of every node, and suggest fixes
///
/// For each GPU node, it names the first broken component: the driver, container toolkit, device
/// plugin, feature discovery, exporter or scrape. A broken node, a lost GPU and a GPU with a fault
/// fail the check `node-health`; a cordoned node does not.
#[derive(Args, Debug)]
#[command(
    after_help = "The last line is the verdict (`verdict` in JSON), which decides the exit code:
  healthy   0   the cluster and Prometheus respond, and every check is `ok`
  degraded  13  the cluster responds, but a line is `warn` or `fail`, such as a missing Prometheus
  broken    14  the cluster does not respond or rejects you, or the GPU software is incomplete on every node with GPUs

Examples:
  gpuctl doctor
  gpuctl doctor -o json
  gpuctl doctor --bundle cluster.gpuctl && gpuctl --replay cluster.gpuctl why --all
  gpuctl doctor --adapter-rules > rules.yaml
  gpuctl doctor --recording-rules > gpuctl-rules.yml"
)]
pub(crate) struct Doctor {
    /// Print rules for prometheus-adapter that serve GPU utilization and memory to autoscaling
    #[arg(long, conflicts_with = "output")]
    pub adapter_rules: bool,
    /// Print recording rules for Prometheus, which reduce its load in clusters with thousands of
    /// GPUs
    #[arg(long, conflicts_with_all = ["output", "adapter_rules"])]
    pub recording_rules: bool,
    /// Write everything that read-only commands need to one file, with recognized secrets redacted;
    /// use it with --replay FILE
    #[arg(long, value_name = "FILE", conflicts_with_all = ["adapter_rules", "recording_rules"])]
    pub bundle: Option<std::path::PathBuf>,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
