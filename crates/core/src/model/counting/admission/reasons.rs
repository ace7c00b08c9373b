//! Sentences and causes of the simulation. The causes are those of `why`.

use super::answer::{MissingQuota, QueueAdmission};
use super::assignment::{FlavorAssignment, FlavorAttempt, QuotaShortage};
use super::facts::{ClusterQueue, FlavorExclusion, PreemptionPolicy};
use crate::model::counting::fit_reason::FitReason;
use crate::model::values::quantity;

/// Formats an amount in thousandths as a quantity, such as `8`, `500m` or `64Gi`.
pub fn quota_amount(resource: &str, milli: i128) -> String {
    let units = u64::try_from(milli / 1000).unwrap_or(0);
    match resource {
        "memory" | "ephemeral-storage" => quantity::binary(units),
        _ if resource.starts_with("hugepages-") => quantity::binary(units),
        _ if milli % 1000 != 0 => format!("{milli}m"),
        _ => units.to_string(),
    }
}

pub(super) fn namespace(queue: &str, cluster_queue: &str) -> FitReason {
    let text = format!(
        "queue {queue}: ClusterQueue {cluster_queue} does not accept jobs of this namespace"
    );
    FitReason::new("queue-namespace", text)
}

pub(super) fn cycle(queue: &str, cohort: &str) -> FitReason {
    let text =
        format!("queue {queue}: cohort {cohort} is its own ancestor, so Kueue admits nothing");
    FitReason::new("queue-inactive", text)
}

/// Returns the reason why Kueue does not admit a job, or never does.
pub(super) fn refusal(
    answer: &QueueAdmission,
    cluster_queue: &str,
    failed: &FlavorAssignment,
    never: bool,
) -> FitReason {
    let mut parts: Vec<String> = failed
        .uncovered
        .iter()
        .map(|(resource, _)| format!("ClusterQueue {cluster_queue} has no quota for {resource}"))
        .collect();
    if failed.uncovered.is_empty() {
        parts.extend(
            failed
                .attempts
                .iter()
                .filter_map(|attempt| attempt_text(attempt, never)),
        );
    }
    if parts.is_empty() {
        parts.push(format!("ClusterQueue {cluster_queue} has no flavor for it"));
    }
    let text = format!("queue {}: {}", answer.queue, parts.join("; "));
    FitReason::new(cause(failed, never), text)
}

fn cause(failed: &FlavorAssignment, never: bool) -> &'static str {
    let usable = failed
        .attempts
        .iter()
        .any(|attempt| attempt.exclusion.is_none());
    let mut exclusions = failed
        .attempts
        .iter()
        .filter_map(|attempt| attempt.exclusion.as_ref());
    match exclusions.next() {
        _ if !never => "queue-quota",
        Some(FlavorExclusion::Taint(_)) if !usable && failed.uncovered.is_empty() => "taint",
        Some(_) if !usable && failed.uncovered.is_empty() => "node-selector",
        _ => "never-fits",
    }
}

fn attempt_text(attempt: &FlavorAttempt, never: bool) -> Option<String> {
    let flavor = &attempt.flavor;
    match &attempt.exclusion {
        Some(FlavorExclusion::Label(label) | FlavorExclusion::LabelOfOtherFlavor(label)) => {
            return Some(format!(
                "flavor {flavor} does not match the node selector ({label})"
            ));
        }
        Some(FlavorExclusion::Taint(taint)) => {
            return Some(format!("flavor {flavor} has the taint {taint}"));
        }
        None => {}
    }
    let shortage = |shortage: &QuotaShortage| {
        let resource = &shortage.quota.resource;
        let text = |milli| quota_amount(resource, milli);
        if shortage.requested > shortage.most {
            let (requested, most) = (text(shortage.requested), text(shortage.most.max(0)));
            format!("{requested} {resource} requested, at most {most} possible")
        } else {
            let more = text(shortage.requested - shortage.available);
            format!("{more} more {resource} needed")
        }
    };
    let is_shown = |shortage: &&QuotaShortage| !never || shortage.requested > shortage.most;
    let parts: Vec<String> = attempt
        .shortages
        .iter()
        .filter(is_shown)
        .map(shortage)
        .collect();
    (!parts.is_empty()).then(|| format!("flavor {flavor}: {}", parts.join(", ")))
}

