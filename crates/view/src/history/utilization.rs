//! Utilization during an hour, as in the rows of `stats`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::format::coverage::rounded;
use gpuctl_core::model::Percent;
use gpuctl_core::stats::history::hourly::{Sum, ValueSummary};

/// The utilization during one hour in percent; `null` where nothing was measured.
#[derive(Clone, Debug, Default, JsonSchema, Serialize, Deserialize)]
pub(crate) struct Utilization {
    pub avg_utilization: Option<Percent>,
    pub(crate) max_utilization: Option<Percent>,
    pub(crate) min_utilization: Option<Percent>,
    pub(crate) p50_utilization: Option<Percent>,
    pub(crate) p95_utilization: Option<Percent>,
}

impl From<Option<&ValueSummary<Percent>>> for Utilization {
    fn from(summary: Option<&ValueSummary<Percent>>) -> Self {
        let value_of =
            |field: fn(&ValueSummary<Percent>) -> Percent| summary.map(field).map(rounded);
        Self {
            avg_utilization: value_of(|summary| summary.mean),
            max_utilization: value_of(|summary| summary.max),
            min_utilization: value_of(|summary| summary.min),
            p50_utilization: value_of(|summary| summary.p50),
            p95_utilization: value_of(|summary| summary.p95),
        }
    }
}

/// The utilization of a group of GPUs, both over its five-minute windows and over the individual
/// samples of its devices.
#[derive(Clone, Debug, Default, JsonSchema, Serialize, Deserialize)]
pub(crate) struct GroupUtilization {
    #[serde(flatten)]
    pub windows: Utilization,
    sample_count: usize,
    pub(crate) device_sample_count: usize,
    device_p50_utilization: Option<Percent>,
    device_p95_utilization: Option<Percent>,
}

impl From<Option<&Sum>> for GroupUtilization {
    fn from(sum: Option<&Sum>) -> Self {
        let samples = sum.and_then(|sum| sum.samples.as_ref());
        Self {
            windows: Utilization::from(sum.and_then(|sum| sum.windows.as_ref())),
            sample_count: sum
                .and_then(|sum| sum.windows)
                .map_or(0, |windows| windows.count),
            device_sample_count: samples.map_or(0, |samples| samples.count),
            device_p50_utilization: samples.map(|samples| rounded(samples.p50)),
            device_p95_utilization: samples.map(|samples| rounded(samples.p95)),
        }
    }
}
