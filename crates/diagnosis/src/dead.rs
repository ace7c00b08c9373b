//! What ended a job: which rank first, with which exit code or signal, or who ended it from
//! outside. Where its pods are gone, what the Job itself keeps is read.

use jiff::Timestamp;

use super::answer::Cause;
use super::facts::Facts;
use gpuctl_core::model::contract::labels::TERMINATION_PREFIX;
use gpuctl_core::model::facts::state::{lost, not_started, pod_name};
use gpuctl_core::model::{ContainerEnd, Event, Pod, PodPhase};
use gpuctl_core::stats::exporters::dialect::is_fatal_xid;

/// Exit codes above this one are signals: 128 + the signal's number.
const SIGNALS: i32 = 128;

/// Exit codes of ranks that end because another one did: interrupted, aborted by NCCL's watchdog,
/// told to end.
const OF_PEERS: [i32; 3] = [130, 134, 143];
/// The exit code of our supervisor of ranks, which is not the command's.
const SUPERVISOR: i32 = 113;

/// Seconds within which a node's report is about the end of a pod.
const SAME_TIME: i64 = 60;

/// Signals by number. Source: signal(7).
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

/// Reasons of a Job whose retries are used up.
const EXHAUSTED: [&str; 4] = [
    "BackoffLimitExceeded",
    "MaxFailedIndexesExceeded",
    "FailedIndexes",
    "ReachedMaxRestarts",
];

/// Returns what ended the job, the first cause of the first end first.
pub(super) fn causes(facts: &Facts<'_>) -> Vec<Cause> {
    let job = facts.job;
    let condition = ["Failed", "FailureTarget"]
        .iter()
        .find_map(|kind| job.conditions.get(*kind));
    if let Some((pod, (_, told))) = job
        .current_pods()
        .into_iter()
        .find_map(|pod| Some((pod, lost(pod)?)))
        && condition.is_none()
    {
        let node = pod.node.clone().unwrap_or_default();
        let cause = Cause::new("node-lost", told, "pod")
            .helps("see the node", Some(format!("gpuctl describe node {node}")));
        return vec![cause.helps(
            "its pods can be made elsewhere",
            Some(format!("gpuctl restart job {}", facts.full_name())),
        )];
    }
    let reason = condition.map_or("", |(reason, _)| reason.as_str());
    if reason == "DeadlineExceeded" {
        return vec![deadline(
            facts,
            "the job ran longer than `job.max_runtime`",
            "job",
        )];
    }
    let mut ended: Vec<&Pod> = job
        .pods
        .iter()
        .filter(|pod| pod.phase == PodPhase::Failed)
        .collect();
    // The present try comes first, and of one try the rank that ended first: its peers end because
    // it is gone.
    let present: Vec<&str> = job
        .current_pods()
        .iter()
        .map(|pod| pod.name.as_str())
        .collect();
    ended.sort_by_key(|pod| {
        (
            !present.contains(&pod.name.as_str()),
            pod.ended_at.is_none(),
            pod.ended_at,
            pod.rank,
        )
    });
    // What ended an earlier try was overcome.
    let now: Vec<&Pod> = ended
        .iter()
        .copied()
        .filter(|pod| present.contains(&pod.name.as_str()))
        .collect();
    let Some(first) = culprit(if now.is_empty() { &ended } else { &now }) else {
        return gone(facts, condition);
    };
    let mut cause = of_pod(facts, first);
    if let Some(peers) = peers(&ended, &present, first) {
        cause = cause.and(peers, "pod");
    }
    // The pods of a workload of others belong to objects of its own, which it sums up.
    if let Some((_, message)) =
        condition.filter(|(_, message)| !facts.subject.ours && !message.is_empty())
    {
        cause = cause.and(message.clone(), "job");
    }
    for line in &facts.last_words {
        cause = cause.and(line.text.clone(), "logs").at(line.at);
    }
    for (device, code) in facts.faults.iter().filter(|(_, code)| !is_fatal_xid(*code)) {
        cause = cause.and(
            format!("{device} told XID {code} within five minutes of its end"),
            "prometheus",
        );
    }
    let mut causes = vec![cause];
    if let Some((device, code)) = facts.faults.iter().find(|(_, code)| is_fatal_xid(*code)) {
        let told = format!(
            "{device}, which {} used, told XID {code} within five minutes of its end",
            pod_name(first)
        );
        let fault = Cause::new("gpu-fault", told, "prometheus").at(first.ended_at);
        let elsewhere = first
            .node
            .as_ref()
            .map(|node| super::refused::set(facts, &format!("resources.exclude_nodes={node}")));
        causes.insert(
            0,
            fault.helps("leave the node out, and tell who runs it", elsewhere),
        );
    }
    if job.retries > 0 && EXHAUSTED.contains(&reason) {
        causes.push(exhausted(facts, &ended, first));
    }
    causes
}

