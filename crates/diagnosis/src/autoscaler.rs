//! Reads what autoscalers report about a pod without a node. Sources: cluster-autoscaler 1.34
//! (processors/status/eventing_scale_up_processor.go, core/scaleup), GKE and AKS, which run it,
//! and Karpenter 1.8 (pkg/controllers/provisioning/scheduling).

use super::answer::{Cause, Evidence};
use super::facts::{Facts, PendingPod};
use super::message_pattern::{MessagePattern, captures, word_of};
use super::scheduler::{counted, split};
use gpuctl_core::model::Event;

/// Seconds within which a node announced by an autoscaler usually joins the cluster.
const SCALE_UP_SECONDS: i64 = 900;

/// The provider has no such node now, and the autoscaler tries again.
const WAITS: &str = "autoscaler-waits";
/// A limit, a pool or the pod must change first.
const REFUSED: &str = "autoscaler-refused";
/// The nodes of a pool would not fit the pod.
const MISMATCH: &str = "mismatch";

/// Parts of cluster-autoscaler's `pod didn't trigger scale-up`, after the number of pools.
const SKIPPED: [MessagePattern; 5] = [
    ("max node group size reached", REFUSED),
    ("max cluster {} limit reached", REFUSED),
    ("max limit reached", REFUSED),
    ("in backoff after failed scale-up", WAITS),
    ("not ready for scale-up", WAITS),
];

/// Causes in GKE's and cluster-autoscaler's `FailedScaleUp`.
const FAILED: [MessagePattern; 8] = [
    (
        "Node scale up in zones {} associated with this pod failed: GCE quota exceeded. {}",
        REFUSED,
    ),
    (
        "Node scale up in zones {} associated with this pod failed: IP space exhausted. {}",
        REFUSED,
    ),
    (
        "Node scale up in zones {} associated with this pod failed: {}",
        WAITS,
    ),
    (
        "Node scale up in zones associated with this pod failed: {}",
        WAITS,
    ),
    ("GCE quota exceeded{}", REFUSED),
    ("IP space exhausted{}", REFUSED),
    ("GCE out of resources{}", WAITS),
    ("Internal error{}", WAITS),
];

/// Beginning of Karpenter's message for `FailedScheduling`, a reason that kube-scheduler has too.
const KARPENTER: &str = "Failed to schedule pod, {}";
/// Karpenter's reasons for one pool. All others concern labels and taints of the pool.
const POOLS: [MessagePattern; 3] = [
    ("all available instance types exceed limits for {}", REFUSED),
    ("incompatible with nodepool{}, no instance type {}", REFUSED),
    (
        "incompatible with provisioner{}, no instance type {}",
        REFUSED,
    ),
];

