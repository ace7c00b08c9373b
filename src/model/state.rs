//! The state of a job, read from what its pods really do and never from the existence of an object.

use std::fmt;
use std::str::FromStr;

use super::job::{Container, Job, Pod, PodPhase};

/// The contract's words for the state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    Pending,
    Running,
    Succeeded,
    Failed,
    Paused,
    Terminating,
    Unknown,
}

impl Status {
    pub const ALL: [Self; 7] =
        [Self::Pending, Self::Running, Self::Succeeded, Self::Failed, Self::Paused, Self::Terminating, Self::Unknown];

    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Paused => "paused",
            Self::Terminating => "terminating",
            Self::Unknown => "unknown",
        }
    }

    /// True when nothing of the job will run any more.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Status {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|status| status.word() == text).ok_or(())
    }
}

/// A status, why it is so, and how many pods run of how many wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub status: Status,
    /// A CamelCase word as Kubernetes uses: `Unschedulable`, `OOMKilled`.
    pub reason: Option<String>,
    /// One sentence.
    pub message: Option<String>,
    /// Pods that run; of a service, those that are ready.
    pub running: u32,
    pub wanted: u32,
    /// True where the count belongs to the state: `running 2/2`.
    pub counted: bool,
}

impl State {
    /// Reads the state of `job`.
    #[must_use]
    pub fn of(job: &Job) -> Self {
        if job.kind.serves() {
            return super::serving::state(job);
        }
        let pods = job.current_pods();
        let running = count(&pods, |pod| pod.phase == PodPhase::Running && !pod.deleting && !pod.own_ended());
        let done = count(&pods, |pod| pod.phase == PodPhase::Succeeded).max(job.pods_done);
        let (status, why) = if job.deleting {
            (Status::Terminating, None)
        } else if holds(job, &["Complete", "SuccessCriteriaMet"]).is_some() {
            (Status::Succeeded, None)
        } else if let Some(why) = holds(job, &["Failed", "FailureTarget"]) {
            (Status::Failed, Some(failure(job, why)))
        } else if job.suspended && job.queued && !job.held {
            (Status::Pending, Some(why("Queued", "the queue has not admitted it yet")))
        } else if job.suspended {
            (Status::Paused, None)
        } else if let Some(why) = pods.iter().find_map(|pod| lost(pod)) {
            (Status::Unknown, Some(why))
        } else if running + done >= job.pods_wanted && job.pods_wanted > 0 {
            (Status::Running, None)
        } else {
            (Status::Pending, Some(waiting(job, &pods)))
        };
        let (reason, message) = why_split(why);
        Self { status, reason, message, running, wanted: job.pods_wanted, counted: false }
    }
}

pub(super) type Why = (String, String);

pub(super) fn why(reason: &str, message: impl Into<String>) -> Why {
    (reason.to_owned(), message.into())
}

fn why_split(why: Option<Why>) -> (Option<String>, Option<String>) {
    why.map_or((None, None), |(reason, message)| (Some(reason), Some(message).filter(|message| !message.is_empty())))
}

fn count(pods: &[&Pod], test: impl Fn(&Pod) -> bool) -> u32 {
    u32::try_from(pods.iter().filter(|pod| test(pod)).count()).unwrap_or(u32::MAX)
}

fn holds(job: &Job, conditions: &[&str]) -> Option<Why> {
    conditions.iter().find_map(|condition| job.conditions.get(*condition).cloned())
}

/// What ended a pod says more than `BackoffLimitExceeded`.
fn failure(job: &Job, condition: Why) -> Why {
    // The present try comes first: what ended an earlier one was overcome.
    let present = job.current_pods();
    let mut earlier: Vec<&Pod> = job.pods.iter().filter(|pod| !present.iter().any(|other| other.name == pod.name)).collect();
    earlier.sort_by(|a, b| (b.created_at, &b.name).cmp(&(a.created_at, &a.name)));
    let ended: Vec<Why> =
        present.into_iter().chain(earlier).filter(|pod| pod.disrupted.is_none()).filter_map(pod_failure).collect();
    // Peers that crash because one rank was killed say only `Error`: the rank with a reason of its own tells more.
    let told = ended.iter().find(|(reason, _)| reason != "Error").or_else(|| ended.first());
    told.cloned().unwrap_or(condition)
}

