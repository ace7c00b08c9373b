//! Arguments and help for `gpuctl convert`.

use clap::Args;

/// Convert job files of other tools: Kubernetes, Kubeflow, Slurm, SkyPilot, dstack
///
/// Anything that cannot be converted is listed as a comment in the result and as a warning on
/// stderr.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl convert job.yaml > train.yaml
  gpuctl convert train.sbatch --image pytorch/pytorch:2.9.0
  kubectl get job bert -o yaml | gpuctl convert -")]
pub(crate) struct Convert {
    /// File, or - for stdin
    #[arg(short, long = "filename", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub file: String,
    /// Container image, for scripts that name none
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// Output format; json also lists what each document leaves out
    #[arg(short, long, value_parser = ["yaml", "json"], default_value = "yaml", value_name = "FORMAT")]
    pub output: String,
}
