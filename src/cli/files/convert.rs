//! Arguments and help for `gpuctl convert`.

use clap::Args;

/// Convert job files from other tools: Kubernetes, Kubeflow, Slurm, SkyPilot, dstack
///
/// Anything that cannot be converted is listed as a comment in the result and as a warning on
/// stderr.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl convert job.yaml > train.yaml
  gpuctl convert train.sbatch --image pytorch/pytorch:2.9.0
  kubectl get job bert -o yaml | gpuctl convert -")]
pub(crate) struct Convert {
    /// File, or - for stdin; the -f is optional
    #[arg(short, long = "filename", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub file: String,
    /// Container image, for scripts that do not set one
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// Output format; json also lists what could not be converted in each document
    #[arg(short, long, value_parser = ["yaml", "json"], default_value = "yaml", value_name = "FORMAT")]
    pub output: String,
}
