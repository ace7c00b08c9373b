//! Arguments and help for `gpuctl delete`.

use std::time::Duration;

use clap::{Arg, Args};
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;
use crate::cli::args::selection::JobSelection;
use crate::cli::args::submit::dry_run;
use crate::cli::args::value::duration;
use crate::cli::{candidates, command};
use crate::deploy::delete::DeleteOptions;
use gpuctl_cluster::DryRun;

/// Delete jobs, pools, quotas or the site's defaults
///
/// Waits until the pods have ended, because they hold their GPUs until then. Keeps and lists the
/// volume claims created by `size:`, with their data. --purge deletes them too, and asks first on a
/// terminal. `gpuctl delete NAME` is short for `gpuctl delete job NAME`.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  gpuctl delete qwen2-7b-sft
  gpuctl delete job a b c --force
  gpuctl delete 'trial-*' --dry-run
  gpuctl delete --mine --status failed --yes
  gpuctl delete pool training-pool
  gpuctl delete -f job.yaml"
)]
pub(crate) struct Delete {
    #[command(subcommand)]
    pub what: Option<command::Delete>,
    /// Delete the objects in these files; - reads stdin
    #[arg(short, long = "filename", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub files: Vec<String>,
    #[command(flatten)]
    pub options: DeleteArgs,
}

/// Adapts the help of shared options to jobs. Options for other kinds are hidden, but scripts may
/// still pass them.
fn for_jobs(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "keep_labels" => arg.hide(true),
        "force" => arg.help("Skip the containers' grace period"),
        "purge" => arg.help("Also delete the job's volume claims and their data"),
        _ => arg,
    }
}

fn for_pools(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "purge" | "yes" | "no_wait" | "timeout" => arg.hide(true),
        "force" => arg.help("Delete pools even if jobs use them"),
        "ignore_not_found" => arg.help("Do not fail if the pool does not exist"),
        _ => arg,
    }
}

fn for_quotas(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "force" | "yes" | "keep_labels" | "no_wait" | "timeout" => arg.hide(true),
        "purge" => arg.help("Also delete the empty namespaces that gpuctl created"),
        "ignore_not_found" => arg.help("Do not fail if the quota does not exist"),
        _ => arg,
    }
}

fn for_defaults(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "force" | "purge" | "yes" | "keep_labels" | "no_wait" | "timeout" => arg.hide(true),
        "ignore_not_found" => arg.help("Do not fail if there are no defaults"),
        _ => arg,
    }
}

#[derive(Args, Debug)]
#[command(mut_args(for_pools))]
pub(crate) struct PoolNames {
    /// Pools
    #[arg(required = true, value_parser = crate::cli::args::value::object_name, add = ArgValueCandidates::new(candidates::pool_names))]
    pub names: Vec<String>,
    #[command(flatten)]
    pub options: DeleteArgs,
}

#[derive(Args, Debug)]
#[command(mut_args(for_quotas))]
pub(crate) struct QuotaNames {
    /// Quotas, by their `quota.name`
    #[arg(required = true, value_parser = crate::cli::args::value::object_name, add = ArgValueCandidates::new(candidates::quota_names))]
    pub names: Vec<String>,
    #[command(flatten)]
    pub options: DeleteArgs,
}

impl Delete {
    /// The task in `auth check`, or `None` if the files determine the task.
    pub(crate) fn task(&self) -> Option<&'static str> {
        self.what.as_ref()?.task()
    }
}

#[derive(Args, Debug)]
#[command(mut_args(for_defaults))]
pub(crate) struct DeleteDefaults {
    #[command(flatten)]
    pub options: DeleteArgs,
}

#[derive(Args, Debug)]
#[command(mut_args(for_jobs))]
pub(crate) struct JobNames {
    #[command(flatten)]
    pub jobs: JobSelection,
    /// Delete the job only if it has this UID; agents set it to the job they saw
    #[arg(long, hide = true, require_equals = true, value_name = "UID")]
    pub only_uid: Option<String>,
    #[command(flatten)]
    pub options: DeleteArgs,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct DeleteArgs {
    /// Skip the containers' grace period; for pools, delete them even if jobs use them
    #[arg(long)]
    pub force: bool,
    /// Also delete the job's volume claims and their data; for quotas, also the empty namespaces
    /// that gpuctl created
    #[arg(long)]
    pub purge: bool,
    /// Do not ask before deleting data, or jobs that were not named one by one
    #[arg(short, long)]
    pub yes: bool,
    /// Show what would be deleted; `server` also lets the API server check it
    #[arg(long, value_parser = dry_run(), value_name = "WHERE", num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub dry_run: Option<DryRun>,
    /// Keep the pool's labels on its nodes
    #[arg(long)]
    pub keep_labels: bool,
    /// Do not wait until the pods have ended
    #[arg(long)]
    pub no_wait: bool,
    /// Do not fail if the job does not exist
    #[arg(long)]
    pub ignore_not_found: bool,
    /// How long to wait for the pods to end
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    pub timeout: Duration,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}

impl DeleteArgs {
    /// Converts the arguments to the options for deleting jobs.
    pub(crate) fn of_job(&self) -> DeleteOptions {
        let Self {
            force,
            purge,
            yes,
            no_wait,
            ignore_not_found,
            timeout,
            dry_run,
            ..
        } = *self;
        DeleteOptions {
            force,
            purge,
            ask: purge && !yes && dry_run.is_none(),
            no_wait,
            ignore_not_found,
            timeout,
            only_uid: None,
            dry_run,
        }
    }
}
