//! Reads the logs of a dead job for the error that ended it.

use std::time::Duration;

use crate::observe::first_error::{PodLogFindings, first_error};
use gpuctl_cluster::{Connection, LogQuery};
use gpuctl_core::model::values::text::count;
use gpuctl_core::model::{Job, Pod};
use gpuctl_diagnosis::{LastMessage, first_failed, log_gap};

/// Maximum number of pods whose logs are read.
const MAX_LOGS: usize = 64;
/// Timeout for all logs together.
const LOGS_TIMEOUT: Duration = Duration::from_secs(5);

/// Searches the logs of terminated pods for the first error and the last checkpoint before it.
pub(crate) async fn log_evidence(connection: &Connection, job: &Job) -> Option<Vec<LastMessage>> {
    // A pod that never started has no log.
    let pods = job
        .current_pods()
        .into_iter()
        .filter(|pod| pod.ended() && pod.started_at.is_some());
    let terminated: Vec<Pod> = pods.take(MAX_LOGS).cloned().collect();
    let container = terminated.first()?.own_container().to_owned();
    let query = LogQuery {
        container,
        ..LogQuery::default()
    };
    let findings = tokio::time::timeout(
        LOGS_TIMEOUT,
        first_error(connection, &job.namespace, &terminated, &query),
    )
    .await
    .ok()?;
    let mut evidence = Vec::new();
    if findings.first.is_none() {
        evidence.extend(missing_log(job, &findings));
    }
    if let Some(first) = findings.first {
        let rank_name = first
            .pod
            .rank
            .map_or(first.pod.name.clone(), |rank| format!("rank {rank}"));
        let repeats = if first.same > 0 {
            format!(" (the same on {} more)", first.same)
        } else {
            String::new()
        };
        evidence.push(LastMessage {
            text: format!(
                "the first error in the logs, from {rank_name}: {}{repeats}",
                first.error.line.trim()
            ),
            pod: Some(first.pod.name.clone()),
            at: first.error.at,
        });
    }
    let ended_at = terminated.iter().filter_map(|pod| pod.ended_at).max();
    if let Some((checkpoint, end)) = findings
        .checkpoint
        .zip(ended_at)
        .filter(|(checkpoint, end)| end > checkpoint)
    {
        let minutes = u64::try_from((end.as_second() - checkpoint.as_second()) / 60).unwrap_or(0);
        let text = format!(
            "{} of work since the last log line about a checkpoint",
            count(minutes, "minute")
        );
        evidence.push(LastMessage {
            text,
            pod: None,
            at: Some(checkpoint),
        });
    }
    Some(evidence)
}

/// Explains why the log of the pod that failed first, or of another pod, is missing.
fn missing_log(job: &Job, findings: &PodLogFindings) -> Option<LastMessage> {
    let lost = findings.lost.iter().map(|(pod, note)| (pod, note.clone()));
    let unread = findings
        .unread
        .iter()
        .map(|(pod, failure)| (pod, failure.to_string()));
    let missing: Vec<(&String, String)> = lost.chain(unread).collect();
    let first = first_failed(job).map(|pod| &pod.name);
    let (name, error) = missing
        .iter()
        .find(|(name, _)| Some(*name) == first)
        .or_else(|| missing.first().filter(|_| findings.read == 0))?;
    let pod = job.pods.iter().find(|pod| pod.name == **name)?;
    Some(LastMessage {
        text: log_gap(pod, error),
        pod: None,
        at: None,
    })
}
