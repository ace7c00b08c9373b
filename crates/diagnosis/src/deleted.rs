//! Explains why a deleted job ended, from what kube-state-metrics and events still contain:
//! reasons, but no exit codes or logs. Lists all possible causes with the same weight if the
//! reasons are ambiguous. Sends no requests.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::answer::{Answer, Basis, Cause, Situation, weighed};
use super::evictions::past_eviction;
use super::facts::EVENT_SECONDS;
use super::rejections::is_rejection;
use gpuctl_core::model::facts::state::pod_name;
use gpuctl_core::model::{Event, Job, Pod, PodPhase};

/// The remaining records of a deleted job.
#[derive(Debug, Default)]
pub struct Memory {
    /// The job, with its pods in their last known phase.
    pub job: Job,
    /// Whether the Job had completed.
    pub succeeded: bool,
    /// Whether the Job had failed.
    pub failed: bool,
    /// The reason of the Job's failure, such as `DeadlineExceeded`.
    pub reason: Option<String>,
    /// The reason for which each pod's container terminated, such as `OOMKilled` or `Error`.
    pub ends: BTreeMap<String, String>,
    /// `None` if the user cannot list events.
    pub events: Option<Vec<Event>>,
}

/// Diagnoses a deleted job.
pub fn remembered(memory: &Memory, now: Timestamp) -> Answer {
    let job = &memory.job;
    let in_phase = |phase: PodPhase| job.pods.iter().any(|pod| pod.phase == phase);
    let first = job.pods.iter().filter(|pod| pod.phase == PodPhase::Failed);
    let first = first.min_by_key(|pod| (pod.ended_at.is_none(), pod.ended_at, pod.rank));
    let runs = in_phase(PodPhase::Running);
    let (situation, causes) = match first {
        _ if memory.succeeded => (Situation::Fine, Vec::new()),
        _ if memory.reason.as_deref() == Some("DeadlineExceeded") => {
            (Situation::Dead, vec![deadline("the job")])
        }
        // Ignore failed pods unless the Job itself has failed, because they are retried.
        Some(pod) if memory.failed || !runs => (Situation::Dead, pod_causes(memory, pod)),
        None if !runs && !in_phase(PodPhase::Pending) && in_phase(PodPhase::Succeeded) => {
            (Situation::Fine, Vec::new())
        }
        _ if memory.failed => (Situation::Dead, Vec::new()),
        _ => {
            let verb = if runs {
                "while it ran"
            } else {
                "before it ran"
            };
            (
                Situation::Dead,
                vec![Cause::new(
                    "deleted",
                    format!("it was deleted {verb}"),
                    "prometheus",
                )],
            )
        }
    };
    let name = &job.name;
    let reason = causes
        .first()
        .and_then(|cause| cause.evidence.first())
        .map(|evidence| evidence.text.as_str());
    let sentence = match (situation, reason) {
        (Situation::Fine, _) => format!("{name} succeeded and was then deleted"),
        (_, None) => {
            format!("{name} failed and was then deleted; the remaining records do not show why")
        }
        (_, Some(reason)) if causes[0].word == "deleted" => format!("{name}: {reason}"),
        (_, Some(reason)) => format!("{name} failed: {reason}; it was then deleted"),
    };
    Answer {
        situation: if causes.is_empty() && situation == Situation::Dead {
            Situation::Unknown
        } else {
            situation
        },
        since: first.and_then(|pod| pod.ended_at),
        sentence,
        causes: weighed(causes),
        not_evaluated: vec!["exit codes and logs: they were deleted with its pods".to_owned()],
        coverage: Basis {
            nodes: None,
            events: events_word(memory, now),
        },
        ..Answer::default()
    }
}

fn events_word(memory: &Memory, now: Timestamp) -> &'static str {
    let last = memory
        .job
        .pods
        .iter()
        .filter_map(|pod| pod.ended_at.or(pod.created_at))
        .max()
        .or(memory.job.created_at);
    match memory.events.as_deref() {
        None => "forbidden",
        Some([]) if last.is_some_and(|time| now.as_second() - time.as_second() > EVENT_SECONDS) => {
            "expired"
        }
        Some([]) => "none",
        Some(_) => "seen",
    }
}

fn deadline(name: &str) -> Cause {
    Cause::new("deadline", exceeded_deadline(name), "prometheus")
}

fn exceeded_deadline(name: &str) -> String {
    format!("{name} exceeded its deadline (activeDeadlineSeconds)")
}

