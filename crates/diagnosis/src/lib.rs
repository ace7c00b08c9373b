//! Explains why a job waits, failed, hangs or is slow. The diagnosis is a pure function of facts
//! that `observe/why.rs` reads. If the facts are inconclusive, it returns no cause, or all possible
//! causes with the same weight. docs/why.md explains the names of causes.
#![warn(unreachable_pub)]
#![cfg_attr(not(test), warn(clippy::too_many_lines))]

mod answer;
mod autoscaler;
mod bottlenecks;
mod candidates;
mod causes;
mod containers;
mod crashes;
mod dead;
mod deleted;
mod devices;
mod durations;
mod ends;
mod evictions;
mod facts;
mod free_devices;
mod gone;
mod host_faults;
mod images;
mod kueue_messages;
mod log_gaps;
mod message_causes;
mod message_pattern;
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
mod scheduler_messages;
mod shortage;
mod sidecars;
#[cfg(test)]
mod tests;
mod unchecked;
mod waiting;

pub use answer::{Answer, Basis, Cause, HolderTime, Situation};
pub use dead::first_failed;
pub use deleted::{Memory, remembered};
pub use facts::{
    ClaimFact, DeviceError, Facts, LastMessage, LogFacts, PendingPod, RankAnswers, RunningFacts,
    Subject,
};
pub use log_gaps::{is_lost_log, log_gap};
pub use nodes::{insufficient, node_obstacles};

use gpuctl_core::model::{Job, Pod, State, Status};

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
    if answer.situation == Situation::Dead && answer.since.is_none() {
        let first = answer
            .causes
            .first()
            .and_then(|cause| cause.evidence.first());
        answer.since = first.and_then(|evidence| evidence.at);
    }
    // A situation without a cause would only repeat the status of the job.
    if answer.causes.is_empty() && matches!(situation, Situation::Waiting | Situation::Dead) {
        answer.situation = Situation::Unknown;
    }
    if let Some(pending) = &facts.pending {
        answer.not_evaluated = pending.rules.unevaluated_rules(&facts.devices);
    }
    check_helps(facts, &mut answer);
    answer
        .not_evaluated
        .extend(facts.rank_answers.silent.iter().cloned());
    answer.stacks.clone_from(&facts.rank_answers.stacks);
    answer.coverage = Basis {
        nodes: facts.known_nodes(),
        events: facts.events_word(),
    };
    conclude(facts, &state, &mut answer);
    answer
}

/// Marks the helps that are not proven, and removes commands that the API server would reject.
fn check_helps(facts: &Facts<'_>, answer: &mut Answer) {
    let job = facts.job;
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
}

/// Writes the sentence. A running job without a known problem is `unknown` if it was not checked
/// completely.
fn conclude(facts: &Facts<'_>, state: &State, answer: &mut Answer) {
    let gaps = unchecked::gaps(facts, state);
    answer.not_evaluated.extend(gaps.iter().cloned());
    if answer.situation == Situation::Fine && !gaps.is_empty() {
        (answer.situation, answer.is_unchecked) = (Situation::Unknown, true);
        let name = &facts.job.name;
        answer.sentence = format!("{name} is running; not checked: {}", gaps.join(", "));
        return;
    }
    answer.sentence = match running::doubt(facts) {
        Some(doubt) if answer.situation == Situation::Unknown && answer.causes.is_empty() => {
            let is_unasked = facts.rank_answers.places().is_empty();
            answer
                .not_evaluated
                .extend(is_unasked.then(|| running::missing_stacks_note(facts)));
            format!("{}{doubt}", facts.job.name)
        }
        _ => answer::sentence(&facts.job.name, state, answer),
    };
}

