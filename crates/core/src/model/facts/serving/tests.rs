//! Tests how the state of services and notebooks is determined.

use super::*;
use crate::model::{ContainerEnd, JobKind};

fn oom() -> ContainerEnd {
    ContainerEnd {
        code: 137,
        reason: "OOMKilled".into(),
        ..ContainerEnd::default()
    }
}

fn pod(name: &str, revision: &str) -> Pod {
    Pod {
        name: name.into(),
        node: Some("n".into()),
        phase: PodPhase::Running,
        ready: true,
        revision: Some(revision.into()),
        containers: vec![Container {
            name: "main".into(),
            running: true,
            started: true,
            ..Container::default()
        }],
        ..Pod::default()
    }
}

fn service(pods: Vec<Pod>) -> Job {
    Job {
        name: "web".into(),
        kind: JobKind::Inference,
        pods_wanted: 2,
        checked: true,
        pods,
        ..Job::default()
    }
}

fn word(job: &Job) -> String {
    let state = State::from_job(job);
    format!(
        "{} {}/{} {}",
        state.status,
        state.running,
        state.wanted,
        state.reason.unwrap_or_default()
    )
    .trim()
    .to_owned()
}

#[test]
fn services_run_when_their_pods_are_ready() {
    assert_eq!(
        word(&service(vec![pod("a", "1"), pod("b", "1")])),
        "running 2/2"
    );
    let loading = |started| {
        let mut pod = Pod {
            ready: false,
            ..pod("b", "1")
        };
        pod.containers[0].started = started;
        pod
    };
    assert_eq!(word(&service(vec![loading(false)])), "pending 0/2 Starting");
    assert_eq!(word(&service(vec![loading(true)])), "pending 0/2 Unhealthy");
    assert_eq!(
        word(&service(vec![pod("a", "1"), loading(false)])),
        "running 1/2 Starting"
    );
    assert_eq!(
        word(&service(vec![pod("a", "1"), loading(true)])),
        "running 1/2 Degraded"
    );
    assert_eq!(word(&service(vec![])), "pending 0/2 Creating");
    let evicted = Pod {
        phase: PodPhase::Failed,
        ready: false,
        ..pod("old", "1")
    };
    assert_eq!(
        word(&service(vec![evicted, pod("a", "1"), pod("b", "1")])),
        "running 2/2"
    );
}

#[test]
fn crash_loop_message_contains_the_last_exit() {
    let mut crashing = Pod {
        ready: false,
        ..pod("b", "1")
    };
    crashing.containers = vec![Container {
        waiting: Some(("CrashLoopBackOff".into(), "back-off 5m0s".into())),
        last_ended: Some(oom()),
        restarts: 4,
        ..Container::default()
    }];
    let state = State::from_job(&service(vec![crashing.clone()]));
    assert_eq!(state.reason.as_deref(), Some("CrashLoopBackOff"));
    assert_eq!(
        state.message.unwrap(),
        "b ran out of memory (exit code 137), 4 restarts"
    );
    let state = State::from_job(&service(vec![pod("a", "1"), crashing]));
    assert_eq!(state.status, Status::Running);
    let message =
        "1 of 2 pods are ready; CrashLoopBackOff: b ran out of memory (exit code 137), 4 restarts";
    assert_eq!(
        (state.reason.as_deref(), state.message.as_deref()),
        (Some("Degraded"), Some(message))
    );
}

#[test]
fn service_without_check_is_starting_until_it_listens() {
    let silent = Pod {
        ready: false,
        ..pod("b", "1")
    };
    let job = Job {
        checked: false,
        port: Some(8000),
        ..service(vec![silent])
    };
    assert_eq!(word(&job), "pending 0/2 Starting");
    assert_eq!(
        State::from_job(&job).message.unwrap(),
        "nothing is listening on port 8000 yet"
    );
}

#[test]
fn pods_of_unresponsive_nodes_are_lost() {
    let silent = Pod {
        ready: false,
        silent: true,
        ..pod("b", "1")
    };
    assert_eq!(word(&service(vec![silent.clone()])), "unknown 0/2 NodeLost");
    assert_eq!(
        word(&service(vec![pod("a", "1"), silent])),
        "running 1/2 Degraded"
    );
    let given_up = Pod {
        ready: false,
        deleting: true,
        disrupted: Some("DeletionByTaintManager".into()),
        ..pod("b", "1")
    };
    assert_eq!(word(&service(vec![given_up])), "unknown 0/2 NodeLost");
}

#[test]
fn reloading_after_a_crash_is_reported() {
    let mut reloading = Pod {
        ready: false,
        ..pod("b", "1")
    };
    reloading.containers[0] = Container {
        running: true,
        restarts: 2,
        last_ended: Some(oom()),
        ..Container::default()
    };
    assert_eq!(
        word(&service(vec![reloading.clone()])),
        "pending 0/2 Restarting"
    );
    // Once the container has started again, the failing probe is the problem instead of the crash.
    reloading.containers[0].started = true;
    assert_eq!(word(&service(vec![reloading])), "pending 0/2 Unhealthy");
}

#[test]
fn rollouts_and_pauses_are_reported() {
    assert_eq!(
        word(&service(vec![pod("a", "1"), pod("b", "2")])),
        "running 2/2 RollingOut"
    );
    let mut job = service(vec![]);
    job.suspended = true;
    assert_eq!(word(&job), "paused 0/2");
    job.deleting = true;
    assert_eq!(word(&job), "terminating 0/2");
}

#[test]
fn unschedulable_pods_are_reported() {
    let waits = Pod {
        node: None,
        ready: false,
        phase: PodPhase::Pending,
        unscheduled: Some((
            "Unschedulable".into(),
            "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.".into(),
        )),
        containers: vec![],
        ..pod("b", "1")
    };
    assert_eq!(
        word(&service(vec![waits.clone()])),
        "pending 0/2 Unschedulable"
    );
    assert_eq!(
        word(&service(vec![pod("a", "1"), waits])),
        "running 1/2 Degraded"
    );
}

/// A replica with several pods receives requests through its first pod, so a ready worker is
/// useless while that pod is not ready.
#[test]
fn replica_is_ready_when_its_first_pod_is() {
    let pod = |group: u32, number: u32, ready: bool| Pod {
        name: format!("s-{group}-{number}"),
        group: Some((group, number)),
        ready,
        ..Pod::default()
    };
    let job = Job {
        group_size: 2,
        pods: vec![
            pod(0, 0, false),
            pod(0, 1, true),
            pod(1, 0, true),
            pod(1, 1, true),
        ],
        ..Job::default()
    };
    let serving: Vec<&str> = job
        .pods
        .iter()
        .filter(|pod| job.serves_with(pod))
        .map(|pod| pod.name.as_str())
        .collect();
    assert_eq!(serving, ["s-1-0", "s-1-1"]);
    let answering: Vec<&str> = job
        .pods
        .iter()
        .filter(|pod| Job::answers(pod))
        .map(|pod| pod.name.as_str())
        .collect();
    assert_eq!(answering, ["s-0-0", "s-1-0"]);
    assert!(
        Job::answers(&Pod::default()),
        "a pod of no group answers itself"
    );
}
