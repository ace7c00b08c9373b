//! `describe job`: everything about one job.

use std::collections::BTreeMap;

use colored::Color;
use jiff::Timestamp;
use serde::Serialize;

use crate::model::{Event, Job, Pod, PodPhase, State, quantity};

use super::Look;
use super::table::{Cell, Table, left, right};
use super::text::{age, bar, clean, count, paint, state, status_color};

/// What is known of a job.
#[derive(Clone, Debug)]
pub struct Description {
    pub job: Job,
    pub state: State,
    /// Percent.
    pub progress: Option<f64>,
    /// Oldest first.
    pub events: Vec<Event>,
    /// Objects of the job besides its pods, as `kind/name`.
    pub objects: Vec<String>,
}

/// The contract's job in JSON. `resources.gpu` is per pod, `gpuTotal` the product with the pods.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobDocument<'a> {
    job_id: &'a str,
    name: &'a str,
    namespace: &'a str,
    kind: &'static str,
    version: &'a str,
    yaml_content: Option<&'a str>,
    status: &'static str,
    reason: Option<&'a str>,
    message: Option<&'a str>,
    pool: Option<&'a str>,
    user: Option<&'a str>,
    resources: Resources<'a>,
    gpu_held: u64,
    progress: Option<u8>,
    metrics: Metrics,
    created_at: Option<Timestamp>,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    k8s_resources: KubernetesResources<'a>,
    pods: Vec<PodDocument<'a>>,
    conditions: Vec<ConditionDocument<'a>>,
    events: Vec<EventDocument<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Resources<'a> {
    gpu: u64,
    gpu_total: u64,
    gpu_type: Option<&'a str>,
    /// Whole or part of CPUs.
    cpu: Option<f64>,
    memory: Option<&'a str>,
    node_count: u32,
}

/// Measured values; all unknown without a metrics source.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Metrics {
    gpu_utilization: Option<f64>,
    memory_usage: Option<String>,
    network_latency: Option<String>,
    throughput: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct KubernetesResources<'a> {
    job_name: &'a str,
    pods: Vec<&'a str>,
    objects: &'a [String],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PodDocument<'a> {
    name: &'a str,
    rank: Option<u32>,
    node: Option<&'a str>,
    status: String,
    gpu: u64,
    restarts: u32,
    started_at: Option<Timestamp>,
}

#[derive(Serialize)]
struct ConditionDocument<'a> {
    r#type: &'a str,
    reason: &'a str,
    message: &'a str,
}

#[derive(Serialize)]
struct EventDocument<'a> {
    timestamp: Option<Timestamp>,
    warning: bool,
    reason: &'a str,
    message: &'a str,
    object: &'a str,
    count: u32,
}

/// The job as JSON.
#[must_use]
pub fn document(description: &Description) -> JobDocument<'_> {
    let Description { job, state, progress, events, objects } = description;
    JobDocument {
        job_id: &job.name,
        name: &job.display_name,
        namespace: &job.namespace,
        kind: job.kind.word(),
        version: &job.version,
        yaml_content: job.source.as_deref(),
        status: state.status.word(),
        reason: state.reason.as_deref(),
        message: state.message.as_deref(),
        pool: job.pool.as_deref(),
        user: job.user.as_deref(),
        resources: Resources {
            gpu: job.gpus_per_pod,
            gpu_total: job.gpus(),
            gpu_type: job.gpu_type.as_deref(),
            cpu: job.cpu.as_deref().and_then(quantity::milli).map(|milli| milli as f64 / 1000.0),
            memory: job.memory.as_deref(),
            node_count: job.pods_wanted,
        },
        gpu_held: job.gpus_held(),
        progress: progress.map(super::jobs::whole_percent),
        metrics: Metrics::default(),
        created_at: job.created_at,
        started_at: job.started_at(),
        finished_at: job.finished_at,
        k8s_resources: KubernetesResources {
            job_name: &job.name,
            pods: job.current_pods().into_iter().map(|pod| pod.name.as_str()).collect(),
            objects,
        },
        pods: job.current_pods().into_iter().map(pod_document).collect(),
        conditions: job
            .conditions
            .iter()
            .map(|(kind, (reason, message))| ConditionDocument { r#type: kind, reason, message })
            .collect(),
        events: events.iter().map(event_document).collect(),
    }
}

fn pod_document(pod: &Pod) -> PodDocument<'_> {
    PodDocument {
        name: &pod.name,
        rank: pod.rank,
        node: pod.node.as_deref(),
        status: pod_status(pod),
        gpu: pod.gpus,
        restarts: pod.restarts(),
        started_at: pod.started_at,
    }
}