/// Returns what ended a pod: all possible causes if the reasons are ambiguous, or none without a
/// reason.
fn pod_causes(memory: &Memory, pod: &Pod) -> Vec<Cause> {
    let pod_label = pod_name(pod);
    let on_node = pod
        .node
        .as_ref()
        .map_or(String::new(), |node| format!(" on {node}"));
    let object = format!("Pod/{}", pod.name);
    let events = memory
        .events
        .iter()
        .flatten()
        .filter(|event| event.object == object);
    let reported = events
        .rev()
        .find(|event| matches!(event.reason.as_str(), "Evicted" | "Preempted"));
    if let Some(event) = reported.filter(|event| event.reason == "Preempted") {
        let text = format!(
            "{pod_label} was preempted{on_node} by a higher-priority pod: {}",
            event.message
        );
        return vec![Cause::new("preempted", text, "events").when(event.at)];
    }
    if pod.reason.as_deref() == Some("Evicted") {
        let known =
            reported.and_then(|event| Some(past_eviction(pod, &event.message)?.when(event.at)));
        return known.map_or_else(|| evictions(pod, &pod_label, &on_node), |cause| vec![cause]);
    }
    let end = memory.ends.get(&pod.name).map(String::as_str);
    let cause = match (pod.reason.as_deref(), end) {
        (Some(reason), end) => Some(by_pod_reason(reason, end, &pod_label, &on_node)),
        (None, Some(end)) => by_container_reason(end, &pod_label, &on_node),
        (None, None) => None,
    };
    cause
        .into_iter()
        .map(|(word, text)| Cause::new(word, text, "prometheus").when(pod.ended_at))
        .collect()
}

/// Returns the cause for the reason of a pod, as its name and text. `end` is the reason of its
/// container.
fn by_pod_reason(
    reason: &str,
    end: Option<&str>,
    pod_label: &str,
    on_node: &str,
) -> (&'static str, String) {
    match reason {
        "NodeLost" | "Shutdown" | "NodeShutdown" | "Terminated" => (
            "node-lost",
            format!("{pod_label} was terminated{on_node} because the node went down"),
        ),
        "Preempting" => (
            "preempted",
            format!("{pod_label} was preempted{on_node} for a critical pod"),
        ),
        "DeadlineExceeded" => ("deadline", exceeded_deadline(pod_label)),
        _ if is_rejection(reason, "") => (
            "admission-failed",
            format!("{pod_label} was rejected by the kubelet{on_node}: {reason}"),
        ),
        _ => {
            let end = end.map_or(String::new(), |end| format!(", its container with {end}"));
            let text = format!("{pod_label} ended{on_node}: {reason}{end}");
            ("ended-other", text)
        }
    }
}

/// Returns the cause for the reason of a container, as its name and text.
fn by_container_reason(
    reason: &str,
    pod_label: &str,
    on_node: &str,
) -> Option<(&'static str, String)> {
    Some(match reason {
        "Completed" => return None,
        "OOMKilled" => (
            "oom-container",
            format!(
                "{pod_label} used more memory than its limit{on_node}: host memory, not GPU memory"
            ),
        ),
        "DeadlineExceeded" => ("deadline", exceeded_deadline(pod_label)),
        "ContainerCannotRun" | "StartError" => (
            "start-error",
            format!("the runtime could not start {pod_label}{on_node}: {reason}"),
        ),
        "ContainerStatusUnknown" | "Unknown" => (
            "container-lost",
            format!(
                "how {pod_label} ended{on_node} is unknown ({reason}): its node lost the container"
            ),
        ),
        "Error" => (
            "exit-code",
            format!("{pod_label}'s command exited with an error{on_node}"),
        ),
        _ => (
            "ended-other",
            format!("a container of {pod_label} ended{on_node}: {reason}"),
        ),
    })
}