fn pod_failure(pod: &Pod) -> Option<Why> {
    if pod.phase != PodPhase::Failed {
        return None;
    }
    let name = pod_name(pod);
    if let Some(disruption) = &pod.disrupted {
        return Some(why("Evicted", format!("{name} was evicted ({disruption})")));
    }
    let ended = pod.containers.iter().find_map(|container| container.terminated.as_ref().filter(|(code, _)| *code != 0));
    match (&pod.reason, ended) {
        (_, Some((code, reason))) if reason == "OOMKilled" => {
            Some(why(reason, format!("{name} ran out of memory (exit code {code})")))
        }
        (Some(reason), _) if reason == "DeadlineExceeded" => {
            Some(why(reason, format!("{name} ran longer than `job.max_runtime`")))
        }
        (Some(reason), _) => Some(why(reason, format!("{name} failed"))),
        (None, Some((code, reason))) => Some(why(reason, format!("{name} ended with exit code {code}"))),
        (None, None) => Some(why("Error", format!("{name} failed"))),
    }
}

fn pod_name(pod: &Pod) -> String {
    pod.rank.map_or_else(|| pod.name.clone(), |rank| format!("rank {rank}"))
}

/// A pod whose node does not answer: what it does is not known.
pub(super) fn lost(pod: &Pod) -> Option<Why> {
    let node = pod.node.as_deref()?;
    let message = || format!("{}'s node {node} does not answer", pod_name(pod));
    // A pod that the taint manager deletes stays until its node answers.
    let given_up = pod.deleting && pod.disrupted.as_deref() == Some("DeletionByTaintManager");
    (pod.phase == PodPhase::Unknown || pod.silent || given_up).then(|| why("NodeLost", message()))
}

/// Why a job that should run does not: what keeps the first pod that does not run.
fn waiting(job: &Job, pods: &[&Pod]) -> Why {
    if let Some((pod, sidecar)) = pods.iter().find_map(|pod| Some((pod, pod.sidecar_left()?))) {
        let message = format!("{} has ended, but its container {sidecar} still runs and keeps the GPUs", pod_name(pod));
        return why("SidecarRunning", message);
    }
    let bound: Vec<&&Pod> = pods.iter().filter(|pod| pod.holds()).collect();
    if let Some(container) = pods.iter().find_map(|pod| stuck(pod)) {
        return container;
    }
    let unscheduled = pods.iter().filter(|pod| !pod.ended()).find_map(|pod| pod.unscheduled.as_ref());
    if let Some((reason, message)) = unscheduled {
        let message = scheduler_words(message);
        if bound.is_empty() {
            return why(reason, message);
        }
        let held = job.gpus_held();
        let message = format!(
            "{} of {} pods are placed and hold {held} of {} GPUs; the others do not fit: {message}",
            bound.len(),
            job.pods_wanted,
            job.gpus()
        );
        return why("WaitingForPeers", message);
    }
    let lacks_pods = count(pods, |pod| pod.phase != PodPhase::Failed) < job.pods_wanted;
    if let Some(message) = job.create_failure.as_deref().filter(|_| lacks_pods) {
        return why(create_failure_reason(message), message);
    }
    if let Some((_, (_, message))) = pods.iter().find_map(|pod| pod_failure(pod).map(|why| (pod, why))) {
        return why("Restarting", format!("{message}; up to {} retries per pod", job.retries));
    }
    match pods.iter().find_map(|pod| pod.containers.iter().find_map(|container| container.waiting.as_ref())) {
        Some((reason, message)) => why(reason, message),
        None if pods.iter().any(|pod| pod.deleting) => why("Restarting", "a pod is ending and will be replaced"),
        None if pods.is_empty() => why("Creating", ""),
        None if bound.len() < pods.len() => why("Scheduling", ""),
        None => why("ContainerCreating", ""),
    }
}

/// The scheduler's sentence without what follows about preemption, which never is tried here.
#[must_use]
pub fn scheduler_words(message: &str) -> &str {
    let end = [". no new claims", ". preemption:", ", preemption:"].iter().filter_map(|tail| message.find(tail)).min();
    message[..end.unwrap_or(message.len())].trim_end_matches('.')
}

/// Waiting for something that time alone does not mend.
pub(super) fn stuck(pod: &Pod) -> Option<Why> {
    const BENIGN: [&str; 2] = ["ContainerCreating", "PodInitializing"];
    let waits = |container: &Container| container.waiting.clone().filter(|(reason, _)| !BENIGN.contains(&reason.as_str()));
    pod.containers.iter().find_map(waits)
}