fn event_document(event: &Event) -> EventDocument<'_> {
    EventDocument {
        timestamp: event.at,
        warning: event.warning,
        reason: &event.reason,
        message: &event.message,
        object: &event.object,
        count: event.count,
    }
}

/// What a pod does, in a word or two.
fn pod_status(pod: &Pod) -> String {
    let ended = pod.containers.iter().find_map(|container| container.terminated.clone());
    let waiting = pod.containers.iter().find_map(|container| container.waiting.as_ref());
    match (pod.phase, ended, waiting) {
        (PodPhase::Succeeded, ..) => "succeeded".to_owned(),
        (PodPhase::Failed, Some((code, reason)), _) => format!("failed {reason} (exit {code})"),
        (PodPhase::Failed, None, _) => format!("failed {}", pod.reason.as_deref().unwrap_or("")).trim_end().to_owned(),
        _ if pod.deleting => "terminating".to_owned(),
        (PodPhase::Running, ..) => "running".to_owned(),
        (PodPhase::Unknown, ..) => "unknown".to_owned(),
        (PodPhase::Pending, _, Some((reason, _))) => format!("pending {reason}"),
        (PodPhase::Pending, ..) if pod.unscheduled.is_some() => "pending Unschedulable".to_owned(),
        (PodPhase::Pending, ..) => "pending".to_owned(),
    }
}

/// The job for people: the answer first, the detail after.
#[must_use]
pub fn text(description: &Description, look: Look, now: Timestamp) -> String {
    let Description { job, state: found, progress, events, objects } = description;
    let status = paint(&state(found), status_color(found.status), look);
    let since =
        job.started_at().filter(|_| !found.status.is_final()).map_or(String::new(), |at| format!(" for {}", age(Some(at), now)));
    let pool = job.pool.as_deref().map_or(String::new(), |pool| format!(" / {}", clean(pool)));
    let mut text = format!("{}   {}   {status}{since}   {}{pool}\n", job.name, job.kind, job.namespace);
    let mut line = |name: &str, value: String| text.push_str(&format!("  {name:<10} {}\n", wrapped(&value, 13, look)));
    if let Some(message) = &found.message {
        line("why", clean(message).into_owned());
    }
    let kind = job.gpu_type.as_deref().map_or("GPU".to_owned(), |kind| clean(kind).into_owned());
    let nodes: std::collections::BTreeSet<&str> =
        job.pods.iter().filter(|pod| pod.holds()).filter_map(|pod| pod.node.as_deref()).collect();
    let held = match nodes.len() {
        0 => String::new(),
        _ => format!("; holds {} on {}", job.gpus_held(), nodes.into_iter().collect::<Vec<_>>().join(", ")),
    };
    line(
        "GPUs",
        format!("{} × {kind} in {} ({} each){held}", job.gpus(), count(job.pods_wanted.into(), "pod"), job.gpus_per_pod),
    );
    let cpu = job.cpu.as_deref().unwrap_or("-");
    line("per pod", format!("{cpu} CPU, memory {}", job.memory.as_deref().unwrap_or("-")));
    if let Some(percent) = progress {
        line("progress", bar(*percent, 20, look));
    }
    if let Some(user) = &job.user {
        line("user", clean(user).into_owned());
    }
    line("created", format!("{} ago", age(job.created_at, now)));
    if let Some(at) = job.finished_at {
        line("finished", format!("{} ago", age(Some(at), now)));
    }
    if !job.conditions.is_empty() {
        let condition = |(kind, (reason, _)): (&String, &(String, String))| format!("{} ({})", clean(kind), clean(reason));
        line("conditions", job.conditions.iter().map(condition).collect::<Vec<_>>().join(", "));
    }
    line("objects", objects.join(", "));
    text.push_str(&pods(job, look, now));
    text.push_str(&recent(events, look, now));
    if let Some(source) = &job.source {
        text.push_str("SUBMITTED\n");
        for line in source.lines() {
            text.push_str(format!("  {}", clean(line)).trim_end());
            text.push('\n');
        }
    }
    text
}

