//! Explains the end of one pod or container: a signal, an exit code, insufficient memory, or its
//! node.

use super::answer::Cause;
use super::facts::Facts;
use gpuctl_core::model::contract::labels::TERMINATION_PREFIX;
use gpuctl_core::model::facts::state::{not_started, pod_name};
use gpuctl_core::model::{ContainerEnd, Event, Pod};

/// Offset of exit codes that report a signal: 128 + the signal number.
pub(super) const SIGNALS: i32 = 128;

/// Maximum difference in seconds between a node's event and the end of a pod that it caused.
const SAME_TIME: i64 = 60;

/// Names of signals by number. Source: signal(7).
const NAMES: [(i32, &str); 11] = [
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (11, "SIGSEGV"),
    (13, "SIGPIPE"),
    (15, "SIGTERM"),
];

pub(super) fn end(pod: &Pod) -> Option<&ContainerEnd> {
    let main = pod
        .containers
        .iter()
        .filter(|container| container.name == pod.own_container());
    main.chain(&pod.containers)
        .find_map(|container| container.terminated.as_ref().filter(|end| end.code != 0))
}

/// Explains what ended one pod.
pub(super) fn pod_cause(facts: &Facts<'_>, pod: &Pod) -> Cause {
    let pod_label = pod_name(pod);
    let message = pod.message.as_deref().unwrap_or("");
    let cause = |word, text: String| Cause::new(word, text, "pod").when(pod.ended_at);
    // Check the reason first: a graceful node shutdown sets the condition `TerminationByKubelet`,
    // like an eviction.
    if let Some("NodeShutdown" | "Terminated" | "NodeLost") = pod.reason.as_deref() {
        return cause(
            "node-lost",
            format!("{pod_label}'s node {} went down: {message}", node(pod)),
        );
    }
    match pod.disrupted.as_deref() {
        Some("PreemptionByScheduler") => {
            return cause("preempted", preempted(facts, pod, &pod_label)).helps(
                "raise its priority, so that the other job does not preempt it",
                Some(super::refused::set(facts, "job.priority=high")),
            );
        }
        Some("DeletionByTaintManager" | "DeletionByPodGC") => {
            return cause(
                "node-lost",
                format!(
                    "{pod_label} was terminated because its node {} stopped responding, was deleted, or was tainted NoExecute",
                    node(pod)
                ),
            );
        }
        Some("EvictionByEvictionAPI") => {
            return cause(
                "node-drained",
                format!(
                    "{pod_label} was evicted from {}: its node was drained, or it was evicted through the API",
                    node(pod)
                ),
            );
        }
        Some("TerminationByKubelet") => return evicted(pod, message, "pod").when(pod.ended_at),
        Some(_) => return cause("deleted", format!("{pod_label} was deleted")),
        None => {}
    }
    match pod.reason.as_deref() {
        Some("Evicted") => evicted(pod, message, "pod").when(pod.ended_at),
        Some("DeadlineExceeded") => deadline(
            facts,
            &format!("{pod_label} ran longer than `job.max_runtime`"),
            "pod",
        )
        .when(pod.ended_at),
        Some(
            "UnexpectedAdmissionError" | "OutOfcpu" | "OutOfmemory" | "NodeAffinity" | "OutOfpods",
        ) => cause(
            "start-error",
            format!("node {} rejected {pod_label}: {message}", node(pod)),
        ),
        _ => match end(pod) {
            Some(end) => end_cause(facts, pod, end).when(pod.ended_at),
            None => cause("exit-code", format!("{pod_label} failed: {message}")),
        },
    }
}

/// Explains what ended one container.
pub(super) fn end_cause(facts: &Facts<'_>, pod: &Pod, end: &ContainerEnd) -> Cause {
    let pod_label = pod_name(pod);
    let parts = end
        .message
        .strip_prefix(TERMINATION_PREFIX)
        .and_then(|text| text.split_once(": "));
    let (reason, message) = parts.map_or((end.reason.as_str(), None), |(reason, message)| {
        (reason, Some(message))
    });
    let code = end.command_code();
    if reason == "OOMKilled" {
        return out_of_memory(facts, &pod_label, code);
    }
    if end.never_started() {
        return Cause::new("start-error", not_started(&pod_label, end), "pod").helps(
            "correct the command or the image",
            Some(super::refused::set(facts, "environment.command=COMMAND")),
        );
    }
    if let Some(cause) = killed_by_node(facts, pod, code) {
        return cause;
    }
    let (word, evidence) = match message {
        _ if is_signal(code) => {
            let signal = signal(code - SIGNALS);
            let evidence = match message {
                Some(message) => format!("{message} ({signal})"),
                None => format!("{pod_label} was killed by {signal} (exit code {code})"),
            };
            ("signal", evidence)
        }
        Some(message) => ("exit-code", message.to_owned()),
        None => ("exit-code", format!("{pod_label} exited with code {code}")),
    };
    Cause::new(word, evidence, "pod").helps("read its last lines", Some(facts.logs(pod, false)))
}

