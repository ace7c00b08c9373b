//! Reads why Kueue does not admit a workload: the reason of the condition `QuotaReserved`, and for
//! reasons that cover several causes, its message. Sources: Kueue 0.16 to 0.20,
//! apis/kueue/v1beta2/workload_types.go, pkg/scheduler/scheduler.go,
//! pkg/scheduler/flavorassigner, pkg/cache/scheduler/tas_flavor_snapshot.go and
//! pkg/controller/core/workload_controller.go. Before 0.19, the reason is `Pending` or
//! `Inadmissible` for nearly all causes.

use super::message_pattern::{MessagePattern, captures, word_of};

/// Reasons that name one cause (KEP-10852, Kueue 0.19).
const REASONS: [(&str, &str); 9] = [
    ("TopologyPlacementFailed", "queue-topology"),
    ("ExceedsMaxQuota", "never-fits"),
    ("WaitingForQuota", "queue-quota"),
    ("WaitingForPreemptedWorkloads", "preemption-pending"),
    ("WaitingForPodsReady", "queue-pods-ready"),
    // The name before 0.19.
    ("Waiting", "queue-pods-ready"),
    ("Suspended", "queue-inactive"),
    ("PendingEvaluation", "queue-evaluating"),
    ("AdmissionGated", "queue-gated"),
];

/// Reasons of evictions (condition `Evicted`).
const EVICTIONS: [(&str, &str); 9] = [
    ("Preempted", "preempted"),
    ("PodsReadyTimeout", "queue-pods-timeout"),
    ("AdmissionCheck", "queue-checks"),
    ("ClusterQueueStopped", "queue-inactive"),
    ("LocalQueueStopped", "queue-inactive"),
    ("NodeFailures", "node-lost"),
    ("MaximumExecutionTimeExceeded", "deadline"),
    ("DeactivatedDueToMaximumExecutionTimeExceeded", "deadline"),
    ("Deactivated", "queue-deactivated"),
];

/// Messages about the workload or its queue.
const MESSAGES: [MessagePattern; 17] = [
    ("LocalQueue {} doesn't exist", "queue-missing"),
    ("LocalQueue {} is terminating or missing", "queue-missing"),
    ("ClusterQueue {} doesn't exist", "queue-missing"),
    ("ClusterQueue {} not found", "queue-missing"),
    ("ClusterQueue {} is terminating or missing", "queue-missing"),
    ("LocalQueue {} is inactive", "queue-inactive"),
    ("LocalQueue {} is stopped", "queue-inactive"),
    ("ClusterQueue {} is inactive", "queue-inactive"),
    ("ClusterQueue {} is stopped", "queue-inactive"),
    (
        "Workload namespace doesn't match ClusterQueue selector",
        "queue-namespace",
    ),
    (
        "workload namespace doesn't match ClusterQueue selector",
        "queue-namespace",
    ),
    (
        "waiting for all admitted workloads to be in PodsReady condition",
        "queue-pods-ready",
    ),
    // Before Kueue 0.3, the whole message.
    ("Workload didn't fit in the remaining quota", "queue-quota"),
    ("The workload is deactivated", "queue-deactivated"),
    ("The workload has failed admission checks", "queue-checks"),
    // Not Kueue's: the workload has no condition yet.
    ("Kueue has not processed it yet", "queue-evaluating"),
    (
        "resources didn't satisfy LimitRange constraints: {}",
        "limit-range",
    ),
];

/// Messages about one resource or flavor, parts of `couldn't assign flavors to pod set {}: {}`.
const FLAVORS: [MessagePattern; 17] = [
    (
        "insufficient unused quota for {} in flavor {}, {} more needed",
        "queue-quota",
    ),
    (
        "insufficient quota for {} in flavor {}, previously considered podsets requests ({}) + current podset request ({}) > maximum capacity ({})",
        "never-fits",
    ),
    // Kueue 0.14 and earlier.
    (
        "insufficient quota for {} in flavor {}, request > maximum capacity ({})",
        "never-fits",
    ),
    (
        "insufficient quota for {} in flavor {} in ClusterQueue",
        "never-fits",
    ),
    (
        "borrowing limit for {} in flavor {} exceeded",
        "queue-quota",
    ),
    ("untolerated taint {} in flavor {}", "taint"),
    ("flavor {} doesn't match node affinity", "node-selector"),
    ("flavor {} not found", "queue-flavor-missing"),
    ("resource {} unavailable in ClusterQueue", "queue-resource"),
    (
        "topology \"{}\" doesn't allow to fit any of {} pod(s){}",
        "queue-topology",
    ),
    (
        "topology \"{}\" doesn't allow to fit any of {} slice(s){}",
        "queue-topology",
    ),
    (
        "topology \"{}\" allows to fit only {} out of {}",
        "queue-topology",
    ),
    ("topology \"{}\" doesn't allow to fit{}", "queue-topology"),
    ("no topology domains at level: {}", "queue-topology"),
    (
        "Flavor \"{}\" does not support TopologyAwareScheduling",
        "queue-topology",
    ),
    (
        "Flavor \"{}\" supports only TopologyAwareScheduling",
        "queue-topology",
    ),
    (
        "Flavor \"{}\" does not contain the requested level",
        "queue-topology",
    ),
];