fn situation(facts: &Facts<'_>, state: &State) -> (Situation, Vec<Cause>) {
    if let Some(cause) = elsewhere(facts, state) {
        let situation = match state.status {
            Status::Pending => Situation::Waiting,
            // Nothing in this cluster shows whether the pods make progress.
            _ => Situation::Unknown,
        };
        return (situation, vec![cause]);
    }
    match state.status {
        Status::Succeeded => (Situation::Fine, Vec::new()),
        Status::Failed => (Situation::Dead, dead::causes(facts)),
        // Pods of a node that does not respond, unless the Job has failed.
        Status::Unknown => match host_faults::causes(facts) {
            causes if causes.is_empty() => (Situation::Dead, dead::causes(facts)),
            causes => (host_situation(&causes), causes),
        },
        Status::Terminating => {
            let causes = [host_faults::causes(facts), vec![gone::deleted(facts)]].concat();
            (Situation::Dead, causes)
        }
        Status::Paused => (Situation::Waiting, vec![waiting::paused(facts)]),
        Status::Pending => {
            let causes = [unhealthy_hardware(facts), waiting::causes(facts)].concat();
            (Situation::Waiting, causes)
        }
        Status::Running => running_situation(facts, state),
    }
}

/// Checks the nodes and containers of a running job, and then its devices and logs.
fn running_situation(facts: &Facts<'_>, state: &State) -> (Situation, Vec<Cause>) {
    let faults = host_faults::causes(facts);
    // A service with ready pods continues to serve.
    let serves = facts.job.kind.serves() && state.running > 0;
    if !serves && !faults.is_empty() {
        return (host_situation(&faults), faults);
    }
    let evicted = evicted(facts);
    let causes = match evicted.is_empty() {
        // Some pods of a running service may still have a problem: not ready, or not ended yet.
        true => waiting::partial_causes(facts, state),
        false => evicted,
    };
    if !causes.is_empty() {
        return (Situation::Waiting, causes);
    }
    let broken = broken(facts);
    if !broken.is_empty() || !faults.is_empty() {
        let causes = [faults, unhealthy_hardware(facts), broken].concat();
        return (broken_situation(facts), causes);
    }
    let (situation, mut causes) = with_unhealthy_devices(facts, running::causes(facts));
    if let Some(reported) = host_faults::reported(facts) {
        causes.push(reported);
    }
    match situation {
        Situation::Fine if !causes.is_empty() => (Situation::Unknown, causes),
        situation => (situation, causes),
    }
}

/// The situation of a job with pods on nodes that do not respond or are not ready. A node that is
/// not ready may still run its pods.
fn host_situation(causes: &[Cause]) -> Situation {
    match causes.iter().any(|cause| cause.word == "node-lost") {
        true => Situation::Dead,
        false => Situation::Unknown,
    }
}

/// Explains the containers of running pods that do not run, or not steadily, and pods that are not
/// ready.
fn broken(facts: &Facts<'_>) -> Vec<Cause> {
    let pods = facts.job.current_pods().into_iter();
    pods.filter(|pod| !pod.ended() && !pod.deleting)
        .flat_map(|pod| containers::causes(facts, pod))
        .collect()
}

/// A job with a broken container waits if none of the pod's containers runs. Otherwise it is
/// unknown whether it works without that container.
fn broken_situation(facts: &Facts<'_>) -> Situation {
    let waits = |pod: &&Pod| {
        let mut main = pod.containers.iter().filter(|container| !container.is_init);
        !pod.ended() && !pod.containers.is_empty() && !main.any(|container| container.running)
    };
    match facts.job.current_pods().iter().any(waits) {
        true => Situation::Waiting,
        false => Situation::Unknown,
    }
}

/// Explains that another cluster runs the job. Returns no cause for a job that its queue holds
/// back, that has ended or that is paused, which this cluster explains.
fn elsewhere(facts: &Facts<'_>, state: &State) -> Option<Cause> {
    let job = facts.job;
    let remote = job.remote.as_ref().filter(|_| !job.waits_in_queue())?;
    if !matches!(state.status, Status::Pending | Status::Running) {
        return None;
    }
    let cause = Cause::new("runs-elsewhere", remote.to_string(), "job");
    let name = facts.full_name();
    Some(match &remote.cluster {
        // MultiKueue copies the job under its name into the same namespace.
        Some(cluster) => cause.helps(
            format!("use the context of cluster {cluster}, which may have another name"),
            Some(format!("gpuctl why {name} --context {cluster}")),
        ),
        None => cause.helps(
            format!("find the cluster that {} chose", remote.managed_by),
            Some(format!(
                "kubectl get job {} -n {} -o yaml",
                job.name, job.namespace
            )),
        ),
    })
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
