//! Arguments and help for `gpuctl fit`.

use clap::Args;

use crate::cli::args::format::OneFormat;
use crate::cli::args::local::LocalFileArgs;
use gpuctl_manifest::spec::Override;

/// Check whether a job fits now, later, or never on these nodes, and what limits it
///
/// Compares the job's pods with every node as the scheduler does: selectors, taints, cordons, GPUs,
/// CPU and memory. Also checks the namespace's quotas. Nothing is written. Volumes, device claims
/// and rules about other pods are not compared; if they matter, the answer is "not known". Each
/// document is checked alone and as a new job: resources of an earlier job with the same name do
/// not count as free.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0 fits now, 8 not now, 9 never here, 1 not known; for several documents, the first of 9, 1, 8, 0 that occurs.

Examples:
  gpuctl fit -f job.yaml
  gpuctl fit -f job.yaml --set resources.gpu=4 -o json
  gpuctl fit -f job.yaml --by topology.kubernetes.io/zone"
)]
pub(crate) struct FitArgs {
    /// File, folder of *.yaml files, or - for stdin; may be repeated
    #[arg(short, long = "filename", required = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub files: Vec<String>,
    /// Change a field of every document first, as resources.gpu=4; may be repeated
    #[arg(long = "set", value_name = "FIELD=VALUE", value_parser = Override::parse)]
    pub sets: Vec<Override>,
    #[command(flatten)]
    pub local: LocalFileArgs,
    /// Group the nodes by this label: all pods of the job must run in one group
    #[arg(long, value_name = "LABEL")]
    pub by: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