/// All causes of an eviction whose message is unknown.
fn evictions(pod: &Pod, pod_label: &str, on_node: &str) -> Vec<Cause> {
    let causes = ["evicted-memory", "evicted-disk", "evicted-pids"];
    let text = format!(
        "{pod_label} was evicted by the kubelet{on_node}; the records do not show whether memory, disk or process IDs ran out"
    );
    let cause = |word| Cause {
        weight: 1.0,
        ..Cause::new(word, text.clone(), "prometheus").when(pod.ended_at)
    };
    causes.into_iter().map(cause).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-11-24T12:00:00Z";

    fn memory(phase: PodPhase, reason: Option<&str>, end: Option<&str>) -> Memory {
        let pod = Pod {
            name: "t-0-abcde".into(),
            rank: Some(0),
            phase,
            reason: reason.map(Into::into),
            ..Pod::default()
        };
        let ends = end
            .map(|end| (pod.name.clone(), end.to_owned()))
            .into_iter()
            .collect();
        Memory {
            job: Job {
                name: "t".into(),
                pods: vec![pod],
                ..Job::default()
            },
            ends,
            events: Some(Vec::new()),
            ..Memory::default()
        }
    }

    fn diagnosed_memory(memory: &Memory) -> (Situation, Vec<(&'static str, f64)>, String) {
        let answer = remembered(memory, NOW.parse().unwrap());
        (
            answer.situation,
            answer
                .causes
                .iter()
                .map(|cause| (cause.word, cause.weight))
                .collect(),
            answer.sentence,
        )
    }

    #[test]
    fn missing_records_are_not_guessed() {
        let evicted = memory(PodPhase::Failed, Some("Evicted"), None);
        assert_eq!(
            diagnosed_memory(&evicted).1,
            [
                ("evicted-memory", 0.33),
                ("evicted-disk", 0.33),
                ("evicted-pids", 0.33)
            ]
        );
        let event = |reason: &str, message: &str| Event {
            reason: reason.into(),
            message: message.into(),
            object: "Pod/t-0-abcde".into(),
            at: None,
            warning: true,
            count: 1,
            version: 0,
        };
        let by_node = Memory {
            events: Some(vec![event(
                "Evicted",
                "The node was low on resource: memory.",
            )]),
            ..evicted
        };
        assert_eq!(diagnosed_memory(&by_node).1, [("evicted-memory", 1.0)]);
        let preempted = Memory {
            events: Some(vec![event("Preempted", "Preempted by pod 7f on node n")]),
            ..memory(PodPhase::Failed, None, Some("Error"))
        };
        assert_eq!(diagnosed_memory(&preempted).1, [("preempted", 1.0)]);
        let unknown = diagnosed_memory(&memory(PodPhase::Failed, None, None));
        assert_eq!(
            unknown,
            (
                Situation::Unknown,
                Vec::new(),
                "t failed and was then deleted; the remaining records do not show why".into()
            )
        );
    }

    #[test]
    fn retried_job_has_not_failed() {
        let running = memory(PodPhase::Running, None, None);
        assert_eq!(
            diagnosed_memory(&running),
            (
                Situation::Dead,
                vec![("deleted", 1.0)],
                "t: it was deleted while it ran".into()
            )
        );
        assert_eq!(
            diagnosed_memory(&memory(PodPhase::Pending, None, None)).2,
            "t: it was deleted before it ran"
        );
        let mut retried = memory(PodPhase::Failed, None, Some("OOMKilled"));
        retried.job.pods.extend(running.job.pods);
        assert_eq!(diagnosed_memory(&retried).1, [("deleted", 1.0)]);
        retried.failed = true;
        assert_eq!(
            diagnosed_memory(&retried).2,
            "t failed: rank 0 used more memory than its limit: host memory, not GPU memory; it was then deleted"
        );
        retried.succeeded = true;
        assert_eq!(diagnosed_memory(&retried).0, Situation::Fine);
        assert_eq!(
            diagnosed_memory(&memory(PodPhase::Succeeded, None, None)).2,
            "t succeeded and was then deleted"
        );
    }

    #[test]
    fn reasons_of_metrics_are_causes_of_their_own() {
        for (reason, end, word) in [
            (Some("UnexpectedAdmissionError"), None, "admission-failed"),
            (Some("OutOfnvidia.com/gpu"), None, "admission-failed"),
            (Some("NodeAffinity"), None, "admission-failed"),
            (Some("Preempting"), Some("Error"), "preempted"),
            (Some("NodeLost"), Some("Error"), "node-lost"),
            (Some("SomethingNew"), Some("Error"), "ended-other"),
            (None, Some("ContainerStatusUnknown"), "container-lost"),
            (None, Some("SomethingNew"), "ended-other"),
            (None, Some("OOMKilled"), "oom-container"),
        ] {
            let words = diagnosed_memory(&memory(PodPhase::Failed, reason, end)).1;
            assert_eq!(words, [(word, 1.0)], "{reason:?} {end:?}");
        }
    }
}
