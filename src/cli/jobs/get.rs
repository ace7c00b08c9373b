//! Arguments and help for `gpuctl get jobs`.

use clap::{Args, ValueEnum};
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::list::ListArgs;
use crate::cli::args::output::JobListParser;
use crate::cli::args::value::selector;
use crate::cli::candidates;
use gpuctl_core::model::values::field_selector::FieldSelector;
use gpuctl_core::model::values::selector::Selector;

/// List jobs with their state
///
/// The state comes from the pods, so a job is running when all its pods are running. Without -n,
/// lists all namespaces that you can read.
///
/// -o spec prints the YAML that each job was submitted with, ready for `gpuctl create -f -`. Local
/// files of `files:` are not part of it: a comment names them and the commands that restore them.
#[derive(Args, Debug)]
#[command(
    mut_arg("output", |output| output.value_parser(JobListParser)),
    after_help = "Examples:
  gpuctl get jobs
  gpuctl get job qwen2-7b-sft
  gpuctl get jobs -l team=nlp -n team-a
  gpuctl get jobs --status pending --pool training-pool
  gpuctl get jobs --all-contexts --mine
  gpuctl get jobs -o custom-columns=NAME:.jobId,GPUS:.gpuHeld --no-headers
  gpuctl get job qwen2-7b-sft -o spec > job.yaml
  gpuctl get jobs --at yesterday --mine
  gpuctl get jobs --mine -o json | jq '.items[] | select(.status == \"failed\")'"
)]
pub(crate) struct GetJobs {
    /// Jobs, as NAME or NAMESPACE/NAME [default: all]
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(candidates::job_names))]
    pub names: Vec<String>,
    /// List only jobs of this kind
    #[arg(long, value_name = "KIND", value_parser = ["training", "inference", "notebook", "compute"])]
    pub kind: Option<String>,
    /// List only jobs in this pool
    #[arg(long, value_name = "NAME", value_parser = crate::cli::args::value::object_name, add = ArgValueCandidates::new(candidates::pool_names))]
    pub pool: Option<String>,
    /// List only jobs in this state
    #[arg(long, value_name = "STATUS", value_parser = ["pending", "running", "succeeded", "failed", "paused", "terminating", "unknown"])]
    pub status: Option<String>,
    /// List only jobs whose labels match, for example team=nlp
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = selector)]
    pub selector: Option<Selector>,
    /// List only jobs whose fields match: metadata.name and metadata.namespace, with =, == and !=
    #[arg(long, value_name = "SELECTOR", value_parser = FieldSelector::parse)]
    pub field_selector: Option<FieldSelector>,
    /// List only jobs submitted by you
    #[arg(long)]
    pub mine: bool,
    /// Show the labels of each job in the last column
    #[arg(long)]
    pub show_labels: bool,
    /// Do not read logs for the PROGRESS column
    #[arg(long)]
    pub no_progress: bool,
    /// Show all workloads at a time in the past, from Prometheus: RFC 3339, Unix seconds, or a span
    /// before now such as 2h. With --mine, only those whose recorded user is you
    #[arg(long, value_name = "TIME", conflicts_with_all = ["names", "selector", "field_selector", "show_labels", "kind", "pool", "status", "sort_by", "page", "page_size", "watch"])]
    pub at: Option<String>,
    /// List the jobs of all kubeconfig contexts; a context that cannot be read is skipped with a
    /// warning
    #[arg(long, conflicts_with_all = ["at", "watch"])]
    pub all_contexts: bool,
    #[command(flatten)]
    pub list: ListArgs<JobSortKey>,
}

impl GetJobs {
    /// Returns true if the arguments select only some of the jobs.
    pub(crate) fn is_filtered(&self) -> bool {
        !self.names.is_empty()
            || self.kind.is_some()
            || self.pool.is_some()
            || self.status.is_some()
            || self.selector.is_some()
            || self.field_selector.is_some()
            || self.mine
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum JobSortKey {
    Name,
    Age,
    Status,
    Gpu,
    Kind,
}
