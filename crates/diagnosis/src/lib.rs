//! Explains why a job waits, failed, hangs or is slow. The diagnosis is a pure function of facts
//! that `observe/why.rs` reads. If the facts are inconclusive, it returns no cause, or all possible
//! causes with the same weight. docs/why.md explains the names of causes.
#![warn(unreachable_pub)]
#![cfg_attr(not(test), warn(clippy::too_many_lines))]

mod answer;
mod bottlenecks;
mod candidates;
mod causes;
mod containers;
mod crashes;
mod dead;
mod deleted;
mod devices;
mod ends;
mod evictions;
mod facts;
mod free_devices;
mod gone;
mod log_gaps;
mod message_causes;
mod nodes;
mod placement;
mod pod_texts;
mod prerequisites;
mod queued;
mod ranks;
mod refused;
mod rejections;
mod running;
mod scheduler;
mod shortage;
#[cfg(test)]
mod tests;
mod waiting;

pub use answer::{Answer, Basis, Cause, HolderTime, Situation};
pub use dead::first_failed;
pub use deleted::{Memory, remembered};
pub use facts::{
    ClaimFact, DeviceError, Facts, LastMessage, PendingPod, RankAnswers, RunningFacts, Subject,
};
pub use log_gaps::{is_lost_log, log_gap};
pub use nodes::{insufficient, node_obstacles};

use gpuctl_core::model::{Job, State, Status};

/// Returns true if the job waits until other jobs end or move.
pub fn waits_for_capacity(answer: &Answer) -> bool {
    const OTHERS: [&str; 4] = [
        "fragmented",
        "gang-incomplete",
        "peers-waiting",
        "preemption-pending",
    ];
    let waits = |cause: &Cause| candidates::is_shortage(cause.word) || OTHERS.contains(&cause.word);
    answer.situation == Situation::Waiting && answer.causes.first().is_some_and(waits)
}

/// Determines the situation of a job and its causes.
pub fn diagnose(facts: &Facts<'_>) -> Answer {
    let job = facts.job;
    let state = State::from_job(job);
    let (situation, mut causes) = situation(facts, &state);
    // A job that runs with all of its pods is not affected yet.
    let is_affected = matches!(situation, Situation::Waiting | Situation::Dead);
    if facts.namespace_terminating && is_affected {
        causes.insert(0, refused::terminating(&job.namespace));
    }
    let mut answer = Answer {
        situation,
        since: since(job, situation),
        causes: answer::weighed(causes),
        ..Answer::default()
    };
    // A situation without a cause would only repeat the status of the job.
    if answer.causes.is_empty() && matches!(situation, Situation::Waiting | Situation::Dead) {
        answer.situation = Situation::Unknown;
    }
    if let Some(pending) = &facts.pending {
        answer.not_evaluated = pending.rules.unevaluated_rules(&facts.devices);
    }
    // Capacity for one pod does not start the whole job, and constraints that were not evaluated
    // may exclude the pod.
    let unsure = !answer.not_evaluated.is_empty()
        || !facts.subject.is_managed
        || facts
            .pending
            .as_ref()
            .is_some_and(|pending| u64::from(job.pods_wanted) > pending.together);
    if unsure {
        answer
            .causes
            .iter_mut()
            .flat_map(|cause| &mut cause.helps)
            .for_each(|help| help.proven = false);
    }
    answer
        .causes
        .iter_mut()
        .flat_map(|cause| &mut cause.helps)
        .for_each(|help| refused::fit_to_subject(facts, help));
    answer
        .not_evaluated
        .extend(facts.rank_answers.silent.iter().cloned());
    answer.stacks.clone_from(&facts.rank_answers.stacks);
    let gaps = [gap_of_devices(facts, &state), gap_of_bottlenecks(facts)];
    answer
        .not_evaluated
        .extend(gaps.into_iter().flatten().map(ToOwned::to_owned));
    answer.coverage = Basis {
        nodes: facts.known_nodes(),
        events: facts.events_word(),
    };
    answer.sentence = match running::doubt(facts) {
        Some(doubt) if answer.situation == Situation::Unknown && answer.causes.is_empty() => {
            let is_unasked = facts.rank_answers.places().is_empty();
            answer
                .not_evaluated
                .extend(is_unasked.then(|| running::missing_stacks_note(facts)));
            format!("{}{doubt}", job.name)
        }
        _ => answer::sentence(&job.name, &state, &answer),
    };
    answer
}

