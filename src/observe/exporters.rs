//! Reads GPU metrics directly from exporter pods, once and only for the displayed nodes. This is
//! the fallback for clusters without Prometheus.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::concurrent::OrderedConcurrent;
use crate::context::Context;
use gpuctl_cluster::{Connection, ExporterPod, Failure};
use gpuctl_core::stats::exporters::devices::ExporterReading;
use gpuctl_core::stats::exporters::exposition;

/// Maximum number of nodes whose exporters are queried.
pub(crate) const MAX_NODES: usize = 50;
/// Number of exporters to query concurrently.
const MAX_CONCURRENT: usize = 25;
/// Timeout for a single exporter.
const EXPORTER_TIMEOUT: Duration = Duration::from_secs(4);

/// Metrics from exporter pods, and the nodes that they cover.
pub(crate) struct DirectReading {
    pub reading: ExporterReading,
    pub nodes: usize,
}

/// Why no exporter returned metrics.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExporterError {
    #[error("no GPU exporter runs on these nodes")]
    None,
    #[error("an exporter did not respond in time")]
    TooSlow,
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// Queries the exporters on these nodes, up to [`MAX_NODES`]. Fails only if no exporter responds.
pub(crate) async fn read(
    context: &Context,
    connection: &Connection,
    nodes: &BTreeSet<String>,
) -> Result<DirectReading, ExporterError> {
    let pods = connection.metrics().exporter_pods().await?;
    let pods: Vec<ExporterPod> = pods
        .into_iter()
        .filter(|pod| nodes.contains(&pod.node))
        .collect();
    if pods.is_empty() {
        return Err(ExporterError::None);
    }
    let now = context.now().as_millisecond();
    let read_pod = async |pod: &ExporterPod| {
        let response =
            tokio::time::timeout(EXPORTER_TIMEOUT, connection.metrics().exposed_by(pod)).await;
        let text = response.map_err(|_| ExporterError::TooSlow)??;
        Ok::<_, ExporterError>(exposition::read(&text, &pod.node, now))
    };
    let results = OrderedConcurrent::new(pods.iter().map(read_pod), MAX_CONCURRENT)
        .all()
        .await;
    // Show the nodes whose exporters respond, even if other exporters fail.
    let (mut values, mut count, mut last_error) = (Vec::new(), 0, None);
    for result in results {
        match result {
            Ok(series) => {
                count += 1;
                values.extend(series);
            }
            Err(failure) => last_error = Some(failure),
        }
    }
    match last_error {
        Some(error) if count == 0 => Err(error),
        _ => Ok(DirectReading {
            reading: ExporterReading {
                values,
                ..ExporterReading::default()
            },
            nodes: count,
        }),
    }
}
