//! Series of devices over a whole range, which show how devices were divided in hours without
//! samples of an exporter.

use tokio::sync::OnceCell;

use gpuctl_core::model::{Series, UnixSeconds};
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::exporters::query;
use gpuctl_prometheus::{Prometheus, Window};

/// Maximum number of points per series, which limits the size of the response.
const MAX_POINTS: i64 = 48;

/// Minimum seconds between two points: the age up to which Prometheus repeats a sample.
const MIN_STEP: i64 = 300;

/// Series of a range, read only when they are needed.
pub(super) struct DeviceEvidence {
    since: UnixSeconds,
    until: UnixSeconds,
    series: OnceCell<Vec<Series>>,
}

impl DeviceEvidence {
    pub(super) fn new(since: UnixSeconds, until: UnixSeconds) -> Self {
        Self {
            since,
            until,
            series: OnceCell::new(),
        }
    }

    /// Returns a few points of each device in the range. Returns none if the store does not answer:
    /// units are then counted as without the evidence.
    pub(super) async fn series(&self, prometheus: &Prometheus<'_>) -> &[Series] {
        let read = async || {
            let window = Window {
                start: self.since,
                end: self.until,
                step: ((self.until - self.since) / MAX_POINTS).max(MIN_STEP),
            };
            let query = query::gauges(&[Quantity::Utilization], None);
            prometheus.range(&query, window).await.unwrap_or_default()
        };
        self.series.get_or_init(read).await
    }
}
