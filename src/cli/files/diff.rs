//! Arguments and help for `gpuctl diff`.

use clap::Args;

use crate::cli::args::format::OneFormat;
use crate::cli::args::local::LocalFileArgs;
use crate::cli::args::output::output_format;
use gpuctl_manifest::spec::Override;

/// Show what `apply` would change
///
/// The API server computes the result in a dry run, so its defaults do not appear as differences.
/// Values that look like secrets are masked.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0 if there are no differences, 11 if there are (`kubectl diff` uses 1). Errors exit with the codes listed in `gpuctl help exit-codes`, and print nothing to stdout.

Examples:
  gpuctl diff -f service.yaml
  gpuctl diff -f jobs/ -o json
  gpuctl diff -f service.yaml --set service.replicas=4"
)]
pub(crate) struct Diff {
    /// File, folder of *.yaml files, or - for stdin; the -f is optional; may be repeated
    #[arg(short, long = "filename", required = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub files: Vec<String>,
    /// Override a field in every document, for example resources.gpu=4; may be repeated
    #[arg(long = "set", value_name = "FIELD=VALUE", value_parser = Override::parse)]
    pub sets: Vec<Override>,
    #[command(flatten)]
    pub local: LocalFileArgs,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
