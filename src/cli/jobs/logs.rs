//! Arguments and help for `gpuctl logs`.

use std::time::Duration;

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use regex::Regex;

use crate::cli::args::format::OneFormat;
use crate::cli::args::value::duration;
use crate::cli::candidates;

/// Print the logs of a job, all pods merged by time
///
/// With -f the logs are followed until the job ends, across restarts and broken connections,
/// without losing or repeating a line; pods that appear later join.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl logs qwen2-7b-sft -f
  gpuctl logs qwen2-7b-sft --rank 3 --tail 1000 --grep 'loss|nan'
  gpuctl logs qwen2-7b-sft --previous -o json
  gpuctl logs qwen2-7b-sft --first-error      which rank failed first, and with what")]
pub(crate) struct Logs {
    /// Job, as NAME or NAMESPACE/NAME
    #[arg(add = ArgValueCandidates::new(candidates::job_names))]
    pub name: String,
    /// Follow until the job ends
    #[arg(short, long)]
    pub follow: bool,
    /// Number of last lines to print; with --grep, of last matching lines
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub tail: u32,
    /// Only lines newer than this
    #[arg(long, visible_alias = "start", value_name = "TIME", value_parser = duration)]
    pub since: Option<Duration>,
    /// Only lines that match this regular expression
    #[arg(long, value_name = "REGEX")]
    pub grep: Option<Regex>,
    /// Only this pod
    #[arg(long, value_name = "NAME", conflicts_with = "rank", add = ArgValueCandidates::new(candidates::pod_names))]
    pub pod: Option<String>,
    /// Only this rank of a training, or the pod of a service with this index, from 0
    #[arg(long, value_name = "N")]
    pub rank: Option<u32>,
    /// Container to read instead of the job's own
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// Print only the earliest error of all pods, with the 30 lines before it; reads the last
    /// 20,000 lines of each pod
    #[arg(long, conflicts_with_all = ["follow", "grep", "tail", "timestamps", "raw"])]
    pub first_error: bool,
    /// Prefix each line with its timestamp
    #[arg(long)]
    pub timestamps: bool,
    /// Print the previous attempt: the earlier pod of each rank
    #[arg(short, long, conflicts_with = "follow")]
    pub previous: bool,
    /// Print raw lines, with carriage returns and all escape sequences
    #[arg(long)]
    pub raw: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
