//! Arguments and help for `gpuctl open`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;
use crate::cli::candidates;

/// Open a notebook or service on this machine
///
/// Forwards a local port to the job and prints the URL. If the pod is replaced, new connections go
/// to its successor. Ctrl-C stops forwarding. The local port is the job's own port if that is free,
/// otherwise another free port. A notebook's token is printed only with --show-token.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl open data-prep --show-token
  gpuctl open llama3-8b --local-port 8000
  gpuctl open qwen2-7b-sft --target-port 6006")]
pub(crate) struct Open {
    /// Job, as NAME or NAMESPACE/NAME
    #[arg(add = ArgValueCandidates::new(candidates::job_names))]
    pub name: String,
    /// Local port; 0 chooses a free one
    #[arg(long, value_name = "PORT")]
    pub local_port: Option<u16>,
    /// Port of the pod to forward, instead of the job's own
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub target_port: Option<u16>,
    /// Rank of a training job, or index of a service's pod, from 0
    #[arg(long, value_name = "N", conflicts_with = "pod")]
    pub rank: Option<u32>,
    /// Connect to this pod
    #[arg(long, value_name = "NAME")]
    pub pod: Option<String>,
    /// Print the URL including the notebook's token
    #[arg(long)]
    pub show_token: bool,
    /// Open the URL in a browser; with --show-token, other users of this machine may see it while
    /// the browser starts
    #[arg(long)]
    pub browser: bool,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
