//! Arguments and help for `gpuctl logs`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use regex::Regex;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;
use crate::cli::args::selection::JobSelection;
use crate::cli::candidates;

/// Print the logs of jobs, with all pods merged by time
///
/// With -f, it follows the logs until the job ends, across restarts and broken connections, without
/// losing or repeating a line. It also prints the logs of pods that start later. It exits with 0 if
/// the job completed, and with 10 if it failed or was deleted. Services and notebooks end only when
/// they are deleted, and the exit code is then 0.
///
/// With several jobs, each line begins with the name of its job. `-l`, `--mine` and `--status`
/// select the jobs once, at the start. -f follows all of them, and exits with 10 if any failed.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl logs qwen2-7b-sft -f
  gpuctl logs qwen2-7b-sft --rank 3 --tail 1000 --grep 'loss|nan'
  gpuctl logs qwen2-7b-sft --previous -o json
  gpuctl logs 'sweep-*' -f                    follow all jobs of a sweep
  gpuctl logs --mine --status failed --tail 5
  gpuctl logs qwen2-7b-sft --first-error      which rank failed first, and its error")]
pub(crate) struct Logs {
    #[command(flatten)]
    pub jobs: JobSelection,
    /// Follow until the job ends
    #[arg(short, long)]
    pub follow: bool,
    /// Print only the last N lines of each job; with --grep, the last N matching lines
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub tail: u32,
    /// Print only lines since this time: RFC 3339, Unix seconds, a span before now such as 1h, or
    /// yesterday
    #[arg(long, visible_alias = "start", value_name = "TIME")]
    pub since: Option<String>,
    /// Print only lines that match this regular expression
    #[arg(long, value_name = "REGEX")]
    pub grep: Option<Regex>,
    /// Print only the log of this pod
    #[arg(long, value_name = "NAME", conflicts_with = "rank", add = ArgValueCandidates::new(candidates::pod_names))]
    pub pod: Option<String>,
    /// Print only the log of this rank of a training job, or of the service's pod with this index,
    /// from 0
    #[arg(long, value_name = "N")]
    pub rank: Option<u32>,
    /// Container to read instead of the job's own
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// Print only the error that ended the pod that failed first, with the 30 lines before it; reads
    /// the last 20,000 lines of each pod
    #[arg(long, conflicts_with_all = ["follow", "grep", "tail", "timestamps", "raw"])]
    pub first_error: bool,
    /// Prefix each line with its timestamp
    #[arg(long)]
    pub timestamps: bool,
    /// Print the log of the previous attempt, from the earlier pod of each rank
    #[arg(short, long, conflicts_with = "follow")]
    pub previous: bool,
    /// Print raw lines, with carriage returns and all escape sequences
    #[arg(long)]
    pub raw: bool,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
