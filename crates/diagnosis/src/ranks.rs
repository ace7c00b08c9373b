//! Evaluates NCCL's RAS reports and the stack traces of a job's ranks. Finds the rank that its
//! peers wait for if metrics do not show it, and adds evidence if they do.

use super::answer::Cause;
use super::facts::Facts;
use gpuctl_core::model::Job;
use gpuctl_core::stats::history::curves::Trace;
use gpuctl_core::stats::logs::stacks::StackGroup;

/// Maximum number of ranks in one line.
const NAMED: usize = 4;
/// At most one in this many ranks can be the rank that its peers wait for.
const FEW: usize = 4;
/// Maximum number of stack locations in the evidence of a cause.
const PLACES: usize = 4;

/// Returns the cause for processes that RAS cannot reach.
pub(super) fn missing(facts: &Facts<'_>) -> Option<Cause> {
    let report = facts.rank_answers.ras.as_ref()?;
    let (processes, state, states) = if report.dead.is_empty() {
        (&report.missing, "does not respond", "do not respond")
    } else {
        (&report.dead, "is considered dead", "are considered dead")
    };
    let first = processes.first()?;
    let state = match processes.len() - 1 {
        0 => state.to_owned(),
        more => format!("and {more} more {states}"),
    };
    let text = format!(
        "NCCL reports that process {} on {} (GPU {}) {state}",
        first.process, first.node, first.gpus
    );
    let mut cause = Cause::new("rank-missing", text, "ras");
    if !report.dead.is_empty() && !report.missing.is_empty() {
        cause = cause.and(
            format!("{} more do not respond", report.missing.len()),
            "ras",
        );
    }
    if !report.missing_ranks.is_empty() {
        let ranks: Vec<String> = report
            .missing_ranks
            .iter()
            .take(NAMED)
            .map(ToString::to_string)
            .collect();
        let more = report.missing_ranks.len().saturating_sub(NAMED);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        cause = cause.and(
            format!(
                "rank {}{more} of its communicator is missing",
                ranks.join(", ")
            ),
            "ras",
        );
    }
    if !facts.subject.is_managed {
        return Some(cause);
    }
    Some(cause.helps(
        "see its first error",
        Some(format!("gpuctl logs {} --first-error", facts.full_name())),
    ))
}

/// Explains from the ranks' responses why a job makes no progress.
pub(super) fn standstill(facts: &Facts<'_>) -> Option<Cause> {
    let cause = by_stacks(facts).or_else(|| by_operations(facts))?;
    Some(with_ranks(facts, cause))
}

/// Compares the stack traces. If only a few ranks are not waiting, their peers wait for them.
fn by_stacks(facts: &Facts<'_>) -> Option<Cause> {
    let stacks = facts.rank_answers.places();
    let ranks =
        |groups: &[&StackGroup]| groups.iter().map(|group| group.ranks.len()).sum::<usize>();
    let rank_count = ranks(&stacks.iter().collect::<Vec<_>>());
    let waits = |group: &&StackGroup| group.in_collective() || group.waits_for_device();
    let (waiting, active): (Vec<&StackGroup>, Vec<&StackGroup>) = stacks.iter().partition(waits);
    let blocking = active
        .iter()
        .find(|group| group.waits_for_data())
        .or(active.first())?;
    // Native frames of the Python interpreter do not show the program's location.
    let are_few = ranks(&active) <= (rank_count / FEW).max(1) && ranks(&waiting) > ranks(&active);
    // A rank without a stack trace could be the one that its peers wait for.
    if facts.rank_answers.unread == 0 && are_few && stacks.iter().all(StackGroup::is_python) {
        let (word, doing) = if blocking.waits_for_data() {
            ("data-stall", "waits for data")
        } else {
            ("collective-hang", "is elsewhere")
        };
        let device = if waiting.iter().all(|group| group.in_collective()) {
            ""
        } else {
            " or for their GPU"
        };
        let text = format!(
            "{} of {rank_count} processes wait in a collective{device}, and {} {doing}",
            ranks(&waiting),
            rank_names(blocking)
        );
        return Some(Cause::new(word, text, "stacks"));
    }
    (blocking.waits_for_data() && blocking.ranks.len() * 2 > rank_count).then(|| {
        Cause::new(
            "data-stall",
            format!(
                "{} of {rank_count} processes wait for data",
                blocking.ranks.len()
            ),
            "stacks",
        )
    })
}

/// Returns the cause for a rank that has launched fewer operations than its peers.
fn by_operations(facts: &Facts<'_>) -> Option<Cause> {
    let behind = facts.rank_answers.ras.as_ref()?.behind.first()?;
    let process = behind
        .process
        .as_ref()
        .map(|process| format!(" (process {} on {})", process.process, process.node));
    let text = format!(
        "rank {} of its communicator{} has launched {} operations, while others have launched {}",
        behind.rank,
        process.unwrap_or_default(),
        behind.operations,
        behind.most
    );
    Some(Cause::new("collective-hang", text, "ras"))
}

/// Adds evidence from the ranks to a cause found by metrics.
pub(super) fn with_ranks(facts: &Facts<'_>, mut cause: Cause) -> Cause {
    // Start with the smallest groups, at the end of the list, because they differ from their peers.
    let places = facts.rank_answers.places();
    for group in places.iter().rev().take(PLACES) {
        cause = cause.and(format!("{}: {}", rank_names(group), group.line()), "stacks");
    }
    if places.len() > PLACES {
        let more = places.len() - PLACES;
        cause = cause.and(
            format!(
                "and {more} more {}",
                if more == 1 { "place" } else { "places" }
            ),
            "stacks",
        );
    }
    let behind = facts
        .rank_answers
        .ras
        .iter()
        .flat_map(|report| &report.behind)
        .take(NAMED);
    for rank in behind
        .filter(|_| {
            cause
                .evidence
                .first()
                .is_none_or(|first| first.seen_in != "ras")
        })
        .collect::<Vec<_>>()
    {
        let text = format!(
            "rank {} of its communicator has launched {} operations, while others have launched {}",
            rank.rank, rank.operations, rank.most
        );
        cause = cause.and(text, "ras");
    }
    cause
}

fn rank_names(group: &StackGroup) -> String {
    match group.ranks.as_slice() {
        [one] => one.clone(),
        several if several.len() <= NAMED => several.join(", "),
        several => format!("{} and {} more", several[0], several.len() - 1),
    }
}

/// Formats the rank and device of a trace, such as `rank 12` and `gpu-b-07/gpu-3`.
pub(super) fn rank_of(job: &Job, trace: &Trace) -> (String, String) {
    let pod = trace
        .pods
        .iter()
        .find_map(|(_, pod)| job.pods.iter().find(|current| current.name == *pod));
    let name = match pod {
        Some(pod) => pod
            .rank
            .map_or_else(|| pod.name.clone(), |rank| format!("rank {rank}")),
        None => "a pod".to_owned(),
    };
    (name, format!("{}/{}", trace.node, trace.id()))
}
