//! Adds live metrics to queues. Only gpuctl's jobs have metrics, so GPUs of other workloads count
//! as used but not as measured.

use super::live;
use gpuctl_cluster::{Connection, Failure, JobFilter};
use gpuctl_core::model::Queue;
use gpuctl_core::stats::exporters::devices::ExporterReading;
use gpuctl_view::queues::list::QueueRow;

/// Adds to each queue the mean metrics of the devices that its jobs hold. The means are unknown
/// without metrics, or if the user may not list jobs.
pub(crate) async fn rows(
    connection: &Connection,
    namespace: Option<&str>,
    queues: Vec<Queue>,
    reading: Option<&ExporterReading>,
) -> Result<Vec<QueueRow>, Failure> {
    let without_figures = |queues: Vec<Queue>| {
        queues
            .into_iter()
            .map(|queue| QueueRow {
                queue,
                figures: None,
            })
            .collect()
    };
    let Some(reading) = reading else {
        return Ok(without_figures(queues));
    };
    let selector = JobFilter {
        namespace: namespace.map(ToOwned::to_owned),
        ..JobFilter::default()
    };
    let selection = match connection.jobs().list(&selector).await {
        Ok(selection) => selection,
        Err(failure) if failure.is_forbidden() => return Ok(without_figures(queues)),
        Err(failure) => return Err(failure),
    };
    let jobs = &selection.jobs;
    let readings = live::job_readings(reading, jobs.iter());
    let listed_namespace = namespace.or(selection.narrowed_to.as_deref());
    let row = |queue: Queue| {
        // A mean over only some of the queue's jobs would be misleading.
        let is_complete = selection.unreadable.is_empty()
            && listed_namespace.is_none_or(|listed_namespace| {
                queue.namespace.as_deref() == Some(listed_namespace)
            });
        let figures = is_complete
            .then(|| live::figures_of_all(&readings, jobs.iter().filter(|job| job.is_in(&queue))));
        QueueRow { queue, figures }
    };
    Ok(queues.into_iter().map(row).collect())
}