/// Returns the pod that ended first; of those of one second, the one with a reason of its own.
fn culprit<'p>(ended: &[&'p Pod]) -> Option<&'p Pod> {
    // A pod that was evicted before it ran has no time of its end, and its peers end because of it.
    let timeless = ended
        .iter()
        .find(|pod| pod.ended_at.is_none() && (pod.disrupted.is_some() || pod.reason.is_some()));
    if let Some(pod) = timeless {
        return Some(pod);
    }
    let first = *ended.first()?;
    let own = |pod: &&&Pod| {
        let second = |at: Option<Timestamp>| at.map(Timestamp::as_second);
        second(pod.ended_at) == second(first.ended_at) && has_reason(pod)
    };
    if has_reason(first) {
        Some(first)
    } else {
        ended.iter().find(own).copied().or(Some(first))
    }
}

fn has_reason(pod: &Pod) -> bool {
    pod.disrupted.is_some()
        || pod.reason.is_some()
        || end(pod).is_some_and(|end| {
            end.reason != "Error" || end.code > SIGNALS && !OF_PEERS.contains(&end.code)
        })
}

fn end(pod: &Pod) -> Option<&ContainerEnd> {
    let own = pod
        .containers
        .iter()
        .filter(|container| container.name == pod.own_container());
    own.chain(&pod.containers)
        .find_map(|container| container.terminated.as_ref().filter(|end| end.code != 0))
}

/// Says what the other ranks did.
fn peers(ended: &[&Pod], present: &[&str], first: &Pod) -> Option<String> {
    let others: Vec<&&Pod> = ended
        .iter()
        .filter(|pod| pod.rank.is_some() && pod.rank != first.rank)
        .filter(|pod| present.contains(&pod.name.as_str()) && pod.ended_at >= first.ended_at)
        .collect();
    let last = others.iter().filter_map(|pod| pod.ended_at).max()?;
    let after = first.ended_at.map(|at| last.as_second() - at.as_second())?;
    let codes: Vec<String> = others
        .iter()
        .filter_map(|pod| end(pod))
        .map(|end| end.command_code().to_string())
        .collect();
    let code = codes
        .first()
        .filter(|first| codes.iter().all(|code| code == *first));
    let code = code.map_or(String::new(), |code| format!(" with exit code {code}"));
    let who = if others.len() == 1 {
        "1 other rank".to_owned()
    } else {
        format!("{} other ranks", others.len())
    };
    Some(format!("{who} ended{code} within {after} s after it"))
}

/// Returns what ended one pod.
pub(super) fn of_pod(facts: &Facts<'_>, pod: &Pod) -> Cause {
    let who = pod_name(pod);
    let message = pod.message.as_deref().unwrap_or("");
    let found = |word, told: String| Cause::new(word, told, "pod").at(pod.ended_at);
    if let Some("NodeShutdown" | "Terminated" | "NodeLost") = pod.reason.as_deref() {
        return found(
            "node-lost",
            format!("{who}'s node {} went down: {message}", node(pod)),
        );
    }
    match pod.disrupted.as_deref() {
        Some("PreemptionByScheduler") => {
            return found("preempted", preempted(facts, pod, &who)).helps(
                "a job of higher priority is not preempted by that one",
                Some(super::refused::set(facts, "job.priority=high")),
            );
        }
        Some("DeletionByTaintManager" | "DeletionByPodGC") => {
            return found(
                "node-lost",
                format!(
                    "{who} was ended because its node {} does not answer, is gone, or was tainted NoExecute",
                    node(pod)
                ),
            );
        }
        Some("EvictionByEvictionAPI") => {
            return found(
                "node-drained",
                format!(
                    "{who} was evicted from {}: its node was drained, or somebody evicted it",
                    node(pod)
                ),
            );
        }
        Some("TerminationByKubelet") => return evicted(pod, message, "pod").at(pod.ended_at),
        Some(_) => return found("deleted", format!("{who} was deleted")),
        None => {}
    }
    match pod.reason.as_deref() {
        Some("Evicted") => evicted(pod, message, "pod").at(pod.ended_at),
        Some("DeadlineExceeded") => deadline(
            facts,
            &format!("{who} ran longer than `job.max_runtime`"),
            "pod",
        )
        .at(pod.ended_at),
        Some(
            "UnexpectedAdmissionError" | "OutOfcpu" | "OutOfmemory" | "NodeAffinity" | "OutOfpods",
        ) => found(
            "start-error",
            format!("node {} refused {who}: {message}", node(pod)),
        ),
        _ => match end(pod) {
            Some(end) => of_end(facts, pod, end).at(pod.ended_at),
            None => found("exit-code", format!("{who} failed: {message}")),
        },
    }
}