/// Start of each pod set's part of a message.
const POD_SET: &str = "couldn't assign flavors to pod set ";

/// Returns the names of the causes, the most important first. `queue-other` if the reason and the
/// message are unknown.
pub(super) fn causes_of(reason: &str, message: &str) -> Vec<&'static str> {
    let named = |reasons: &[(&str, &'static str)]| {
        let found = reasons.iter().find(|(known, _)| *known == reason);
        found.map(|(_, word)| *word)
    };
    if let Some(word) = named(&REASONS) {
        return vec![word];
    }
    let (message, preempts) = without_preemption(message);
    if preempts {
        return vec!["preemption-pending"];
    }
    let words = match word_of(&MESSAGES, message) {
        Some(word) => vec![word],
        None => flavor_words(message),
    };
    match reason {
        // More quota would not help.
        "NoMatchingFlavor" if !words.iter().any(|word| is_permanent(word)) => vec!["queue-flavor"],
        "NoMatchingFlavor" => words
            .into_iter()
            .filter(|word| is_permanent(word))
            .collect(),
        "Misconfigured" if words.is_empty() => vec!["queue-misconfigured"],
        _ if words.is_empty() => vec!["queue-other"],
        _ => words,
    }
}

/// Returns true for the causes that waiting does not end.
fn is_permanent(word: &str) -> bool {
    (distance("taint")..UNKNOWN).contains(&distance(word))
}

/// Returns the name of the cause of an eviction.
pub(super) fn eviction_word(reason: &str) -> Option<&'static str> {
    let found = EVICTIONS.iter().find(|(known, _)| *known == reason);
    // `DeactivatedDueTo` precedes the reason of the deactivation.
    let is_deactivated = reason.starts_with("DeactivatedDueTo");
    found
        .map(|(_, word)| *word)
        .or_else(|| is_deactivated.then_some("queue-deactivated"))
}

/// Removes the sentence about preemptions. Returns true if Kueue waits for their end.
fn without_preemption(message: &str) -> (&str, bool) {
    const PENDING: &str = "{}. Pending the preemption of {} workload(s)";
    const FAILED: &str = "{}. Preempting {} workload(s) failed, will retry";
    let message = message.trim_end_matches('.');
    if captures(PENDING, message).is_some() {
        return (message, true);
    }
    let failed = captures(FAILED, message);
    (failed.map_or(message, |texts| texts[0]), false)
}

/// A reason of the flavor assigner.
struct FlavorReason<'m> {
    word: &'static str,
    /// `None` if the reason concerns all flavors.
    flavor: Option<&'m str>,
}

/// Returns the causes in a message about pod sets. A pod set needs one flavor that fits, and each
/// pod set needs one: the flavor that is nearest to fitting counts, and then the pod set that is
/// farthest from it.
fn flavor_words(message: &str) -> Vec<&'static str> {
    let Some(pod_sets) = message.strip_prefix(POD_SET) else {
        return best_words(message);
    };
    let separator = format!("; {POD_SET}");
    let sets = pod_sets.split(separator.as_str());
    let words = sets.map(|set| {
        set.split_once(": ")
            .map_or(Vec::new(), |(_, text)| best_words(text))
    });
    words
        .filter(|words| !words.is_empty())
        .max_by_key(|words| distance(words[0]))
        .unwrap_or_default()
}

/// Returns the causes of one pod set, from the flavor that is nearest to fitting.
fn best_words(text: &str) -> Vec<&'static str> {
    let reasons = flavor_reasons(text);
    let of_all = reasons.iter().filter(|reason| reason.flavor.is_none());
    if let Some(reason) = of_all.max_by_key(|reason| distance(reason.word)) {
        return vec![reason.word];
    }
    // The worst reason of each flavor.
    let mut flavors: Vec<(&str, &'static str)> = Vec::new();
    for reason in &reasons {
        let name = reason.flavor.unwrap_or_default();
        match flavors.iter_mut().find(|(flavor, _)| *flavor == name) {
            Some((_, word)) if distance(word) < distance(reason.word) => *word = reason.word,
            Some(_) => {}
            None => flavors.push((name, reason.word)),
        }
    }
    let mut words: Vec<&'static str> = flavors.into_iter().map(|(_, word)| word).collect();
    words.sort_by_key(|word| distance(word));
    words.dedup();
    // With time, quota becomes free, but no flavor changes its labels.
    let may_end = |word: &&'static str| distance(word) <= distance("queue-topology");
    if words.first().is_some_and(&may_end) {
        words.retain(|word| may_end(word));
    }
    words
}