/// Lists the missing quota in each flavor that was tried.
pub(super) fn missing(failed: &FlavorAssignment, never: bool) -> Vec<MissingQuota> {
    let uncovered = failed
        .uncovered
        .iter()
        .map(|(resource, amount)| MissingQuota {
            resource: resource.clone(),
            flavor: None,
            amount: *amount,
            most: 0,
        });
    let shortages = failed
        .attempts
        .iter()
        .flat_map(|attempt| &attempt.shortages);
    let in_flavors = shortages
        .filter(|shortage| !never || shortage.requested > shortage.most)
        .map(|shortage| MissingQuota {
            resource: shortage.quota.resource.clone(),
            flavor: Some(shortage.quota.flavor.clone()),
            amount: shortage.requested - shortage.available.max(0),
            most: shortage.most.max(0),
        });
    uncovered.chain(in_flavors).collect()
}

/// Returns the reason for a job that is admitted after preemption.
pub(super) fn preempts(answer: &QueueAdmission, rules: &ClusterQueue) -> FitReason {
    let text = format!(
        "queue {}: Kueue would preempt {} ({})",
        answer.queue,
        answer.preempts.join(", "),
        policies(rules)
    );
    FitReason::new("queue-quota", text)
}

/// Names the policies that allow preemption, as in the ClusterQueue.
fn policies(rules: &ClusterQueue) -> String {
    let word = |policy| match policy {
        PreemptionPolicy::Never => "Never",
        PreemptionPolicy::LowerPriority => "LowerPriority",
        PreemptionPolicy::Any => "Any",
    };
    let preemption = rules.preemption;
    let all = [
        ("withinClusterQueue", preemption.within_queue),
        ("reclaimWithinCohort", preemption.within_cohort),
    ];
    let allowed = all
        .iter()
        .filter(|(_, policy)| *policy != PreemptionPolicy::Never)
        .map(|(name, policy)| format!("{name}: {}", word(*policy)));
    allowed.collect::<Vec<_>>().join(", ")
}

/// Returns the reason for a job that waits behind others.
pub(super) fn position(answer: &QueueAdmission, cluster_queue: &str) -> FitReason {
    let text = format!(
        "queue {}: {} before it, and ClusterQueue {cluster_queue} admits jobs in order (StrictFIFO)",
        answer.queue,
        match answer.ahead.as_slice() {
            [one] => format!("{one} waits"),
            [first, rest @ ..] => format!("{first} and {} more wait", rest.len()),
            [] => "other jobs wait".to_owned(),
        }
    );
    FitReason::new("queue-position", text)
}

pub(super) fn check(name: &str, cluster_queue: &str) -> FitReason {
    FitReason::new(
        "queue-checks",
        format!("admission check {name} of ClusterQueue {cluster_queue}"),
    )
}

pub(super) fn topology(topology: &str, flavor: &str) -> FitReason {
    FitReason::new(
        "queue",
        format!("placement by topology {topology} of flavor {flavor}"),
    )
}

pub(super) fn unknown_usage(cluster_queue: &str) -> FitReason {
    let text =
        format!("the used quota of ClusterQueue {cluster_queue}, which Kueue has not reported");
    FitReason::new("queue", text)
}

pub(super) fn unknown_cohort(cohort: &str) -> FitReason {
    let text = format!("the quota of cohort {cohort}: you are not allowed to list cohorts");
    FitReason::new("queue", text)
}

pub(super) fn unknown_flavors() -> FitReason {
    FitReason::new(
        "queue",
        "flavors: you are not allowed to list resourceflavors",
    )
}

pub(super) fn unknown_namespace(cluster_queue: &str) -> FitReason {
    let text = format!(
        "whether ClusterQueue {cluster_queue} accepts jobs of this namespace: you are not allowed to \
         read the namespace"
    );
    FitReason::new("queue-namespace", text)
}

pub(super) fn unknown_preemption(rules: &ClusterQueue) -> FitReason {
    let text = match rules.shares_fairly {
        true => "preemption in Kueue by fair sharing",
        false => "preemption in Kueue: you are not allowed to list all workloads, or the priority",
    };
    FitReason::new("queue", text)
}

pub(super) fn uncertain_flavor() -> FitReason {
    FitReason::new("queue", "whether Kueue preempts in an earlier flavor")
}

pub(super) fn other_labels() -> FitReason {
    let text =
        "whether a label of another flavor excludes a flavor, which depends on Kueue's version";
    FitReason::new("queue", text)
}

pub(super) fn untried(queue: &str) -> FitReason {
    let text = format!("jobs before it in queue {queue} that Kueue has not tried to admit yet");
    FitReason::new("queue-position", text)
}

pub(super) fn unseen_waiting(queue: &str) -> FitReason {
    let text = format!("the order of jobs that wait in queue {queue}, which you cannot read");
    FitReason::new("queue-position", text)
}

pub(super) fn strict_neighbor(cluster_queue: &str) -> FitReason {
    let text = format!(
        "quota that ClusterQueue {cluster_queue} reserves for its first waiting job (StrictFIFO)"
    );
    FitReason::new("queue", text)
}
