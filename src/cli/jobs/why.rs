//! Arguments and help for `gpuctl why`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::candidates;

/// Explain why a job waits, died, hangs or is slow: causes with evidence, and commands that help
///
/// Reads the job, its pods, events, queue, quotas and volumes, and compares its pods with every
/// node as the scheduler does. For a running job it also compares its GPUs over the last ten
/// minutes. The first cause is the one whose removal alone would change most. Reports `unknown`
/// when the evidence is not conclusive. For a deleted job it uses what kube-state-metrics recorded
/// in Prometheus. docs/why.md explains each cause.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl why llama3-8b
  gpuctl why team-a/llama3-8b -o json
  gpuctl why deployment/web          a workload that gpuctl did not create
  gpuctl why llama3-8b --stacks      where each of its ranks is executing
  gpuctl why --all                   every job that waits or died")]
pub(crate) struct WhyArgs {
    /// Job, pod or workload, as NAME, NAMESPACE/NAME, KIND/NAME or NAMESPACE/KIND/NAME
    #[arg(add = ArgValueCandidates::new(candidates::job_names), required_unless_present = "all", conflicts_with = "all")]
    pub name: Option<String>,
    /// Every job that waits or died, those with most GPUs first
    #[arg(long)]
    pub all: bool,
    /// Ask NCCL (2.24 and later) in the job which of its ranks respond: a request to port 28028 of
    /// at most three pods
    ///
    /// RAS collects data from every rank for some seconds. Use it for running jobs; it may disturb
    /// a job that is crashing.
    #[arg(long, conflicts_with = "all")]
    pub ras: bool,
    /// Show where each rank is executing, with py-spy or gdb of its image; this stops each process
    /// for a moment
    #[arg(long, conflicts_with = "all")]
    pub stacks: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
