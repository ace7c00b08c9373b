//! Arguments and help of `gpuctl wait`.

use std::time::Duration;

use clap::Args;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;
use crate::cli::args::selection::JobSelection;
use crate::cli::args::value::{Expected, duration};
use gpuctl_core::model::WaitCondition;

/// Wait until jobs run, end or are deleted
///
/// Exits with 0 when the condition is met, with 7 after the timeout, and with 10 if a job can no
/// longer meet the condition, for example because it failed. Keeps waiting while the API server is
/// down. Without a terminal, prints a line every minute. `-l`, `--mine` and `--status` select the
/// jobs once, at the start.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl wait qwen2-7b-sft
  gpuctl wait chat --for ready=2 --timeout 10m
  gpuctl wait -l sweep=lr --for ended --timeout 12h
  gpuctl wait 'trial-*' --any --for complete -o json")]
pub(crate) struct WaitArgs {
    #[command(flatten)]
    pub jobs: JobSelection,
    /// Condition: running, complete, failed, ended, deleted, or ready=N pods
    #[arg(
        long = "for",
        value_name = "CONDITION",
        default_value_t = WaitCondition::Complete,
        value_parser = condition
    )]
    pub condition: WaitCondition,
    /// Wait until any of the jobs meets the condition, instead of all
    #[arg(long)]
    pub any: bool,
    /// Give up after this time [default: never]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}

fn condition(text: &str) -> Result<WaitCondition, Expected> {
    text.parse().map_err(|()| {
        Expected(
            "one of running, complete, failed, ended, deleted, or ready=N with a number above 0",
        )
    })
}
