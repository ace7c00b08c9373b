//! Arguments that select jobs, for every command that works with several jobs.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::value::selector;
use crate::cli::candidates;
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
    /// Only jobs whose labels match, as team=nlp
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
    /// Whether the jobs are named one by one, so that a missing one is an error.
    pub(crate) fn is_by_name(&self) -> bool {
        self.selector.is_none()
            && !self.mine
            && self.status.is_none()
            && !self.names.iter().any(|name| is_pattern(name))
    }
}

/// Whether a name contains wildcards of the shell.
pub(crate) fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?'])
}