fn out_of_memory(facts: &Facts<'_>, pod_label: &str, code: i32) -> Cause {
    let limit = facts
        .job
        .memory
        .as_deref()
        .map_or(String::new(), |limit| format!(" of {limit}"));
    let text = format!(
        "{pod_label} used more memory than its limit{limit} and was killed (exit code {code}): host memory, not GPU memory"
    );
    Cause::new("oom-container", text, "pod").helps(
        "raise the limit, or run fewer data loader workers",
        Some(super::refused::set(facts, "resources.memory=AMOUNT")),
    )
}

/// Detects that the kubelet or the node killed a container, which is visible only in events.
fn killed_by_node(facts: &Facts<'_>, pod: &Pod, code: i32) -> Option<Cause> {
    let pod_label = pod_name(pod);
    let events = || facts.events.into_iter().flatten();
    let by_probe = events().rev().find(|event| {
        event.reason == "Killing"
            && event.message.contains("probe")
            && event.object == format!("Pod/{}", pod.name)
    });
    // The kubelet sends SIGTERM, and SIGKILL after the grace period.
    if let Some(event) = by_probe.filter(|_| matches!(code, 137 | 143)) {
        let text = format!(
            "{pod_label} was killed because its probe failed: {}",
            event.message
        );
        return Some(Cause::new("probe-killed", text, "events").when(event.at));
    }
    let node = pod.node.as_deref()?;
    let is_of_node =
        |event: &&Event| event.reason == "SystemOOM" && event.object == format!("Node/{node}");
    let is_then = |event: &&Event| {
        event
            .at
            .zip(pod.ended_at)
            .is_some_and(|(time, end)| (end.as_second() - time.as_second()).abs() <= SAME_TIME)
    };
    let event = events()
        .filter(|_| code == 137)
        .filter(is_of_node)
        .find(is_then)?;
    let text = format!(
        "{pod_label} was killed when its node ran out of memory: {}",
        event.message
    );
    Some(Cause::new("oom-node", text, "events").when(event.at))
}

/// Returns true if the exit code reports a signal.
pub(super) fn is_signal(code: i32) -> bool {
    // Linux has 64 signals.
    code > SIGNALS && code <= SIGNALS + 64
}

/// Formats the end of a container, such as `exit code 1`, `SIGKILL (exit code 137)` or `OOMKilled
/// (exit code 137)`.
pub(super) fn describe(end: &ContainerEnd) -> String {
    match (end.reason.as_str(), end.command_code()) {
        ("OOMKilled", code) => format!("OOMKilled (exit code {code})"),
        (_, code) if is_signal(code) => {
            format!("{} (exit code {code})", signal(code - SIGNALS))
        }
        (_, code) => format!("exit code {code}"),
    }
}

pub(super) fn signal(number: i32) -> String {
    let name = NAMES.iter().find(|(code, _)| *code == number);
    name.map_or_else(
        || format!("signal {number}"),
        |(_, name)| (*name).to_owned(),
    )
}

/// Builds the cause for an eviction, classified by the kubelet's message.
pub(super) fn evicted(pod: &Pod, message: &str, source: &'static str) -> Cause {
    let pod_label = pod_name(pod);
    let lower = message.to_ascii_lowercase();
    // Drop the rest of the message, because names of containers in it could match a keyword.
    let lower = lower
        .split_once("low on resource: ")
        .map_or(lower.as_str(), |(_, rest)| {
            rest.split('.').next().unwrap_or(rest)
        });
    let disk = [
        "ephemeral",
        "disk",
        "inode",
        "emptydir",
        "nodefs",
        "imagefs",
    ]
    .iter()
    .any(|word| lower.contains(word));
    let word = if disk {
        "evicted-disk"
    } else if lower.contains("memory") {
        "evicted-memory"
    } else {
        "node-drained"
    };
    let place = pod
        .node
        .as_ref()
        .map_or(String::new(), |node| format!(" {node}"));
    let cause = Cause::new(
        word,
        format!("{pod_label} was evicted by its node{place}: {message}"),
        source,
    );
    match word {
        "evicted-disk" => cause.helps(
            "write to a volume instead",
            Some("gpuctl explain storage.workdirs".to_owned()),
        ),
        "evicted-memory" => cause.helps(
            "request the memory that it uses, so that the scheduler reserves it",
            Some("gpuctl explain resources.memory".to_owned()),
        ),
        _ => cause,
    }
}

/// Describes a preemption, and names the preempting pod if an event does.
fn preempted(facts: &Facts<'_>, pod: &Pod, pod_label: &str) -> String {
    let object = format!("Pod/{}", pod.name);
    let event = facts
        .events
        .into_iter()
        .flatten()
        .rev()
        .find(|event| event.reason == "Preempted" && event.object == object);
    let detail = event.map_or(String::new(), |event| format!(": {}", event.message));
    format!(
        "{pod_label} was preempted on {} by a higher-priority pod{detail}",
        node(pod)
    )
}

pub(super) fn node(pod: &Pod) -> &str {
    pod.node.as_deref().unwrap_or("(no node)")
}

pub(super) fn deadline(facts: &Facts<'_>, text: &str, seen_in: &'static str) -> Cause {
    let cause = Cause::new("deadline", text, seen_in).when(facts.job.finished_at);
    cause.helps(
        "allow it more time",
        Some(super::refused::set(facts, "job.max_runtime=TIME")),
    )
}
