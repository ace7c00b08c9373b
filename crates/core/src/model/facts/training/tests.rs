//! Tests how the state of trainings is determined.

use super::*;
use crate::model::facts::container_end::ContainerEnd;
use crate::model::facts::job_pod::Container;
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
    let state = State::from_job(job);
    [state.status.word(), state.reason.as_deref().unwrap_or("")]
        .join(" ")
        .trim()
        .to_owned()
}

#[test]
fn trainings_run_when_every_rank_runs() {
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
fn partly_placed_gang_reports_held_gpus() {
    let mut second = pod(1, PodPhase::Pending);
    second.node = None;
    second.unscheduled = Some(("Unschedulable".into(), "0/2 nodes are available".into()));
    let state = State::from_job(&job(vec![pod(0, PodPhase::Running), second.clone()]));
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
fn killed_rank_determines_the_reason() {
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
    // Both ranks report `Error`, so the rank that ended first is the cause.
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
        State::from_job(&job).message.unwrap(),
        "rank 1 exited with code 137"
    );
    let late = Pod {
        reason: Some("DeadlineExceeded".into()),
        ..pod(0, PodPhase::Failed)
    };
    job.pods = vec![late, ended(1, "Error")];
    assert_eq!(word(&job), "failed DeadlineExceeded");
    assert_eq!(
        State::from_job(&job).message.unwrap(),
        "rank 0 ran longer than `job.max_runtime`"
    );
}

#[test]
fn supervised_ranks_report_why_they_gave_up() {
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
        State::from_job(&job).message.unwrap(),
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
fn lost_nodes_and_remaining_sidecars_are_not_running() {
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
    let state = State::from_job(&job(vec![pod(0, PodPhase::Running), left]));
    assert_eq!(state.reason.as_deref(), Some("SidecarRunning"));
    assert_eq!(
        state.message.unwrap(),
        "rank 1 ended with exit code 0, but its container agent is still running and holds the GPUs"
    );
}

#[test]
fn unrecorded_ends_and_stops_by_a_queue_are_no_exit_codes() {
    let failed = |pod: Pod| {
        let mut job = job(vec![pod]);
        let condition = ("BackoffLimitExceeded".to_owned(), String::new());
        job.conditions = [("Failed".to_owned(), condition)].into();
        State::from_job(&job).message.unwrap_or_default()
    };
    let lost = Pod {
        containers: vec![Container {
            name: "main".into(),
            terminated: Some(ContainerEnd {
                code: 137,
                reason: "ContainerStatusUnknown".into(),
                ..ContainerEnd::default()
            }),
            ..Container::default()
        }],
        ..pod(0, PodPhase::Failed)
    };
    assert_eq!(failed(lost.clone()), "how rank 0 ended is unknown");
    let stopped = Pod {
        stopped: Some(("WorkloadEvictedDueToPreempted".into(), String::new())),
        ..lost
    };
    assert_eq!(failed(stopped), "rank 0 was stopped by its queue");
}

#[test]
fn rejected_pods_have_the_reason_of_the_rejection() {
    let mut job = job(vec![]);
    job.create_failure = Some("pods \"x-0\" is forbidden: exceeded quota: team".into());
    assert_eq!(word(&job), "pending QuotaExceeded");
}

#[test]
fn suspended_jobs_are_paused_unless_queued() {
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
fn state_does_not_depend_on_pod_order() {
    let mut job = job(vec![
        pod(0, PodPhase::Running),
        pod(1, PodPhase::Failed),
        pod(2, PodPhase::Pending),
    ]);
    let before = State::from_job(&job);
    job.pods.reverse();
    assert_eq!(State::from_job(&job), before);
}
