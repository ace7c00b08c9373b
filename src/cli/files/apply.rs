//! Arguments and help for `gpuctl apply`.

use clap::Args;

use crate::cli::args::format::OneFormat;
use crate::cli::args::local::LocalFileArgs;
use crate::cli::args::output::output_format;
use crate::cli::args::submit::SubmitArgs;
use gpuctl_manifest::spec::Override;

/// Create the objects in files, or update existing ones
///
/// A service's replicas, autoscaling, labels and image change in place. A training job's pods are
/// immutable, so `apply` prints the differences, and --replace resubmits the job. Replica counts
/// set by an autoscaler are kept, and paused jobs stay paused.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl apply -f service.yaml
  gpuctl apply -f jobs/ -n team-a
  gpuctl apply -f service.yaml --dry-run=server
  gpuctl apply -f train.yaml --replace
  gpuctl diff -f service.yaml")]
pub(crate) struct Apply {
    /// File, folder of *.yaml files, or - for stdin; the -f is optional; may be repeated
    #[arg(short, long = "filename", required = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub files: Vec<String>,
    /// Override a field in every document, for example resources.gpu=4; may be repeated
    #[arg(long = "set", value_name = "FIELD=VALUE", value_parser = Override::parse)]
    pub sets: Vec<Override>,
    #[command(flatten)]
    pub local: LocalFileArgs,
    /// Delete and resubmit a job whose changes cannot be applied in place
    #[arg(long)]
    pub replace: bool,
    /// Overwrite fields that another manager owns
    #[arg(long)]
    pub force_conflicts: bool,
    #[command(flatten)]
    pub submit: SubmitArgs,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
