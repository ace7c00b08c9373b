//! Explains why a job waits: a queue, a rejection, missing capacity, or containers that do not
//! start. The checks follow the life of a pod.

use super::answer::{Cause, Evidence};
use super::facts::{Facts, PendingPod};
use super::prerequisites::{by_quota, claims};
use super::scheduler::{OTHER, reasons};
use super::{autoscaler, containers, ends, placement, queued, refused};
use gpuctl_core::model::{GroupVerdict, Pod, PodPhase, State};

/// Seconds within which a scheduler processes a new pod.
const SCHEDULER_SECONDS: i64 = 20;
/// Reasons of KAI Scheduler for a group in a queue at its limit (pkg/apis/scheduling/v2alpha2).
const OVER_QUOTA: [&str; 2] = ["OverLimit", "NonPreemptibleOverQuota"];

/// Builds the cause for a paused job, with the command that resumes it.
pub(super) fn paused(facts: &Facts<'_>) -> Cause {
    let job = facts.job;
    if facts.subject.is_managed {
        let kind = if job.kind.serves() { "service" } else { "job" };
        let resume = format!("gpuctl resume job {}", facts.full_name());
        return Cause::new("paused", format!("the {kind} is paused"), "job")
            .helps("resume it", Some(resume));
    }
    let (text, command) = if job.kind.serves() {
        (
            format!("{} has 0 replicas", facts.subject.kind),
            Some(format!(
                "kubectl scale {}/{} -n {} --replicas 1",
                facts.subject.kind, job.name, job.namespace
            )),
        )
    } else {
        let kind = &facts.subject.kind;
        let patch = "--type merge -p '{\"spec\":{\"suspend\":false}}'";
        let command = format!(
            "kubectl patch {kind} {} -n {} {patch}",
            job.name, job.namespace
        );
        // Suggest no command for other kinds, which are suspended through other fields.
        (
            "it is suspended".to_owned(),
            Some(command).filter(|_| matches!(kind.as_str(), "job" | "jobset")),
        )
    };
    Cause::new("suspended", text, "job").helps("resume it", command)
}

/// Explains why a job waits.
pub(super) fn causes(facts: &Facts<'_>) -> Vec<Cause> {
    let job = facts.job;
    if job.waits_in_queue() {
        return queued::causes(facts);
    }
    let pods: Vec<&Pod> = job
        .current_pods()
        .into_iter()
        .filter(|pod| !pod.deleting)
        .collect();
    let mut causes: Vec<Cause> = Vec::new();
    let alive: Vec<&&Pod> = pods.iter().filter(|pod| !pod.ended()).collect();
    let lacks = alive.len() + (job.pods_done as usize) < job.pods_wanted as usize;
    if let Some(message) = job.create_failure.as_deref().filter(|_| lacks) {
        causes.push(refused::cause(facts, message));
    // A quota can be the cause without an event, because events expire after an hour.
    } else if lacks && alive.is_empty() {
        causes.extend(by_quota(facts));
    }
    causes.extend(unplaced(facts));
    let placed: Vec<&&Pod> = alive
        .iter()
        .copied()
        .filter(|pod| pod.node.is_some())
        .collect();
    // Include all pods, because peers wait for a rank that cannot start. Duplicate causes are
    // removed later.
    causes.extend(placed.iter().flat_map(|pod| containers::causes(facts, pod)));
    if !placed.is_empty()
        && placed.len() < job.pods_wanted as usize
        && !job.kind.serves()
        && !causes.is_empty()
    {
        let text = format!(
            "{} of {} pods have nodes and hold {} GPUs while they wait for the others",
            placed.len(),
            job.pods_wanted,
            job.gpus_held()
        );
        let cause = Cause::new("peers-waiting", text, "pod");
        causes.push(cause.helps(
            "resubmit it so that its pods are scheduled together",
            Some("gpuctl explain job.gang".to_owned()),
        ));
    }
    if causes.is_empty() {
        causes.extend(retrying(facts, &pods));
    }
    causes
}

/// Explains why some pods of a running service are not ready.
pub(super) fn partial_causes(facts: &Facts<'_>, state: &State) -> Vec<Cause> {
    if state.running >= state.wanted && state.reason.is_none() {
        return Vec::new();
    }
    let causes = causes(facts);
    if causes.is_empty() && state.reason.as_deref() == Some("RollingOut") {
        let text = "a new version is replacing the old one".to_owned();
        return vec![Cause::new("rollout-waiting", text, "job")];
    }
    causes
}

/// Explains why a pod has no node.
fn unplaced(facts: &Facts<'_>) -> Vec<Cause> {
    let Some(pending) = &facts.pending else {
        return Vec::new();
    };
    let gates = pending.rules.gates();
    if !gates.is_empty() {
        let text = format!(
            "{} is held back by the scheduling gate {}",
            pending.name,
            gates.join(", ")
        );
        // Kueue gates the pods of its pod integration and of topologies.
        let is_kueue = gates.iter().any(|gate| gate.starts_with("kueue.x-k8s.io/"));
        let (help, command) = if is_kueue {
            let list = format!("kubectl describe workloads -n {}", facts.job.namespace);
            (
                "Kueue must admit it; see the conditions of its Workload",
                Some(list),
            )
        } else {
            ("the controller that set the gate must remove it", None)
        };
        return vec![Cause::new("scheduling-gate", text, "pod").helps(help, command)];
    }
    let queue = volcano(facts);
    if pending.unscheduled.is_none() {
        return unseen(facts, pending, queue);
    }
    if let Some(node) = &pending.nominated {
        let text = format!(
            "lower-priority pods on {node} are being preempted for {}",
            pending.name
        );
        return vec![Cause::new("preemption-pending", text, "pod")];
    }
    let mut causes = claims(facts);
    // An unbound claim with `WaitForFirstConsumer` does not block the pod, so it is only a
    // fallback.
    if causes.is_empty() {
        causes = queue
            .into_iter()
            .chain(placement::causes(facts, pending))
            .collect();
    }
    if let Some(group) = &pending.group {
        grouped(group, &mut causes);
    }
    autoscaler::explain(facts, pending, &mut causes);
    causes
}

