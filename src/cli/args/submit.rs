//! Options of commands that submit documents.

use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::deploy::options::Mode;
use crate::deploy::options::{DocumentKind, SubmitOptions, WaitGoal};
use gpuctl_cluster::DryRun;

use super::value::duration;

/// How to submit jobs
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SubmitArgs {
    /// Print the objects without sending them (client), or let the API server validate them too
    /// (server)
    #[arg(long, value_parser = dry_run(), value_name = "WHERE", num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub dry_run: Option<DryRun>,
    /// If creating a document fails partway, keep the objects already created
    #[arg(long)]
    pub keep_partial: bool,
    /// Move nodes to a pool even if they are in another pool
    #[arg(long)]
    pub force: bool,
    /// Let only administrators read pool definitions
    #[arg(long)]
    pub private: bool,
    /// Submit jobs even if the site's defaults cannot be read; the site's limits and enforced
    /// values then do not apply
    #[arg(long)]
    pub ignore_defaults: bool,
    /// For administrators: mark the namespace gpuctl-system as trusted, so that the site defaults
    /// stored there apply to jobs. Check first who can write to it: `gpuctl describe defaults`
    #[arg(long)]
    pub trust_namespace: bool,
    /// Submit jobs even if they can never run on the current cluster, because no node or quota is
    /// large enough or an object they name does not exist
    #[arg(long)]
    pub allow_pending: bool,
    /// Wait until the jobs are running (or complete); fail immediately if they cannot start
    #[arg(long, value_parser = goal(), value_name = "UNTIL", num_args = 0..=1, require_equals = true, default_missing_value = "running", conflicts_with = "dry_run")]
    pub wait: Option<WaitGoal>,
    /// Follow the training job's log until it ends, then exit with 0 if it completed, or 10 if it
    /// failed
    #[arg(long, conflicts_with_all = ["wait", "dry_run"])]
    pub follow: bool,
    /// How long --wait may take, and how long --follow waits for the job to start; the jobs are
    /// kept on timeout
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Submit nothing unless every document is of this kind; the tools of `gpuctl mcp` use it
    #[arg(long, hide = true, value_parser = only_kind(), value_name = "KIND")]
    pub only_kind: Option<DocumentKind>,
}

impl SubmitArgs {
    /// Returns true if the user typed any of these options.
    pub(crate) fn is_given(&self) -> bool {
        let flags =
            self.keep_partial || self.force || self.private || self.allow_pending || self.follow;
        let flags = flags || self.ignore_defaults || self.trust_namespace;
        flags || self.dry_run.is_some() || self.wait.is_some() || self.timeout.is_some()
    }

    /// Converts the arguments for the submit workflow. `mode` determines what happens to existing
    /// jobs.
    pub(crate) fn options(&self, mode: Mode) -> SubmitOptions {
        let Self {
            dry_run,
            keep_partial,
            force,
            private,
            allow_pending,
            wait,
            follow,
            timeout,
            only_kind,
            ..
        } = *self;
        let Self {
            ignore_defaults,
            trust_namespace,
            ..
        } = *self;
        SubmitOptions {
            mode,
            dry_run,
            keep_partial,
            force,
            private,
            ignore_defaults,
            trust_namespace,
            allow_pending,
            wait,
            follow,
            timeout,
            only_kind,
        }
    }
}

pub(crate) fn dry_run() -> impl TypedValueParser<Value = DryRun> {
    PossibleValuesParser::new(["client", "server"]).map(|word| {
        if word == "client" {
            DryRun::Client
        } else {
            DryRun::Server
        }
    })
}

fn goal() -> impl TypedValueParser<Value = WaitGoal> {
    PossibleValuesParser::new(["running", "complete"]).map(|word| {
        if word == "running" {
            WaitGoal::Running
        } else {
            WaitGoal::Complete
        }
    })
}

fn only_kind() -> impl TypedValueParser<Value = DocumentKind> {
    PossibleValuesParser::new(DocumentKind::WORDS)
        .map(|word| DocumentKind::from_word(&word).expect("the parser accepts these words only"))
}