/// The API server's refusal of a pod in one word.
pub(super) fn create_failure_reason(message: &str) -> &'static str {
    const WORDS: [(&str, &str); 5] = [
        ("exceeded quota", "QuotaExceeded"),
        ("failed quota", "QuotaExceeded"),
        ("violates PodSecurity", "PodSecurity"),
        ("no PriorityClass", "PriorityClassNotFound"),
        ("admission webhook", "WebhookDenied"),
    ];
    WORDS.iter().find(|(text, _)| message.contains(text)).map_or("FailedCreate", |(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(pods: Vec<Pod>) -> Job {
        Job { namespace: "team-a".into(), name: "x".into(), pods_wanted: 2, retries: 3, gpus_per_pod: 8, pods, ..Job::default() }
    }

    fn pod(rank: u32, phase: PodPhase) -> Pod {
        Pod { name: format!("x-{rank}"), rank: Some(rank), node: Some("n".into()), phase, gpus: 8, ..Pod::default() }
    }

    fn word(job: &Job) -> String {
        let state = State::of(job);
        [state.status.word(), state.reason.as_deref().unwrap_or("")].join(" ").trim().to_owned()
    }

    #[test]
    fn running_means_every_rank_runs() {
        assert_eq!(word(&job(vec![pod(0, PodPhase::Running), pod(1, PodPhase::Running)])), "running");
        assert_eq!(word(&job(vec![pod(0, PodPhase::Running), pod(1, PodPhase::Succeeded)])), "running");
        assert_eq!(word(&job(vec![pod(0, PodPhase::Running)])), "pending ContainerCreating");
        let finished_and_gone = Job { pods_done: 1, ..job(vec![pod(0, PodPhase::Running)]) };
        assert_eq!(word(&finished_and_gone), "running");
        assert_eq!(word(&job(vec![])), "pending Creating");
    }

    #[test]
    fn a_half_placed_gang_says_what_it_holds() {
        let mut second = pod(1, PodPhase::Pending);
        second.node = None;
        second.unscheduled = Some(("Unschedulable".into(), "0/2 nodes are available".into()));
        let state = State::of(&job(vec![pod(0, PodPhase::Running), second.clone()]));
        assert_eq!(state.reason.as_deref(), Some("WaitingForPeers"));
        assert!(state.message.unwrap().starts_with("1 of 2 pods are placed and hold 8 of 16 GPUs"));
        let first = Pod { rank: Some(0), name: "x-0".into(), ..second.clone() };
        assert_eq!(word(&job(vec![first, second])), "pending Unschedulable");
    }

    #[test]
    fn the_rank_that_was_killed_gives_the_reason_not_its_peers() {
        let ended = |rank, reason: &str| Pod {
            containers: vec![Container { terminated: Some((137, reason.into())), ..Container::default() }],
            ..pod(rank, PodPhase::Failed)
        };
        let mut job = job(vec![ended(0, "Error"), ended(1, "OOMKilled"), ended(2, "Error")]);
        job.conditions.insert("Failed".into(), ("MaxFailedIndexesExceeded".into(), String::new()));
        assert_eq!(word(&job), "failed OOMKilled");
        let late = Pod { reason: Some("DeadlineExceeded".into()), ..pod(0, PodPhase::Failed) };
        job.pods = vec![late, ended(1, "Error")];
        assert_eq!(word(&job), "failed DeadlineExceeded");
        assert_eq!(State::of(&job).message.unwrap(), "rank 0 ran longer than `job.max_runtime`");
    }

    #[test]
    fn a_lost_node_and_a_left_sidecar_are_not_running() {
        assert_eq!(word(&job(vec![pod(0, PodPhase::Running), pod(1, PodPhase::Unknown)])), "unknown NodeLost");
        let container = |name: &str, running| Container {
            name: name.into(),
            running,
            terminated: (!running).then(|| (0, "Completed".into())),
            ..Container::default()
        };
        let left = Pod { containers: vec![container("agent", true), container("main", false)], ..pod(1, PodPhase::Running) };
        let state = State::of(&job(vec![pod(0, PodPhase::Running), left]));
        assert_eq!(state.reason.as_deref(), Some("SidecarRunning"));
        assert_eq!(state.message.unwrap(), "rank 1 has ended, but its container agent still runs and keeps the GPUs");
    }

    #[test]
    fn a_refused_pod_names_the_refusal() {
        let mut job = job(vec![]);
        job.create_failure = Some("pods \"x-0\" is forbidden: exceeded quota: team".into());
        assert_eq!(word(&job), "pending QuotaExceeded");
    }

    #[test]
    fn a_suspended_job_is_paused_unless_a_queue_holds_it() {
        let mut job = job(vec![]);
        job.suspended = true;
        assert_eq!(word(&job), "paused");
        job.queued = true;
        assert_eq!(word(&job), "pending Queued");
        job.held = true;
        assert_eq!(word(&job), "paused");
        job.deleting = true;
        assert_eq!(word(&job), "terminating");
    }

    #[test]
    fn shuffled_pods_change_nothing() {
        let mut job = job(vec![pod(0, PodPhase::Running), pod(1, PodPhase::Failed), pod(2, PodPhase::Pending)]);
        let before = State::of(&job);
        job.pods.reverse();
        assert_eq!(State::of(&job), before);
    }
}
