//! Arguments and help for `gpuctl who gpu`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;
use crate::cli::args::value::Expected;
use crate::cli::candidates;
use gpuctl_core::model::DeviceId;

/// Show which pod holds or held a GPU
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl who gpu gpu-a-01/3
  gpuctl who gpu gpu-a-01/3 --at 2026-01-31T03:00:00Z -o json
  gpuctl who gpu gpu-m-01/gpu-0/1g.10gb-7")]
pub(crate) struct WhoGpu {
    /// Node and index of the GPU, or of a MIG instance as in `describe node`
    #[arg(value_name = "NODE/INDEX", value_parser = gpu_location, add = ArgValueCandidates::new(candidates::device_names))]
    pub gpu: (String, DeviceId),
    /// Time in RFC 3339 or Unix seconds, a span before now such as 2h, or yesterday [default: now]
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}

pub(crate) fn gpu_location(text: &str) -> Result<(String, DeviceId), Expected> {
    let parts = text.split_once('/').filter(|(node, _)| !node.is_empty());
    parts
        .and_then(|(node, device)| Some((node.to_owned(), device.parse().ok()?)))
        .ok_or(Expected("a node and a GPU number, such as gpu-a-01/3"))
}
