//! Arguments and help for `gpuctl create`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::args::local::LocalFileArgs;
use crate::cli::args::output::output_format;
use crate::cli::args::submit::SubmitArgs;
use crate::cli::{candidates, command};
use gpuctl_manifest::spec::Override;

/// Submit the jobs, pools, quotas and site defaults in files
///
/// Every document is validated before anything is written: first the YAML, with all problems
/// reported at once, then the objects and one pod, in a server-side dry run. If creating a document
/// fails partway, its objects are removed again.
///
/// --from submits a copy of an existing job, from the YAML and the local files stored in the
/// cluster. The copy is created in the namespace of -n, or else in the one that the YAML names, or
/// else in your own.
#[derive(Args, Debug)]
#[command(
    subcommand_negates_reqs = true,
    after_help = "Examples:
  gpuctl create -f job.yaml
  gpuctl create -f a.yaml -f b.yaml -n team-a
  gpuctl create -f job.yaml --set resources.gpu=4 --name qwen2-lr3
  gpuctl create -f job.yaml --dry-run=client -o yaml
  gpuctl create -f job.yaml --wait=complete --timeout 12h
  gpuctl create --from team-a/qwen2 --name qwen2-lr3 --set environment.env.LR=3e-4
  gpuctl create secret hub --from-env HF_TOKEN"
)]
pub(crate) struct Create {
    #[command(subcommand)]
    pub what: Option<command::Create>,
    /// File, folder of *.yaml files, or - for stdin; the -f is optional; may be repeated
    #[arg(short, long = "filename", required_unless_present = "from", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub files: Vec<String>,
    /// Copy this job, with the local files that it was submitted with: NAME or NAMESPACE/NAME
    #[arg(long, value_name = "NAME", conflicts_with_all = ["files", "allow_files_from"], add = ArgValueCandidates::new(candidates::job_names))]
    pub from: Option<String>,
    /// Override a field in every document, for example resources.gpu=4; may be repeated
    #[arg(long = "set", value_name = "FIELD=VALUE", value_parser = Override::parse)]
    pub sets: Vec<Override>,
    #[command(flatten)]
    pub local: LocalFileArgs,
    /// Override job.name; there must be exactly one job
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Append a random suffix to each job's name, so that a file can be submitted repeatedly
    #[arg(long)]
    pub generate_name: bool,
    #[command(flatten)]
    pub submit: SubmitArgs,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}

impl Create {
    /// The task in `auth check`, or `None` if the files determine the task.
    pub(crate) fn task(&self) -> Option<&'static str> {
        self.what.as_ref()?.task()
    }
}
