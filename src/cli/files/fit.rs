//! Arguments and help of `gpuctl fit`.

use clap::Args;

use crate::cli::args::format::OneFormat;
use crate::cli::args::local::LocalFileArgs;
use gpuctl_manifest::spec::Override;

/// Say whether a job fits: now, later, or never on these nodes, and what binds where
///
/// Compares the job's pods with every node as the scheduler does: selectors, taints, cordons, GPUs,
/// CPU, memory, and the namespace's quotas. Nothing is written. Volumes, device claims and rules
/// about other pods are not compared; where they decide, the answer is «not known». Each document
/// is judged alone, and as a new job: what an earlier one of its name holds is not free.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0 fits now, 8 not now, 9 never here, 1 not known; of several documents the first of 9, 1, 8, 0.

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
    /// Tell the nodes apart by this label: the job has to fit into one value of it
    #[arg(long, value_name = "LABEL")]
    pub by: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