/// Returns what ended one container.
pub(super) fn of_end(facts: &Facts<'_>, pod: &Pod, end: &ContainerEnd) -> Cause {
    let who = pod_name(pod);
    let told = end
        .message
        .strip_prefix(TERMINATION_PREFIX)
        .and_then(|text| text.split_once(": "));
    let (reason, message) = told.map_or((end.reason.as_str(), None), |(reason, message)| {
        (reason, Some(message))
    });
    let logs = facts.logs(pod, false);
    let read = |cause: Cause| cause.helps("read its last lines", Some(logs.clone()));
    let code = end.command_code();
    if reason == "OOMKilled" {
        let limit = facts
            .job
            .memory
            .as_deref()
            .map_or(String::new(), |limit| format!(" of {limit}"));
        let told = format!(
            "{who} used more memory than its limit{limit} and was killed (exit code {code}): host memory, not GPU memory"
        );
        return Cause::new("oom-container", told, "pod").helps(
            "give it more, or run fewer data loader workers",
            Some(super::refused::set(facts, "resources.memory=AMOUNT")),
        );
    }
    if end.never_started() {
        return Cause::new("start-error", not_started(&who, end), "pod").helps(
            "correct the command or the image",
            Some(super::refused::set(facts, "environment.command=COMMAND")),
        );
    }
    // A kubelet kills what fails its check, and says so in an event alone.
    let killed = facts.events.into_iter().flatten().rev().find(|event| {
        event.reason == "Killing"
            && event.message.contains("probe")
            && event.object == format!("Pod/{}", pod.name)
    });
    if let Some(event) = killed.filter(|_| matches!(code, 137 | 143)) {
        return Cause::new(
            "probe-killed",
            format!(
                "{who} was killed because its check failed: {}",
                event.message
            ),
            "events",
        )
        .at(event.at);
    }
    let node = pod.node.as_deref();
    let about = |event: &&Event| {
        event.reason == "SystemOOM"
            && node.is_some_and(|node| event.object == format!("Node/{node}"))
    };
    let then = |event: &&Event| {
        event
            .at
            .zip(pod.ended_at)
            .is_some_and(|(at, end)| (end.as_second() - at.as_second()).abs() <= SAME_TIME)
    };
    let system = facts.events.into_iter().flatten().filter(about).find(then);
    if let Some(event) = system.filter(|_| code == 137) {
        return Cause::new(
            "oom-node",
            format!(
                "{who} was killed when its node ran out of memory: {}",
                event.message
            ),
            "events",
        )
        .at(event.at);
    }
    if code > SIGNALS && code <= SIGNALS + 64 {
        let told = message.map_or_else(
            || {
                format!(
                    "{who} was ended by {} (exit code {code})",
                    signal(code - SIGNALS)
                )
            },
            |message| format!("{message} ({})", signal(code - SIGNALS)),
        );
        return read(Cause::new("signal", told, "pod"));
    }
    let told = message.map_or_else(
        || format!("{who} ended with exit code {code}"),
        ToOwned::to_owned,
    );
    read(Cause::new("exit-code", told, "pod"))
}

/// Says an end in words: `exit code 1`, `SIGKILL (exit code 137)`, `too little memory (exit code
/// 137)`.
pub(super) fn in_words(end: &ContainerEnd) -> String {
    match (end.reason.as_str(), end.command_code()) {
        ("OOMKilled", code) => format!("too little memory (exit code {code})"),
        (_, code) if code > SIGNALS && code <= SIGNALS + 64 => {
            format!("{} (exit code {code})", signal(code - SIGNALS))
        }
        (_, code) => format!("exit code {code}"),
    }
}