/// Distance of an unknown reason.
const UNKNOWN: usize = 9;

/// How far a reason is from an admission. Waiting ends the first ones.
fn distance(word: &str) -> usize {
    const ORDER: [&str; 8] = [
        "queue-quota",
        "queue-topology",
        "never-fits",
        "taint",
        "node-selector",
        "queue-flavor",
        "queue-flavor-missing",
        "queue-resource",
    ];
    let place = ORDER.iter().position(|known| *known == word);
    place.unwrap_or(UNKNOWN)
}

/// Reads the reasons of one pod set, which commas separate. Some reasons contain commas too, and
/// those about a topology a list of excluded nodes.
fn flavor_reasons(text: &str) -> Vec<FlavorReason<'_>> {
    let mut reasons = Vec::new();
    let mut start = 0;
    while start < text.len() {
        let ends = text[start..]
            .match_indices(", ")
            .map(|(position, _)| start + position)
            .chain([text.len()]);
        let matching = ends
            .take(3)
            .find_map(|end| Some((end, flavor_reason(&text[start..end])?)));
        let next = match matching {
            Some((end, reason)) => {
                reasons.push(reason);
                end
            }
            None => text[start..]
                .find(", ")
                .map_or(text.len(), |position| start + position),
        };
        start = (next + 2).min(text.len());
    }
    reasons
}

fn flavor_reason(text: &str) -> Option<FlavorReason<'_>> {
    let (pattern, word, texts) = FLAVORS
        .iter()
        .find_map(|(pattern, word)| Some((*pattern, *word, captures(pattern, text)?)))?;
    // The name of the flavor follows the word.
    let before = pattern.split("{}");
    let flavor = before
        .zip(&texts)
        .find(|(literal, _)| {
            let literal = literal.trim_end_matches('"').to_ascii_lowercase();
            literal.ends_with("flavor ")
        })
        .map(|(_, text)| *text);
    // A topology belongs to the only flavor that the message is about.
    let flavor = flavor.or((word == "queue-topology").then_some("topology"));
    Some(FlavorReason { word, flavor })
}

/// What a message about a topology states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TopologyFit<'m> {
    pub topology: &'m str,
    /// Number of pods or slices that fit in the nearest domain.
    pub fit: u64,
    pub wanted: u64,
    /// `pod` or `slice`.
    pub unit: &'static str,
    /// Number of nodes, and of those that each obstacle excludes, with Kueue's name of the
    /// obstacle, such as `resource "cpu"` or `taint "a:NoSchedule"`.
    pub nodes: Option<u64>,
    pub excluded: Vec<(&'m str, u64)>,
}

/// Parses the message about a topology without room for the pods.
pub(super) fn topology_fit(message: &str) -> Option<TopologyFit<'_>> {
    let (_, rest) = message.split_once("topology \"")?;
    let (topology, rest) = rest.split_once("\" ")?;
    let (numbers, unit, rest) = ["pod", "slice"].into_iter().find_map(|unit| {
        let (numbers, rest) = rest.split_once(&format!(" {unit}(s)"))?;
        Some((numbers, unit, rest))
    })?;
    let (fit, wanted) = match captures("doesn't allow to fit any of {}", numbers) {
        Some(texts) => (0, texts[0].parse().ok()?),
        None => {
            let texts = captures("allows to fit only {} out of {}", numbers)?;
            (texts[0].parse().ok()?, texts[1].parse().ok()?)
        }
    };
    let totals = rest.strip_prefix(". Total nodes: ");
    let totals = totals.and_then(|rest| rest.split_once("; excluded: "));
    let (nodes, listed) = totals.unwrap_or_default();
    let excluded = listed
        .split(", ")
        .map_while(|entry| {
            let (name, count) = entry.rsplit_once(": ")?;
            Some((name, count.split(['.', ';', ' ']).next()?.parse().ok()?))
        })
        .collect();
    Some(TopologyFit {
        topology,
        fit,
        wanted,
        unit,
        nodes: nodes.parse().ok(),
        excluded,
    })
}

#[cfg(test)]
mod tests;
