//! Renders the pods of a job.

use std::collections::BTreeMap;

use colored::Color;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::{Figures, GpuCount, Job, Percent, Pod, PodPhase};

use crate::format::coverage::{memory_of, percent, rounded};
use crate::format::table::{Cell, Table, left, percentages, right};
use crate::format::text::age;
use crate::{Format, TextStyle};

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodDocument<'a> {
    name: &'a str,
    rank: Option<u32>,
    node: Option<&'a str>,
    status: String,
    ready: bool,
    gpu: GpuCount,
    restarts: u32,
    started_at: Option<Timestamp>,
    /// Mean utilization of its devices, in percent.
    gpu_utilization: Option<Percent>,
    memory_usage: Option<String>,
}

pub(crate) fn pod_document(pod: &Pod, figures: Option<Figures>) -> PodDocument<'_> {
    PodDocument {
        name: &pod.name,
        rank: pod.rank,
        node: pod.node.as_deref(),
        status: pod_status(pod),
        ready: pod.ready,
        gpu: pod.gpus,
        restarts: pod.restarts(),
        started_at: pod.started_at,
        gpu_utilization: figures.and_then(|figures| figures.utilization).map(rounded),
        memory_usage: figures.as_ref().and_then(memory_of),
    }
}

/// Describes the state of a pod in a few words.
fn pod_status(pod: &Pod) -> String {
    let terminated = pod
        .containers
        .iter()
        .find_map(|container| container.terminated.clone());
    let waiting = pod
        .containers
        .iter()
        .find_map(|container| container.waiting.as_ref());
    match (pod.phase, terminated, waiting) {
        (PodPhase::Succeeded, ..) => "succeeded".to_owned(),
        // If the program exited with 0 after the kubelet ended the pod, show the kubelet's reason,
        // such as `DeadlineExceeded`, because the pod has still failed.
        (PodPhase::Failed, Some(end), _) if end.code != 0 || pod.reason.is_none() => {
            format!("failed {} (exit {})", end.reason, end.code)
        }
        (PodPhase::Failed, ..) => format!("failed {}", pod.reason.as_deref().unwrap_or(""))
            .trim_end()
            .to_owned(),
        _ if pod.deleting => "terminating".to_owned(),
        (PodPhase::Running, _, Some((reason, _))) => format!("waiting {reason}"),
        (PodPhase::Running, Some(end), _) => format!("ended (exit {})", end.code),
        (PodPhase::Running, ..) => "running".to_owned(),
        (PodPhase::Unknown, ..) => "unknown".to_owned(),
        (PodPhase::Pending, _, Some((reason, _))) => format!("pending {reason}"),
        (PodPhase::Pending, ..) if pod.unscheduled.is_some() => {
            format!(
                "pending {}",
                pod.unscheduled.as_ref().map_or("", |(reason, _)| reason)
            )
        }
        (PodPhase::Pending, ..) => "pending".to_owned(),
    }
}

/// Renders the pods of the current attempt, with the number of attempts for trainings and of
/// restarts for servers.
pub fn table(
    job: &Job,
    style: TextStyle,
    now: Timestamp,
    figures: impl Fn(&Pod) -> Option<Figures>,
) -> String {
    if job.kind.serves() {
        return serving(job, style, now, figures);
    }
    let mut table = Table::new([
        left("PODS"),
        right("RANK"),
        left("NODE"),
        left("STATUS"),
        right("TRIES"),
        right("RUNS"),
        percentages("UTIL"),
    ]);
    // Count the pods of each rank, because every attempt creates a new pod.
    let mut tries: BTreeMap<Option<u32>, u32> = BTreeMap::new();
    job.pods
        .iter()
        .for_each(|pod| *tries.entry(pod.rank).or_default() += 1);
    let current = job.current_pods();
    for pod in &current {
        let color = if pod.phase == PodPhase::Failed {
            Some(Color::Red)
        } else {
            None
        };
        table.row(vec![
            pod.name.clone().into(),
            pod.rank
                .map_or("-".to_owned(), |rank| rank.to_string())
                .into(),
            pod.node.clone().unwrap_or_default().into(),
            Cell::colored(pod_status(pod), color),
            tries
                .get(&pod.rank)
                .copied()
                .unwrap_or(1)
                .to_string()
                .into(),
            age(
                pod.started_at.filter(|_| pod.phase == PodPhase::Running),
                now,
            )
            .into(),
            percent(figures(pod).and_then(|figures| figures.utilization)).into(),
        ]);
    }
    if current.is_empty() {
        String::new()
    } else {
        table.show(Format::Table, true, style)
    }
}

fn serving(
    job: &Job,
    style: TextStyle,
    now: Timestamp,
    figures: impl Fn(&Pod) -> Option<Figures>,
) -> String {
    let mut table = Table::new([
        left("PODS"),
        left("READY"),
        left("NODE"),
        left("STATUS"),
        right("RESTARTS"),
        right("RUNS"),
        percentages("UTIL"),
    ]);
    for pod in &job.pods {
        let color = if pod.ready || pod.ended() {
            None
        } else {
            Some(Color::Yellow)
        };
        table.row(vec![
            pod.name.clone().into(),
            Cell::colored(if pod.ready { "yes" } else { "no" }, color),
            pod.node.clone().unwrap_or_default().into(),
            Cell::colored(pod_status(pod), color),
            pod.restarts().to_string().into(),
            age(
                pod.started_at.filter(|_| pod.phase == PodPhase::Running),
                now,
            )
            .into(),
            percent(figures(pod).and_then(|figures| figures.utilization)).into(),
        ]);
    }
    if job.pods.is_empty() {
        String::new()
    } else {
        table.show(Format::Table, true, style)
    }
}
