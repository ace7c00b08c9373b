//! Arguments and help of `gpuctl why`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::candidates;

/// Say why a job waits, died, hangs or is slow: causes with evidence, and commands that help
///
/// Looks at the job, its pods, events, queue, quotas and volumes, and compares its pods with every
/// node as the scheduler does; of a job that runs it compares what its GPUs did in the last ten
/// minutes. The first cause is the one whose removal alone would change most. What cannot be told
/// from what is seen is `unknown`. Of a job that is deleted it tells what kube-state-metrics kept
/// in Prometheus. docs/why.md explains each cause.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl why llama3-8b
  gpuctl why team-a/llama3-8b -o json
  gpuctl why deployment/web          a workload that gpuctl did not make
  gpuctl why llama3-8b --stacks      where each of its ranks stands
  gpuctl why --all                   every job that waits or died")]
pub(crate) struct WhyArgs {
    /// Job, pod or workload, as NAME, NAMESPACE/NAME, KIND/NAME or NAMESPACE/KIND/NAME
    #[arg(add = ArgValueCandidates::new(candidates::job_names), required_unless_present = "all", conflicts_with = "all")]
    pub name: Option<String>,
    /// Every job that waits or died, those with most GPUs first
    #[arg(long)]
    pub all: bool,
    /// Ask NCCL (2.24 and later) in the job which of its ranks answer: a question to port 28028 of
    /// a pod, of three at most
    ///
    /// RAS collects from every rank for some seconds. It is meant for jobs that run; one that is
    /// crashing may be disturbed by it.
    #[arg(long, conflicts_with = "all")]
    pub ras: bool,
    /// Read where each rank stands, with py-spy or gdb of its image; this stops each process for a
    /// moment
    #[arg(long, conflicts_with = "all")]
    pub stacks: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
