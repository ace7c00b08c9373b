//! Explains why a queue does not admit a job. `kueue_messages.rs` reads Kueue's reasons.

use super::answer::Cause;
use super::facts::Facts;
use super::kueue_messages::{TopologyFit, causes_of, eviction_word, topology_fit};
use super::refused::set;
use gpuctl_core::model::QueueVerdict;

/// Causes for which the position in the queue matters: others must end or be admitted first.
const IN_ORDER: [&str; 4] = [
    "queue-quota",
    "queue-topology",
    "queue-evaluating",
    "queue-pods-ready",
];

/// Explains why the job's queue has not admitted it.
pub(super) fn causes(facts: &Facts<'_>) -> Vec<Cause> {
    let job = facts.job;
    let queue = job.queue.as_deref().unwrap_or("its queue");
    let place = job
        .queue_position
        .filter(|position| position.in_cluster_queue > 1)
        .map(|position| {
            let text = format!(
                "it is at position {position} in queue {queue}, and at {} across all queues that share its quota",
                position.in_cluster_queue
            );
            with_priority(facts, Cause::new("queue-position", text, "queue"))
        });
    let Some(verdict) = &job.queue_verdict else {
        // A full, a stopped and a missing queue look the same if the queue reports no reason.
        return place.into_iter().collect();
    };
    let mut causes = verdict_causes(facts, verdict, queue);
    match (causes.first().map(|cause| cause.word), place) {
        // A job that Kueue has not evaluated waits for those before it.
        (Some("queue-evaluating"), Some(place)) => vec![place],
        (Some(word), Some(place)) if IN_ORDER.contains(&word) => {
            causes.push(place);
            causes
        }
        (Some("queue-quota"), None) => {
            let first = causes.remove(0);
            causes.insert(0, with_priority(facts, first));
            causes
        }
        _ => causes,
    }
}

/// Adds the WorkloadPriorityClass, which orders the jobs of the queue.
fn with_priority(facts: &Facts<'_>, cause: Cause) -> Cause {
    match &facts.job.queue_priority {
        Some(class) => cause.and(format!("its WorkloadPriorityClass is {class}"), "queue"),
        None => cause,
    }
}

fn verdict_causes(facts: &Facts<'_>, verdict: &QueueVerdict, queue: &str) -> Vec<Cause> {
    let text = format!("queue {queue}: {}", verdict.message);
    if verdict.reason == "AdmissionChecks" {
        return vec![checks(facts, verdict, text, queue)];
    }
    let evicted = eviction_word(&verdict.reason);
    let words = match (&verdict.current, evicted) {
        (Some((reason, message)), _) => match causes_of(reason, message).as_slice() {
            // The eviction is known at least.
            ["queue-other"] => vec![evicted.unwrap_or("queue-other")],
            words => words.to_vec(),
        },
        (None, Some(word)) => vec![word],
        (None, None) => causes_of(&verdict.reason, &verdict.message),
    };
    if words == ["queue-checks"] {
        return vec![checks(facts, verdict, text, queue)];
    }
    let weight = equal_weight(&words);
    words
        .into_iter()
        .map(|word| Cause {
            weight,
            ..cause(facts, word, text.clone(), queue)
        })
        .collect()
}

/// Returns the same weight for causes that are equally likely, such as the obstacles of two flavors.
/// 0 leaves the weight to the order.
fn equal_weight(words: &[&str]) -> f64 {
    if words.len() > 1 && !words.contains(&"queue-quota") {
        1.0
    } else {
        0.0
    }
}

/// Builds the cause with this name, with the next thing to check.
fn cause(facts: &Facts<'_>, word: &'static str, text: String, queue: &str) -> Cause {
    let describe = || {
        Some(format!(
            "gpuctl describe queue {queue} -n {}",
            facts.job.namespace
        ))
    };
    let cause = Cause::new(word, text, "queue");
    match word {
        "queue-topology" => topology(facts, cause, queue),
        "queue-missing" => cause.helps(
            "use an existing queue (`gpuctl get queues`)",
            Some(set(facts, "job.queue=NAME")),
        ),
        "never-fits" => cause
            .and(
                format!("queue {queue} could not run it even if it were empty"),
                "queue",
            )
            .helps("request less, or ask for a larger quota", describe()),
        "taint" => cause
            .and(
                "no flavor of the queue has nodes without the taint",
                "queue",
            )
            .helps(
                "tolerate the taint, if the owner of the nodes agrees",
                Some(set(
                    facts,
                    "'pod.tolerations=[{key: KEY, operator: Exists}]'",
                )),
            ),
        "node-selector" => cause
            .and(
                "no flavor of the queue has the requested node labels",
                "queue",
            )
            .helps(
                "ask for labels that a flavor of the queue has, such as another GPU type",
                describe(),
            ),
        word => {
            let next = next_step(word);
            cause.helps(next, describe())
        }
    }
}

