//! Arguments and help for `gpuctl fit`.

use clap::Args;

use crate::cli::args::format::OneFormat;
use crate::cli::args::local::LocalFileArgs;
use crate::cli::args::output::output_format;
use gpuctl_manifest::spec::Override;

/// Check whether a job fits now, could fit later, or never will, and what limits it
///
/// Compares the job's pods with every node as the scheduler does (selectors, taints, cordons, GPUs,
/// CPU, memory and volumes), and checks the namespace's quotas. Nothing is created.
///
/// A volume limits the job to the nodes that can mount it. For a claim that does not exist yet, the
/// storage class decides. Not checked are the number of volumes that a node can attach, and the
/// free space on storage systems.
///
/// The answer is "not known" if you cannot read the volumes, if only the provisioner knows the zone
/// of a new volume, or if the job has affinity rules for other pods.
///
/// Each document is checked separately, as a new job. If a job with this name already exists, its
/// resources do not count as free.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0 if the job fits now, 8 if it does not fit now, 9 if it never fits on these nodes, 12 if not known. With several documents, the exit code is the worst result, in the order 9, 12, 8, 0. Other codes are errors.

Examples:
  gpuctl fit job.yaml
  gpuctl fit job.yaml --set resources.gpu=4 -o json
  gpuctl fit job.yaml --by topology.kubernetes.io/zone"
)]
pub(crate) struct FitArgs {
    /// File, folder of *.yaml files, or - for stdin; the -f is optional; may be repeated
    #[arg(short, long = "filename", required = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub files: Vec<String>,
    /// Override a field in every document, for example resources.gpu=4; may be repeated
    #[arg(long = "set", value_name = "FIELD=VALUE", value_parser = Override::parse)]
    pub sets: Vec<Override>,
    #[command(flatten)]
    pub local: LocalFileArgs,
    /// Group the nodes by this label; all pods of the job must run in one group
    #[arg(long, value_name = "LABEL")]
    pub by: Option<String>,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
