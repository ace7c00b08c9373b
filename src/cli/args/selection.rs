//! Arguments that select jobs, for commands that accept several jobs.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;
use crate::cli::args::submit::dry_run;
use crate::cli::args::value::selector;
use crate::cli::candidates;
use gpuctl_cluster::DryRun;
use gpuctl_core::model::values::selector::Selector;

/// Which jobs a command applies to. Names and filters combine: a job must match both.
#[derive(Args, Debug)]
pub(crate) struct JobSelection {
    /// Jobs, as NAME, NAMESPACE/NAME or a quoted pattern such as 'trial-*'
    #[arg(
        value_name = "NAME",
        required_unless_present_any = ["selector", "mine", "status"],
        add = ArgValueCandidates::new(candidates::job_names)
    )]
    pub names: Vec<String>,
    /// Only jobs whose labels match, such as team=nlp
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = selector)]
    pub selector: Option<Selector>,
    /// Only jobs submitted by you
    #[arg(long)]
    pub mine: bool,
    /// Only jobs in this state
    #[arg(long, value_name = "STATUS", value_parser = ["pending", "running", "succeeded", "failed", "paused", "terminating", "unknown"])]
    pub status: Option<String>,
}

impl JobSelection {
    /// The name, if the selection is exactly one plain name.
    pub(crate) fn one_name(&self) -> Option<&str> {
        match &self.names[..] {
            [name] if self.is_by_name() => Some(name),
            _ => None,
        }
    }

    /// Returns true if every job is named, so that a missing job is an error.
    pub(crate) fn is_by_name(&self) -> bool {
        self.selector.is_none()
            && !self.mine
            && self.status.is_none()
            && !self.names.iter().any(|name| is_pattern(name))
    }
}

/// How to change the selected jobs.
#[derive(Args, Debug)]
pub(crate) struct ChangeArgs {
    #[command(flatten)]
    pub jobs: JobSelection,
    /// Show the result without changing anything; `server` also lets the API server check it
    #[arg(long, value_parser = dry_run(), value_name = "WHERE", num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub dry_run: Option<DryRun>,
    /// Do not ask before changing jobs that were not named one by one
    #[arg(short, long)]
    pub yes: bool,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}

/// Returns true if a name contains shell wildcards.
pub(crate) fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?'])
}
