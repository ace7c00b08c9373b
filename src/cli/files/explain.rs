//! Arguments and help for `gpuctl explain`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;
use crate::cli::candidates;

/// Describe a field of the specification file
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl explain training
  gpuctl explain training.resources.gpu
  gpuctl explain job.queue --server
  gpuctl explain service.health_check -o json")]
pub(crate) struct Explain {
    /// Field, optionally preceded by its kind
    #[arg(value_name = "FIELD", add = ArgValueCandidates::new(candidates::field_names))]
    pub field: String,
    /// Also show what this site's defaults set
    #[arg(long)]
    pub server: bool,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