/// What the newest event of an autoscaler states about the pod.
enum ScaleUp<'e> {
    /// A node is on its way.
    Announced(&'e Event),
    Waits(&'e Event),
    Refused(&'e Event),
    /// No pool of the autoscaler has nodes for the pod.
    NoPool(&'e Event),
}

/// Adds what the autoscaler reports to the causes of a pod without a node.
pub(super) fn explain(facts: &Facts<'_>, pending: &PendingPod, causes: &mut Vec<Cause>) {
    let Some(report) = newest(facts, &pending.name) else {
        return;
    };
    let (word, event, text) = match report {
        ScaleUp::Announced(event) => {
            let text = format!("an autoscaler is adding a node: {}", event.message);
            // The new node will end the wait, whatever else is missing now.
            causes.insert(
                0,
                Cause::new("node-starting", text, "events").when(event.at),
            );
            return;
        }
        ScaleUp::Waits(event) => (WAITS, event, "cannot add a node now"),
        ScaleUp::Refused(event) => (REFUSED, event, "cannot add a node"),
        ScaleUp::NoPool(event) => (REFUSED, event, "has no pool with such nodes"),
    };
    let is_absent = causes
        .first()
        .is_none_or(|first| matches!(first.word, "node-selector" | "gpu-type-absent" | "no-nodes"));
    let quote = format!("the autoscaler {text}: {}: {}", event.reason, event.message);
    // With such nodes, the job waits for others to end. Without them, only the autoscaler helps.
    if is_absent && !matches!(report, ScaleUp::NoPool(_)) {
        let missing = causes.first().and_then(|first| first.evidence.first());
        let text = match missing {
            Some(missing) => format!("{} now, and {quote}", missing.text),
            None => quote,
        };
        let cause = Cause::new(word, text, "events").when(event.at);
        causes.insert(0, with_help(cause, word));
        return;
    }
    if let Some(first) = causes.first_mut() {
        // Insert the evidence second, because short output omits the last lines.
        let evidence = Evidence {
            text: quote.clone(),
            seen_in: "events",
            at: event.at,
        };
        first.evidence.insert(1.min(first.evidence.len()), evidence);
    }
    let cause = Cause::new(word, quote, "events").when(event.at);
    causes.push(with_help(cause, word));
}

fn with_help(cause: Cause, word: &str) -> Cause {
    if word == WAITS {
        return cause.helps(
            "wait until the provider has such nodes, or ask for another GPU type, zone or pool",
            Some("gpuctl free".to_owned()),
        );
    }
    cause.helps(
        "an administrator must raise the limit that the autoscaler names, or add a pool",
        Some("gpuctl get pools".to_owned()),
    )
}

/// Returns the newest report of an autoscaler about the pod. Ignores an announced node that has
/// not joined within the usual time.
fn newest<'f>(facts: &Facts<'f>, pod: &str) -> Option<ScaleUp<'f>> {
    let object = format!("Pod/{pod}");
    let events = facts
        .events?
        .iter()
        .rev()
        .filter(|event| event.object == object);
    let mut reports = events.filter_map(report);
    match reports.next()? {
        ScaleUp::Announced(event) => {
            let age = event
                .at
                .map(|time| facts.now.as_second() - time.as_second());
            age.is_none_or(|age| age < SCALE_UP_SECONDS)
                .then_some(ScaleUp::Announced(event))
        }
        report => Some(report),
    }
}

fn report(event: &Event) -> Option<ScaleUp<'_>> {
    let message = event.message.as_str();
    match event.reason.as_str() {
        "TriggeredScaleUp" | "Nominated" => Some(ScaleUp::Announced(event)),
        "NotTriggerScaleUp" => Some(not_triggered(event)),
        "FailedScaleUp" => Some(match word_of(&FAILED, message) {
            Some(REFUSED) => ScaleUp::Refused(event),
            _ => ScaleUp::Waits(event),
        }),
        // Karpenter's providers report these on the NodeClaim, and some versions on the pod.
        "InsufficientCapacityError" | "UnfulfillableCapacity" => Some(ScaleUp::Waits(event)),
        "FailedScheduling" => captures(KARPENTER, message).map(|texts| {
            let mut pools = texts[0].split("; ");
            match pools.any(|pool| word_of(&POOLS, pool).is_some()) {
                true => ScaleUp::Refused(event),
                false => ScaleUp::NoPool(event),
            }
        }),
        _ => None,
    }
}

/// Reads `pod didn't trigger scale-up: 2 max node group size reached, 1 node(s) …`. One pool that
/// would fit decides, because the others never help.
fn not_triggered(event: &Event) -> ScaleUp<'_> {
    let parts =
        captures("pod didn't trigger scale-up: {}", &event.message).map_or("", |texts| texts[0]);
    let words: Vec<&str> = split(parts)
        .into_iter()
        .map(|part| word_of(&SKIPPED, counted(part).1).unwrap_or(MISMATCH))
        .collect();
    if words.contains(&WAITS) {
        ScaleUp::Waits(event)
    } else if words.contains(&REFUSED) {
        ScaleUp::Refused(event)
    } else {
        ScaleUp::NoPool(event)
    }
}

#[cfg(test)]
mod tests;