/// Returns what helps, or what to check next, for causes whose help does not depend on the job.
fn next_step(word: &str) -> &'static str {
    match word {
        "queue-quota" => "wait for other jobs in the queue to finish, or ask for a larger quota",
        "queue-inactive" => "a queue administrator must start it",
        "queue-pods-ready" => {
            "wait until the pods of the job that was admitted last are ready, or see why they are not"
        }
        "preemption-pending" => "wait until the preempted jobs have ended",
        "queue-resource" => {
            "a queue administrator must add the resource to the queue, or do not request it"
        }
        "queue-namespace" => {
            "use a queue that admits jobs of this namespace, or ask its administrator"
        }
        "queue-flavor-missing" => "a queue administrator must create the ResourceFlavor",
        "queue-flavor" => "compare the flavors of the queue with the job's labels and tolerations",
        "queue-misconfigured" => "a queue administrator must correct what Kueue names",
        "queue-deactivated" => "activate its Workload, or submit it again",
        "queue-pods-timeout" => "see why its pods did not become ready in time",
        "queue-evaluating" => "wait until Kueue evaluates it, or see whether Kueue runs",
        "queue-gated" => "the controller that holds it back must release it",
        "preempted" => "wait until its queue admits it again, or use a higher priority",
        _ => "compare Kueue's words with the settings of the queue",
    }
}

/// Adds the arithmetic of a topology: how many pods fit in the nearest domain, and what excludes
/// the nodes.
fn topology(facts: &Facts<'_>, cause: Cause, queue: &str) -> Cause {
    let describe = Some(format!(
        "gpuctl describe queue {queue} -n {}",
        facts.job.namespace
    ));
    let verdict = facts.job.queue_verdict.as_ref();
    let message = verdict.map_or("", |verdict| verdict.message.as_str());
    let Some(fit) = topology_fit(message) else {
        return cause.helps(
            "compare the topology that the job requests with that of the queue's flavors",
            describe,
        );
    };
    let TopologyFit {
        topology,
        fit: fitting,
        wanted,
        unit,
        ..
    } = fit;
    let cause = cause.and(
        format!(
            "the nearest domain of topology {topology} has room for {fitting} of {wanted} {unit}s"
        ),
        "queue",
    );
    let cause = match excluded(&fit) {
        Some(excluded) => cause.and(excluded, "queue"),
        None => cause,
    };
    cause
        .helps(
            "wait for other jobs in the topology to finish, or request fewer or smaller pods",
            describe,
        )
        .helps(
            "a preferred topology instead of a required one lets the pods spread",
            Some("gpuctl explain job.topology".to_owned()),
        )
}

/// Describes what excludes nodes of a topology, such as `of 4 nodes, 3 have too little free cpu`.
fn excluded(fit: &TopologyFit<'_>) -> Option<String> {
    let describe = |(name, count): &(&str, u64)| {
        let quoted = |kind: &str| {
            let rest = name.strip_prefix(kind)?;
            Some(rest.trim().trim_matches('"').to_owned())
        };
        if let Some(resource) = quoted("resource") {
            return format!("{count} have too little free {resource}");
        }
        if let Some(taint) = quoted("taint") {
            return format!("{count} have the taint {taint}");
        }
        match *name {
            "nodeSelector" | "affinity" => format!("{count} lack the requested labels"),
            name => format!("{count} are excluded by {name}"),
        }
    };
    let nodes = fit.nodes.filter(|_| !fit.excluded.is_empty())?;
    let parts: Vec<String> = fit.excluded.iter().map(describe).collect();
    Some(format!("of {nodes} nodes, {}", parts.join(", ")))
}

/// Explains the admission checks that hold back a job with reserved quota.
fn checks(facts: &Facts<'_>, verdict: &QueueVerdict, text: String, queue: &str) -> Cause {
    let mut cause = Cause::new("queue-checks", text, "queue");
    if let Some(remote) = facts
        .job
        .remote
        .as_ref()
        .filter(|remote| !remote.candidates.is_empty())
    {
        cause = cause.and(remote.to_string(), "queue");
    }
    let rejected = verdict
        .checks
        .iter()
        .find(|check| check.state == "Rejected");
    let (help, command) = match rejected.or(verdict.checks.first()) {
        Some(check) => {
            let text = match check.state.as_str() {
                "Rejected" => "it must change, because the check rejected it; see the check",
                "Retry" => "Kueue tries again later; see the check",
                _ => "see the check and the controller behind it",
            };
            (
                text,
                format!("kubectl describe admissioncheck {}", check.name),
            )
        }
        None => (
            "see the check's message",
            format!("gpuctl describe queue {queue} -n {}", facts.job.namespace),
        ),
    };
    cause.helps(help, Some(command))
}
