//! Arguments and help for `gpuctl get heatmap`.

use clap::{Args, ValueEnum};

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;
use gpuctl_view::nodes::heatmap::HeatmapMetric;

/// Show the GPUs with the highest utilization, power or temperature
///
/// Prints a grid of all devices by node. With -o json, it prints the devices with the highest
/// values of each metric.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get heatmap
  gpuctl get heatmap --metric temperature
  gpuctl get heatmap --top 10 -o json")]
pub(crate) struct GetHeatmap {
    /// Keep watching; redraw on a terminal, or print one JSON object per change when piped
    #[arg(short, long)]
    pub watch: bool,
    /// Number of devices per metric in JSON
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub top: u32,
    /// Metric to show in the grid
    #[arg(long, value_enum, value_name = "METRIC", default_value_t)]
    pub metric: HeatmapMetricArg,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum HeatmapMetricArg {
    Power,
    Temperature,
    #[default]
    Utilization,
}

impl From<HeatmapMetricArg> for HeatmapMetric {
    fn from(shown: HeatmapMetricArg) -> Self {
        match shown {
            HeatmapMetricArg::Power => Self::Power,
            HeatmapMetricArg::Temperature => Self::Temperature,
            HeatmapMetricArg::Utilization => Self::Utilization,
        }
    }
}
