//! Arguments and help of `gpuctl apply`.

use clap::Args;

use crate::cli::args::format::OneFormat;
use crate::cli::args::submit::SubmitArgs;
use crate::spec::Override;

/// Make the cluster as files say: submit what is missing, change what differs
///
/// Replicas, autoscaling, labels, and the image of services change in place. The pods of a training cannot be changed: it
/// says what differs, and --replace submits it anew. What an autoscaler has scaled and what is paused stays so.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl apply -f service.yaml
  gpuctl apply -f jobs/ -n team-a
  gpuctl apply -f service.yaml --dry-run=server
  gpuctl apply -f train.yaml --replace
  gpuctl diff -f service.yaml")]
pub(crate) struct Apply {
    /// File, folder of *.yaml files, or - for stdin; may be repeated
    #[arg(short, long = "filename", required = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub files: Vec<String>,
    /// Change a field of every document, as resources.gpu=4; may be repeated
    #[arg(long = "set", value_name = "FIELD=VALUE", value_parser = Override::parse)]
    pub sets: Vec<Override>,
    /// Take a job that cannot be changed away, wait for its end, and submit it anew
    #[arg(long)]
    pub replace: bool,
    /// Overwrite fields that somebody else has set otherwise
    #[arg(long)]
    pub force_conflicts: bool,
    #[command(flatten)]
    pub submit: SubmitArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
