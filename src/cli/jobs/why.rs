//! Arguments and help for `gpuctl why`.

use clap::Args;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;
use crate::cli::args::selection::JobSelection;

/// Explain why a job is waiting, failed, hung or slow: causes, evidence, and commands that may help
///
/// Reads the job, its pods, events, queue, quotas and volumes, and compares its pods with every
/// node as the scheduler does. For a running job it also compares its GPUs over the last ten
/// minutes. Causes are sorted by impact: fixing the first helps most. Reports `unknown` when the
/// evidence is not conclusive. For a deleted job it uses what kube-state-metrics recorded in
/// Prometheus. docs/why.md explains each cause.
///
/// With several jobs, it prints one answer per job, separated by `---`, and -o json prints a list.
/// Patterns and filters select gpuctl jobs.
#[derive(Args, Debug)]
#[command(
    mut_arg("names", |names| {
        names
            .required_unless_present("all")
            .conflicts_with("all")
            .help(
                "Jobs, pods or workloads, as NAME, NAMESPACE/NAME, KIND/NAME, \
                 NAMESPACE/KIND/NAME, or a quoted pattern such as 'trial-*'",
            )
    }),
    mut_arg("selector", |filter| filter.conflicts_with("all")),
    mut_arg("mine", |filter| filter.conflicts_with("all")),
    mut_arg("status", |filter| filter.conflicts_with("all")),
    after_help = "Examples:
  gpuctl why llama3-8b
  gpuctl why team-a/llama3-8b -o json
  gpuctl why deployment/web          a workload that gpuctl did not create
  gpuctl why llama3-8b --stacks      what code each of its ranks is executing
  gpuctl why 'sweep-*' --status failed      each failed job of a sweep
  gpuctl why --all                   every job that waits, failed, hangs or is slow"
)]
pub(crate) struct WhyArgs {
    #[command(flatten)]
    pub jobs: JobSelection,
    /// Explain every job and every workload with GPUs that waits, failed, hangs or is slow, grouped
    /// by cause; without -n in all namespaces
    #[arg(long)]
    pub all: bool,
    /// Ask the job's NCCL (2.24 or later) which ranks respond, by querying port 28028 of at most
    /// three pods
    ///
    /// NCCL's RAS subsystem takes a few seconds to collect data from every rank. Use it for running
    /// jobs, because it may disturb a job that is crashing.
    #[arg(long, conflicts_with = "all")]
    pub ras: bool,
    /// Show which code each rank is executing, using py-spy or gdb from its image; this briefly
    /// pauses each process
    #[arg(long, conflicts_with = "all")]
    pub stacks: bool,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