fn situation(facts: &Facts<'_>, state: &State) -> (Situation, Vec<Cause>) {
    match state.status {
        Status::Succeeded => (Situation::Fine, Vec::new()),
        Status::Failed | Status::Unknown => (Situation::Dead, dead::causes(facts)),
        Status::Terminating => (Situation::Dead, vec![gone::deleted(facts)]),
        Status::Paused => (Situation::Waiting, vec![waiting::paused(facts)]),
        Status::Pending => {
            let causes = [unhealthy_hardware(facts), waiting::causes(facts)].concat();
            (Situation::Waiting, causes)
        }
        // Some pods of a running service may still have a problem: not ready, or not ended yet.
        Status::Running => {
            let evicted = evicted(facts);
            let causes = if evicted.is_empty() {
                waiting::partial_causes(facts, state)
            } else {
                evicted
            };
            match causes.is_empty() {
                true => with_unhealthy_devices(facts, running::causes(facts)),
                false => (Situation::Waiting, causes),
            }
        }
    }
}

/// Adds the missing nodes and unhealthy devices of a running job to its problems. Without another
/// problem, it is unknown whether the pod or the device still works.
fn with_unhealthy_devices(
    facts: &Facts<'_>,
    problem: Option<(Situation, Vec<Cause>)>,
) -> (Situation, Vec<Cause>) {
    let unhealthy = unhealthy_hardware(facts);
    match problem {
        Some((situation, causes)) => (situation, [unhealthy, causes].concat()),
        None if unhealthy.is_empty() => (running::quiet(facts), unhealthy),
        None => (Situation::Unknown, unhealthy),
    }
}

/// Finds the pods on missing nodes and those that use unhealthy devices.
fn unhealthy_hardware(facts: &Facts<'_>) -> Vec<Cause> {
    let pods = facts.job.current_pods().into_iter();
    let unhealthy = pods.filter_map(|pod| devices::unhealthy(facts, pod));
    nodes::gone(facts).into_iter().chain(unhealthy).collect()
}

/// The gap in the answer when the devices of a running job have no metrics.
fn gap_of_devices(facts: &Facts<'_>, state: &State) -> Option<&'static str> {
    let is_measured = facts
        .running
        .as_ref()
        .is_some_and(|running| !running.traces.is_empty());
    (state.status == Status::Running && !is_measured).then_some("activity of its GPUs: no metrics")
}

/// Returns the note for missing metrics of links, ports and CPU limits.
fn gap_of_bottlenecks(facts: &Facts<'_>) -> Option<&'static str> {
    let running = facts.running.as_ref()?;
    (running.bottlenecks.is_none() && !running.traces.is_empty())
        .then_some("links, network ports and CPU limits: Prometheus did not answer")
}

/// Returns the causes for evicted pods that still seem to run.
fn evicted(facts: &Facts<'_>) -> Vec<Cause> {
    let living = facts
        .job
        .current_pods()
        .into_iter()
        .filter(|pod| !pod.ended() && !pod.deleting);
    living
        .filter_map(|pod| containers::evicted(facts, pod))
        .collect()
}

/// Returns when the situation began, as far as the pods show it.
fn since(job: &Job, situation: Situation) -> Option<jiff::Timestamp> {
    match situation {
        Situation::Waiting => {
            let waiting = job
                .current_pods()
                .into_iter()
                .filter(|pod| !pod.ended() && !pod.ready)
                .filter_map(|pod| pod.created_at);
            waiting.min().or(job.created_at)
        }
        Situation::Dead => job
            .finished_at
            .or_else(|| job.pods.iter().filter_map(|pod| pod.ended_at).min()),
        _ => job.ended_at().or_else(|| job.started_at()),
    }
}
