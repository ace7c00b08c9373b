//! Arguments and help for `gpuctl create`.

use clap::Args;

use crate::cli::args::format::OneFormat;
use crate::cli::args::local::LocalFileArgs;
use crate::cli::args::submit::SubmitArgs;
use crate::cli::command;
use gpuctl_manifest::spec::Override;

/// Submit the jobs, pools, quotas and site defaults in files
///
/// Every document is validated before anything is written: first the YAML, with all problems
/// reported at once, then the objects and one pod, in a server-side dry run. If creating a document
/// fails partway, its objects are removed again.
#[derive(Args, Debug)]
#[command(
    subcommand_negates_reqs = true,
    after_help = "Examples:
  gpuctl create -f job.yaml
  gpuctl create -f a.yaml -f b.yaml -n team-a
  gpuctl create -f job.yaml --set resources.gpu=4 --name qwen2-lr3
  gpuctl create -f job.yaml --dry-run=client -o yaml
  gpuctl create -f job.yaml --wait=complete --timeout 12h
  gpuctl create secret hub --from-env HF_TOKEN"
)]
pub(crate) struct Create {
    #[command(subcommand)]
    pub what: Option<command::Create>,
    /// File, folder of *.yaml files, or - for stdin; the -f is optional; may be repeated
    #[arg(short, long = "filename", required = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub files: Vec<String>,
    /// Override a field in every document, for example resources.gpu=4; may be repeated
    #[arg(long = "set", value_name = "FIELD=VALUE", value_parser = Override::parse)]
    pub sets: Vec<Override>,
    #[command(flatten)]
    pub local: LocalFileArgs,
    /// Override job.name; the files must contain exactly one job
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Append a random suffix to each job's name, so that a file can be submitted repeatedly
    #[arg(long)]
    pub generate_name: bool,
    #[command(flatten)]
    pub submit: SubmitArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}

impl Create {
    /// Name in `auth check`; `None` if files decide.
    pub(crate) fn task(&self) -> Option<&'static str> {
        self.what.as_ref()?.task()
    }
}
