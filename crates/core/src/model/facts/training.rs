//! The state of a training, read from the phases of its pods; and `State::of`, which knows that
//! services and notebooks are read from their readiness instead.

use super::job::{Job, Pod, PodPhase};
use super::serving;
use super::state::{
    State, Status, Why, count, create_failure_reason, evicted, lost, pod_failure, pod_name,
    scheduler_words, stuck, why,
};

impl State {
    /// Reads the state of `job`.
    pub fn of(job: &Job) -> Self {
        if job.kind.serves() {
            return serving::state(job);
        }
        let pods = job.current_pods();
        let running = count(&pods, |pod| {
            pod.phase == PodPhase::Running && !pod.deleting && !pod.own_ended()
        });
        let done = count(&pods, |pod| pod.phase == PodPhase::Succeeded).max(job.pods_done);
        let (status, why) = if job.deleting {
            (Status::Terminating, None)
        } else if holds(job, &["Complete", "SuccessCriteriaMet"]).is_some() {
            (Status::Succeeded, None)
        } else if let Some(why) = holds(job, &["Failed", "FailureTarget"]) {
            (Status::Failed, Some(failure(job, why)))
        } else if job.suspended && job.queued && !job.held {
            (Status::Pending, Some(why("Queued", job.queue_words())))
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
        Self {
            status,
            reason,
            message,
            running,
            wanted: job.pods_wanted,
            counted: false,
        }
    }
}

fn why_split(why: Option<Why>) -> (Option<String>, Option<String>) {
    why.map_or((None, None), |(reason, message)| {
        (
            Some(reason),
            Some(message).filter(|message| !message.is_empty()),
        )
    })
}

fn holds(job: &Job, conditions: &[&str]) -> Option<Why> {
    conditions
        .iter()
        .find_map(|condition| job.conditions.get(*condition).cloned())
}

/// Returns the reason why a pod failed, which says more than the Job's own `BackoffLimitExceeded`.
fn failure(job: &Job, condition: Why) -> Why {
    // The present try comes first: what ended an earlier one was overcome.
    let mut present = job.current_pods();
    let mut earlier: Vec<&Pod> = job
        .pods
        .iter()
        .filter(|pod| !present.iter().any(|other| other.name == pod.name))
        .collect();
    earlier.sort_by(|a, b| (b.created_at, &b.name).cmp(&(a.created_at, &a.name)));
    // Of one try the rank that ended first is the culprit: its peers end because it is gone.
    present.sort_by_key(|pod| (pod.ended_at.is_none(), pod.ended_at));
    let ended: Vec<Why> = present
        .into_iter()
        .chain(earlier)
        .filter(|pod| pod.disrupted.is_none())
        .filter_map(pod_failure)
        .collect();
    // Peers may have ended within the same second, and say only `Error`: the rank with a reason of
    // its own tells more.
    let told = ended
        .iter()
        .find(|(reason, _)| reason != "Error")
        .or_else(|| ended.first());
    told.cloned().unwrap_or(condition)
}

/// Returns why a job that should run does not: what keeps the first pod that does not run.
fn waiting(job: &Job, pods: &[&Pod]) -> Why {
    if let Some(why) = evicted(job) {
        return why;
    }
    if let Some((pod, sidecar)) = pods.iter().find_map(|pod| Some((pod, pod.sidecar_left()?))) {
        let message = format!(
            "{} has ended, but its container {sidecar} still runs and keeps the GPUs",
            pod_name(pod)
        );
        return why("SidecarRunning", message);
    }
    let bound: Vec<&&Pod> = pods.iter().filter(|pod| pod.holds()).collect();
    if let Some(container) = pods.iter().find_map(|pod| stuck(pod)) {
        return container;
    }
    let unscheduled = pods
        .iter()
        .filter(|pod| !pod.ended())
        .find_map(|pod| pod.unscheduled.as_ref());
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
    if let Some((_, (_, message))) = pods
        .iter()
        .find_map(|pod| pod_failure(pod).map(|why| (pod, why)))
    {
        return why(
            "Restarting",
            format!("{message}; up to {} retries", job.retries),
        );
    }
    if let Some((reason, message)) = &job.start_failure {
        return why(reason, message);
    }
    match pods.iter().find_map(|pod| {
        pod.containers
            .iter()
            .find_map(|container| container.waiting.as_ref())
    }) {
        Some((reason, message)) => why(reason, message),
        None if pods.iter().any(|pod| pod.deleting) => {
            why("Restarting", "a pod is ending and will be replaced")
        }
        None if let Some(told) = pods.iter().find_map(|pod| restarted(pod)) => {
            why("Restarting", told)
        }
        None if pods.is_empty() => why("Creating", ""),
        None if bound.len() < pods.len() => why("Scheduling", ""),
        None => why("ContainerCreating", ""),
    }
}

/// What a kubelet will start again ended a moment ago.
fn restarted(pod: &Pod) -> Option<String> {
    let ended = |container: &super::job::Container| {
        Some((container.restarts, container.terminated.as_ref()?.code))
    };
    let (restarts, code) = pod
        .containers
        .iter()
        .filter(|one| one.restarts > 0)
        .filter_map(ended)
        .find(|(_, code)| *code != 0)?;
    Some(format!(
        "{} ended with exit code {code}, {restarts} restarts",
        pod.name
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::facts::job::Container;
    use crate::model::facts::job::ContainerEnd;
    use crate::model::values::units::GpuCount;

    fn job(pods: Vec<Pod>) -> Job {
        Job {
            namespace: "team-a".into(),
            name: "x".into(),
            pods_wanted: 2,
            retries: 3,
            gpus_per_pod: GpuCount(8),
            pods,
            ..Job::default()
        }
    }

    fn pod(rank: u32, phase: PodPhase) -> Pod {
        Pod {
            name: format!("x-{rank}"),
            rank: Some(rank),
            node: Some("n".into()),
            phase,
            gpus: GpuCount(8),
            ..Pod::default()
        }
    }

    fn word(job: &Job) -> String {
        let state = State::of(job);
        [state.status.word(), state.reason.as_deref().unwrap_or("")]
            .join(" ")
            .trim()
            .to_owned()
    }

    #[test]
    fn running_means_every_rank_runs() {
        assert_eq!(
            word(&job(vec![
                pod(0, PodPhase::Running),
                pod(1, PodPhase::Running)
            ])),
            "running"
        );
        assert_eq!(
            word(&job(vec![
                pod(0, PodPhase::Running),
                pod(1, PodPhase::Succeeded)
            ])),
            "running"
        );
        assert_eq!(
            word(&job(vec![pod(0, PodPhase::Running)])),
            "pending ContainerCreating"
        );
        let finished_and_gone = Job {
            pods_done: 1,
            ..job(vec![pod(0, PodPhase::Running)])
        };
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
        assert!(
            state
                .message
                .unwrap()
                .starts_with("1 of 2 pods are placed and hold 8 of 16 GPUs")
        );
        let first = Pod {
            rank: Some(0),
            name: "x-0".into(),
            ..second.clone()
        };
        assert_eq!(word(&job(vec![first, second])), "pending Unschedulable");
    }

    #[test]
    fn the_rank_that_was_killed_gives_the_reason_not_its_peers() {
        let ended = |rank, reason: &str| Pod {
            containers: vec![Container {
                terminated: Some(ContainerEnd {
                    code: 137,
                    reason: reason.into(),
                    ..ContainerEnd::default()
                }),
                ..Container::default()
            }],
            ..pod(rank, PodPhase::Failed)
        };
        let mut job = job(vec![
            ended(0, "Error"),
            ended(1, "OOMKilled"),
            ended(2, "Error"),
        ]);
        job.conditions.insert(
            "Failed".into(),
            ("MaxFailedIndexesExceeded".into(), String::new()),
        );
        assert_eq!(word(&job), "failed OOMKilled");
        // Both say `Error`: the one that ended first is the culprit.
        let at = |second| Some(jiff::Timestamp::from_second(second).unwrap());
        job.pods = vec![
            Pod {
                ended_at: at(130),
                ..ended(0, "Error")
            },
            Pod {
                ended_at: at(100),
                ..ended(1, "Error")
            },
        ];
        assert_eq!(
            State::of(&job).message.unwrap(),
            "rank 1 ended with exit code 137"
        );
        let late = Pod {
            reason: Some("DeadlineExceeded".into()),
            ..pod(0, PodPhase::Failed)
        };
        job.pods = vec![late, ended(1, "Error")];
        assert_eq!(word(&job), "failed DeadlineExceeded");
        assert_eq!(
            State::of(&job).message.unwrap(),
            "rank 0 ran longer than `job.max_runtime`"
        );
    }

    #[test]
    fn ranks_that_restart_together_say_why_they_gave_up() {
        let ended = |rank, code, message: &str| Pod {
            containers: vec![Container {
                terminated: Some(ContainerEnd {
                    code,
                    reason: "Error".into(),
                    message: message.into(),
                }),
                ..Container::default()
            }],
            ..pod(rank, PodPhase::Failed)
        };
        let words =
            "gpuctl/OOMKilled: rank 1 ran out of memory (exit code 137); all 3 retries are used";
        let mut job = job(vec![ended(0, 113, words), ended(1, 137, words)]);
        job.conditions
            .insert("Failed".into(), ("PodFailurePolicy".into(), String::new()));
        assert_eq!(word(&job), "failed OOMKilled");
        assert_eq!(
            State::of(&job).message.unwrap(),
            "rank 1 ran out of memory (exit code 137); all 3 retries are used"
        );
        assert_eq!(
            job.pods[0].containers[0]
                .terminated
                .as_ref()
                .unwrap()
                .command_code(),
            137
        );
    }

    #[test]
    fn a_lost_node_and_a_left_sidecar_are_not_running() {
        assert_eq!(
            word(&job(vec![
                pod(0, PodPhase::Running),
                pod(1, PodPhase::Unknown)
            ])),
            "unknown NodeLost"
        );
        let container = |name: &str, running| Container {
            name: name.into(),
            running,
            terminated: (!running).then(|| ContainerEnd {
                reason: "Completed".into(),
                ..ContainerEnd::default()
            }),
            ..Container::default()
        };
        let left = Pod {
            containers: vec![container("agent", true), container("main", false)],
            ..pod(1, PodPhase::Running)
        };
        let state = State::of(&job(vec![pod(0, PodPhase::Running), left]));
        assert_eq!(state.reason.as_deref(), Some("SidecarRunning"));
        assert_eq!(
            state.message.unwrap(),
            "rank 1 has ended, but its container agent still runs and keeps the GPUs"
        );
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
        let mut job = job(vec![
            pod(0, PodPhase::Running),
            pod(1, PodPhase::Failed),
            pod(2, PodPhase::Pending),
        ]);
        let before = State::of(&job);
        job.pods.reverse();
        assert_eq!(State::of(&job), before);
    }
}