fn signal(number: i32) -> String {
    let name = NAMES.iter().find(|(known, _)| *known == number);
    name.map_or_else(
        || format!("signal {number}"),
        |(_, name)| (*name).to_owned(),
    )
}

/// Returns what a node evicted a pod for, by the kubelet's words.
pub(super) fn evicted(pod: &Pod, message: &str, source: &'static str) -> Cause {
    let who = pod_name(pod);
    let lower = message.to_ascii_lowercase();
    // What follows names containers, whose names are anybody's words.
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
        format!("{who} was evicted by its node{place}: {message}"),
        source,
    );
    match word {
        "evicted-disk" => cause.helps(
            "write to a volume instead",
            Some("gpuctl explain storage.workdirs".to_owned()),
        ),
        "evicted-memory" => cause.helps(
            "request what it uses, so that the scheduler counts it",
            Some("gpuctl explain resources.memory".to_owned()),
        ),
        _ => cause,
    }
}

/// Names who took the pod's place, where an event tells.
fn preempted(facts: &Facts<'_>, pod: &Pod, who: &str) -> String {
    let object = format!("Pod/{}", pod.name);
    let event = facts
        .events
        .into_iter()
        .flatten()
        .rev()
        .find(|event| event.reason == "Preempted" && event.object == object);
    let told = event.map_or(String::new(), |event| format!(": {}", event.message));
    format!(
        "{who} was preempted on {} by a pod of higher priority{told}",
        node(pod)
    )
}

fn node(pod: &Pod) -> &str {
    pod.node.as_deref().unwrap_or("(no node)")
}

fn deadline(facts: &Facts<'_>, told: &str, seen_in: &'static str) -> Cause {
    let cause = Cause::new("deadline", told, seen_in).at(facts.job.finished_at);
    cause.helps(
        "allow it more time",
        Some(super::refused::set(facts, "job.max_runtime=TIME")),
    )
}

fn exhausted(facts: &Facts<'_>, ended: &[&Pod], first: &Pod) -> Cause {
    let tries: Vec<String> = ended
        .iter()
        .filter(|pod| pod.rank == first.rank)
        .take(4)
        .map(|pod| of_pod(facts, pod).word.to_owned())
        .collect();
    let told = format!(
        "all {} retries were used; its tries ended by {}",
        facts.job.retries,
        tries.join(", ")
    );
    Cause::new("retries-exhausted", told, "job").at(facts.job.finished_at)
}

/// Reads what the Job says whose pods are gone.
fn gone(facts: &Facts<'_>, condition: Option<&(String, String)>) -> Vec<Cause> {
    let Some((reason, message)) = condition else {
        return Vec::new();
    };
    let at = facts.job.finished_at;
    let code = message.split_once("exit code ").map(|(_, rest)| {
        rest.split(|c: char| !c.is_ascii_digit())
            .next()
            .unwrap_or("")
    });
    let code = code.and_then(|code| code.parse::<i32>().ok());
    let supervised = code == Some(SUPERVISOR);
    let code = code.filter(|_| !supervised);
    vec![match (reason.as_str(), code) {
        (_, Some(code)) if code > SIGNALS && code <= SIGNALS + 64 => Cause::new(
            "signal",
            format!("a pod was ended by {} (exit code {code}); its pods are gone", signal(code - SIGNALS)),
            "job",
        )
        .at(at),
        (_, Some(code)) => Cause::new("exit-code", format!("a pod ended with exit code {code}; its pods are gone"), "job").at(at),
        (reason, None) if supervised || EXHAUSTED.contains(&reason) => Cause::new(
            "retries-exhausted",
            format!("all retries were used ({message}); its pods are gone, and what ended them with them"),
            "job",
        )
        .at(at),
        _ => return Vec::new(),
    }]
}

/// Says that the job is being deleted.
pub(super) fn deleted(facts: &Facts<'_>) -> Cause {
    let left = facts.job.pods.len();
    let told = if left == 0 {
        "it was deleted".to_owned()
    } else {
        format!("it was deleted; {left} of its pods still end")
    };
    let cause = Cause::new("deleted", told, "job");
    match facts.job.pods.iter().find(|pod| pod.is_lost()) {
        Some(pod) => cause
            .and(
                format!("node {} of {} does not answer", node(pod), pod.name),
                "pod",
            )
            .helps(
                "forget its pods",
                Some(format!("gpuctl delete job {} --force", facts.full_name())),
            ),
        None => cause,
    }
}