/// Explains why no scheduler has processed a pod. Gang and queue schedulers set no condition while
/// the pod's group waits.
fn unseen(facts: &Facts<'_>, pending: &PendingPod, queue: Option<Cause>) -> Vec<Cause> {
    let age = pending
        .created_at
        .map_or(0, |time| facts.now.as_second() - time.as_second());
    if age < SCHEDULER_SECONDS || pending.together > 1 || facts.job.queue.is_some() {
        let mut causes: Vec<Cause> = queue.into_iter().collect();
        if let Some(group) = &pending.group {
            grouped(group, &mut causes);
        }
        return causes;
    }
    let text = format!(
        "scheduler {} has not processed {} in {age} s: it is not running, or it is far behind",
        pending.rules.scheduler(),
        pending.name
    );
    let cause = Cause::new("scheduler-absent", text, "pod").when(pending.created_at);
    vec![cause.helps(
        "see which schedulers run",
        Some("kubectl get pods -A | grep -i scheduler".to_owned()),
    )]
}

/// Adds the gang scheduler's verdict, as a separate cause or as evidence for the first one.
fn grouped(group: &GroupVerdict, causes: &mut Vec<Cause>) {
    if group.message.is_empty() {
        return;
    }
    let text = format!(
        "{} reports about its group: {}",
        group.scheduler, group.message
    );
    let parsed = reasons(&group.message);
    let is_quota = OVER_QUOTA.contains(&group.reason.as_str())
        || parsed.iter().any(|reason| reason.word == "queue-quota");
    // The group's words are better than words of the pod that gpuctl does not know.
    let is_unexplained = causes.iter().all(|cause| cause.word == OTHER);
    // The cause from Volcano's queue has numbers, which are better than words.
    if is_quota && causes.iter().all(|cause| cause.word != "queue-quota") {
        causes.insert(0, Cause::new("queue-quota", text, "queue"));
    } else if is_unexplained {
        let known = parsed.iter().find(|reason| reason.word != OTHER);
        let word = known.map_or("gang-incomplete", |reason| reason.word);
        causes.insert(0, Cause::new(word, text, "queue"));
    } else if let Some(first) = causes.first_mut() {
        // Insert the evidence second, because short output omits the last lines.
        first.evidence.insert(
            1.min(first.evidence.len()),
            Evidence {
                text,
                seen_in: "queue",
                at: None,
            },
        );
    }
}

/// Returns the cause for a Volcano queue without enough quota, or `None` for other queues.
fn volcano(facts: &Facts<'_>) -> Option<Cause> {
    let (queue, job) = (facts.queue.as_ref()?, facts.job);
    let name = &queue.name;
    let describe = || Some(format!("gpuctl describe queue {name} -n {}", job.namespace));
    if !queue.active {
        let text = format!("Volcano queue {name} is not open");
        return Some(
            Cause::new("queue-inactive", text, "queue")
                .helps("a queue administrator must open it", describe()),
        );
    }
    // Subtract the GPUs that the job holds, because `used` includes them.
    let missing = job.gpus().0.saturating_sub(job.gpus_held().0);
    let (quota, used) = (queue.quota?.0, queue.used?.0);
    if missing > quota {
        let text =
            format!("Volcano queue {name} may use {quota} GPUs, but the job requests {missing}");
        return Some(
            Cause::new("never-fits", text, "queue")
                .helps("request less, or ask for a larger quota", describe()),
        );
    }
    let text =
        format!("Volcano queue {name} uses {used} of {quota} GPUs, and the job requests {missing}");
    let cause = Cause::new("queue-quota", text, "queue").helps(
        "wait for other jobs in the queue to finish, or ask for a larger quota",
        describe(),
    );
    (used + missing > quota).then_some(cause)
}

/// Returns the cause of the last failed attempt of a job that is retried.
fn retrying(facts: &Facts<'_>, pods: &[&Pod]) -> Vec<Cause> {
    let failed = pods
        .iter()
        .filter(|pod| pod.phase == PodPhase::Failed)
        .min_by_key(|pod| (pod.ended_at.is_none(), pod.ended_at));
    let Some(failed) = failed else {
        return Vec::new();
    };
    let why = ends::pod_cause(facts, failed);
    let end = why
        .evidence
        .first()
        .map_or(why.word, |evidence| evidence.text.as_str());
    let text = format!("{end}; it will be retried (retries: {})", facts.job.retries);
    vec![
        Cause::new("crash-loop", text, "pod").when(failed.ended_at),
        why,
    ]
}