fn pods(job: &Job, look: Look, now: Timestamp) -> String {
    let mut table = Table::new([left("PODS"), right("RANK"), left("NODE"), left("STATUS"), right("TRIES"), right("RUNS")]);
    let mut tries: BTreeMap<Option<u32>, u32> = BTreeMap::new();
    job.pods.iter().for_each(|pod| *tries.entry(pod.rank).or_default() += 1);
    let current = job.current_pods();
    for pod in &current {
        let color = if pod.phase == PodPhase::Failed { Some(Color::Red) } else { None };
        table.row(vec![
            pod.name.clone().into(),
            pod.rank.map_or("-".to_owned(), |rank| rank.to_string()).into(),
            pod.node.clone().unwrap_or_default().into(),
            Cell::colored(pod_status(pod), color),
            tries.get(&pod.rank).copied().unwrap_or(1).to_string().into(),
            age(pod.started_at.filter(|_| pod.phase == PodPhase::Running), now).into(),
        ]);
    }
    if current.is_empty() { String::new() } else { table.show(super::Format::Table, true, look) }
}

/// The last things that happened, in plain words; what happened to several pods alike is one line. The newest last.
fn recent(events: &[Event], look: Look, now: Timestamp) -> String {
    const SHOWN: usize = 8;
    let mut lines: Vec<(&Event, String, u32)> = Vec::new();
    for event in events {
        let words = plain_words(event);
        match lines.iter_mut().find(|(_, other, _)| *other == words) {
            Some((newest, _, count)) => (*newest, *count) = (event, count.saturating_add(event.count)),
            None => lines.push((event, words, event.count)),
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    let mut text = "EVENTS\n".to_owned();
    for (event, words, count) in lines.iter().skip(lines.len().saturating_sub(SHOWN)) {
        let times = if *count > 1 { format!(" (×{count})") } else { String::new() };
        let words = wrapped(&format!("{words}{times}"), 9, look);
        let color = event.warning.then_some(Color::Yellow);
        text.push_str(&format!("  {:>5}  {}\n", age(event.at, now), paint(&words, color, look)));
    }
    text
}

/// What an event means to somebody who knows no Kubernetes; unknown ones in their own words.
fn plain_words(event: &Event) -> String {
    let message = clean(&event.message);
    let last_word = message.rsplit(' ').next().unwrap_or_default();
    match event.reason.as_str() {
        "Scheduled" => format!("placed on {last_word}"),
        "SuccessfulCreate" => "made a pod".to_owned(),
        "SuccessfulDelete" => "removed a pod".to_owned(),
        "FailedScheduling" => format!("does not fit: {}", crate::model::state::scheduler_words(&message)),
        "Suspended" => "paused".to_owned(),
        "Resumed" => "resumed".to_owned(),
        "Completed" => "completed".to_owned(),
        "Started" | "Created" | "Pulling" | "Pulled" | "Killing" | "Failed" | "BackOff" => message.into_owned(),
        reason => format!("{}: {message}", clean(reason)),
    }
}

/// Breaks a long text at words, so that it stays beside its title on a terminal.
fn wrapped(text: &str, indent: usize, look: Look) -> String {
    let Some(room) = look.width.and_then(|width| width.checked_sub(indent)).filter(|room| *room > 20) else {
        return text.to_owned();
    };
    let (mut result, mut used) = (String::new(), 0);
    for word in text.split(' ') {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > room {
            result.push_str(&format!("\n{}", " ".repeat(indent)));
            used = 0;
        } else if used > 0 {
            result.push(' ');
            used += 1;
        }
        result.push_str(word);
        used += length;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_stay_beside_their_title_on_a_terminal() {
        let look = |width| Look { width, color: false, plain: false };
        let text = "0/12 nodes are available: 2 Insufficient nvidia.com/gpu";
        assert_eq!(wrapped(text, 4, look(None)), text);
        assert_eq!(wrapped(text, 4, look(Some(40))), "0/12 nodes are available: 2\n    Insufficient nvidia.com/gpu");
    }

    #[test]
    fn equal_events_of_several_pods_are_one_line() {
        let event = |reason: &str, message: &str, object: &str| Event {
            at: None,
            warning: false,
            reason: reason.into(),
            message: message.into(),
            object: object.into(),
            count: 1,
        };
        let events = [
            event("SuccessfulCreate", "Created pod: a-0-x", "Job/a"),
            event("SuccessfulCreate", "Created pod: a-1-y", "Job/a"),
            event("Scheduled", "Successfully assigned team-a/a-0-x to gpu-1", "Pod/a-0-x"),
            event(
                "FailedScheduling",
                "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: 0/1 nodes",
                "Pod/a-1-y",
            ),
        ];
        let look = Look { width: None, color: false, plain: false };
        let text = recent(&events, look, Timestamp::UNIX_EPOCH);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "EVENTS",
                "-  made a pod (×2)",
                "-  placed on gpu-1",
                "-  does not fit: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu"
            ]
        );
    }
}
