//! Explains the end of one pod or container: a signal, an exit code, insufficient memory, or its
//! node.

use super::answer::Cause;
use super::facts::Facts;
use super::pod_texts::{container_label, ended_other};
use super::rejections::outside_cause;
use gpuctl_core::model::contract::labels::TERMINATION_PREFIX;
use gpuctl_core::model::facts::container_end::{SIGNALS, is_signal, signal_name};
use gpuctl_core::model::facts::state::{not_started, pod_name};
use gpuctl_core::model::{Container, ContainerEnd, Event, Pod};

/// Maximum difference in seconds between a node's event and the end of a pod that it caused.
const SAME_TIME: i64 = 60;

/// Reasons of ended containers that only repeat that they ended.
const PLAIN_REASONS: [&str; 3] = ["", "Error", "Completed"];

/// The container whose end explains the end of the pod: the main one, or else the first that
/// failed.
pub(super) fn failed_container(pod: &Pod) -> Option<(&Container, &ContainerEnd)> {
    let main = pod
        .containers
        .iter()
        .filter(|container| container.name == pod.own_container());
    main.chain(&pod.containers).find_map(|container| {
        let end = container.terminated.as_ref().filter(|end| end.code != 0)?;
        Some((container, end))
    })
}

pub(super) fn end(pod: &Pod) -> Option<&ContainerEnd> {
    failed_container(pod).map(|(_, end)| end)
}

/// Explains what ended one pod.
pub(super) fn pod_cause(facts: &Facts<'_>, pod: &Pod) -> Cause {
    if let Some(cause) = outside_cause(facts, pod) {
        // The container shows how it reacted, not why.
        return match failed_container(pod).filter(|_| cause.word == "ended-other") {
            Some((container, end)) => {
                let label = container_label(pod, container);
                cause.and(format!("{label} ended with {}", end.describe()), "pod")
            }
            None => cause,
        };
    }
    if let Some((container, end)) = failed_container(pod) {
        return end_cause(facts, pod, container, end).when(pod.ended_at);
    }
    let text = match pod.message.as_deref() {
        Some(message) => format!("{} failed: {message}", pod_name(pod)),
        None => format!(
            "{} failed, but none of its containers shows why",
            pod_name(pod)
        ),
    };
    ended_other(facts, pod, &text, "pod")
}

/// Explains what ended one container.
pub(super) fn end_cause(
    facts: &Facts<'_>,
    pod: &Pod,
    container: &Container,
    end: &ContainerEnd,
) -> Cause {
    let label = container_label(pod, container);
    let parts = end
        .message
        .strip_prefix(TERMINATION_PREFIX)
        .and_then(|text| text.split_once(": "));
    let (reason, message) = parts.map_or((end.reason.as_str(), None), |(reason, message)| {
        (reason, Some(message))
    });
    let code = end.command_code();
    let is_own = container.name == pod.own_container() && !container.is_init;
    if reason == "OOMKilled" {
        return out_of_memory(facts, &label, code, is_own);
    }
    if end.never_started() {
        return not_startable(facts, pod, &label, end);
    }
    if end.is_unseen() {
        return unseen(pod, &label, end);
    }
    if let Some(cause) = killed_by_node(facts, pod, &label, code) {
        return cause;
    }
    let note = if PLAIN_REASONS.contains(&reason) || parts.is_some() {
        String::new()
    } else {
        format!(", reason {reason}")
    };
    let (word, evidence) = match message {
        _ if is_signal(code) => {
            let signal = signal_name(code - SIGNALS);
            let evidence = match message {
                Some(message) => format!("{message} ({signal})"),
                None => format!("{label} was killed by {signal} (exit code {code}{note})"),
            };
            ("signal", evidence)
        }
        Some(message) => ("exit-code", message.to_owned()),
        None => (
            "exit-code",
            format!("{label} exited with code {code}{note}"),
        ),
    };
    let logs = facts.logs(pod, &container.name, container.terminated.is_none());
    Cause::new(word, evidence, "pod").helps("read its last lines", Some(logs))
}

/// The cause of a container that the runtime could not start.
fn not_startable(facts: &Facts<'_>, pod: &Pod, label: &str, end: &ContainerEnd) -> Cause {
    let cause = Cause::new("start-error", not_started(label, end), "pod");
    // The hook of NVIDIA's runtime fails because of the node's driver, not because of the command.
    let is_of_node = [
        "nvidia-container-cli",
        "OCI runtime hook",
        "failed to inject CDI devices",
    ]
    .iter()
    .any(|part| end.message.contains(part));
    match &pod.node {
        Some(node) if is_of_node => cause.helps(
            "see the drivers of the node",
            Some(format!("gpuctl describe node {node}")),
        ),
        _ => cause.helps(
            "correct the command or the image",
            Some(super::refused::set(facts, "environment.command=COMMAND")),
        ),
    }
}

/// The cause of a container whose end was not recorded. The kubelet made up its exit code.
fn unseen(pod: &Pod, label: &str, end: &ContainerEnd) -> Cause {
    let detail = if end.message.is_empty() {
        String::new()
    } else {
        format!(": {}", end.message)
    };
    let text = format!(
        "how {label} ended is unknown ({}{detail}): its node lost the container, for example because it restarted; the exit code {} says nothing",
        end.reason, end.code
    );
    let describe = pod
        .node
        .as_ref()
        .map(|node| format!("gpuctl describe node {node}"));
    Cause::new("container-lost", text, "pod").helps("see whether the node restarted", describe)
}

fn out_of_memory(facts: &Facts<'_>, label: &str, code: i32, is_own: bool) -> Cause {
    let limit = facts
        .job
        .memory
        .as_deref()
        .filter(|_| is_own)
        .map_or(String::new(), |limit| format!(" of {limit}"));
    let text = format!(
        "{label} used more memory than its limit{limit} and was killed (exit code {code}): host memory, not GPU memory"
    );
    let cause = Cause::new("oom-container", text, "pod");
    // The field of a gpuctl file is about the main container.
    if !is_own && facts.subject.is_managed {
        return cause.helps("raise the limit of this container", None);
    }
    let advice = if is_own {
        "raise the limit, or run fewer data loader workers"
    } else {
        "raise the limit of this container"
    };
    cause.helps(
        advice,
        Some(super::refused::set(facts, "resources.memory=AMOUNT")),
    )
}

/// Detects that the kubelet or the node killed a container, which is visible only in events.
fn killed_by_node(facts: &Facts<'_>, pod: &Pod, label: &str, code: i32) -> Option<Cause> {
    let events = || facts.events.into_iter().flatten();
    let by_probe = events().rev().find(|event| {
        event.reason == "Killing"
            && event.message.contains("probe")
            && event.object == format!("Pod/{}", pod.name)
    });
    // The kubelet sends SIGTERM, and SIGKILL after the grace period.
    if let Some(event) = by_probe.filter(|_| matches!(code, 137 | 143)) {
        let text = format!(
            "{label} was killed because its probe failed: {}",
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
        "{label} was killed when its node ran out of memory: {}",
        event.message
    );
    Some(Cause::new("oom-node", text, "events").when(event.at))
}
