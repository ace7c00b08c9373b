//! Causes that no simulated cluster brings about by itself: words of queues, refusals and ends, as their programs write them.

use super::*;
use crate::model::{Container, ContainerEnd, Nodes, Pod, PodPhase, QueuePosition, QueueVerdict};

fn told(job: &Job) -> Vec<&'static str> {
    let subject = Subject { kind: "training".to_owned(), ours: true };
    let facts = Facts {
        now: "2026-01-31T12:00:00Z".parse().unwrap(),
        subject: &subject,
        job,
        events: Some(&[]),
        pending: None,
        nodes: &Nodes::Hidden,
        room: None,
        claims: Vec::new(),
        quotas: Vec::new(),
        holders: Vec::new(),
        faults: Vec::new(),
        running: None,
        last_words: Vec::new(),
    };
    let answer = diagnose(&facts);
    let sum: f64 = answer.causes.iter().map(|cause| cause.weight).sum();
    assert!(answer.causes.is_empty() || (0.97..1.03).contains(&sum), "{sum}");
    answer.causes.iter().map(|cause| cause.word).collect()
}

fn job(pods: Vec<Pod>) -> Job {
    Job { name: "t".into(), namespace: "a".into(), pods_wanted: 1, pods, ..Job::default() }
}

/// Words of Kueue 0.18.3.
#[test]
fn queues_say_why() {
    let queued = |message: &str, reason: &str, position: Option<u64>| {
        let verdict = QueueVerdict { reason: reason.into(), message: message.into() };
        let position = position.map(|place| QueuePosition { in_queue: place, waiting: Some(9), in_cluster_queue: place });
        let queue = Some("research".to_owned());
        told(&Job {
            suspended: true,
            queued: true,
            queue,
            queue_verdict: Some(verdict),
            queue_position: position,
            ..job(Vec::new())
        })
    };
    let quota =
        "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor gpus, 3 more needed";
    assert_eq!(queued(quota, "Pending", Some(1)), ["queue-quota"]);
    assert_eq!(queued(quota, "Pending", Some(3)), ["queue-quota", "queue-position"]);
    assert_eq!(queued("LocalQueue nosuch doesn't exist", "Inadmissible", None), ["queue-missing"]);
    assert_eq!(queued("ClusterQueue research is inactive", "Inadmissible", None), ["queue-inactive"]);
    let large = "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor gpus, request > maximum capacity (16 > 8)";
    assert_eq!(queued(large, "Pending", None), ["never-fits"]);
    assert_eq!(queued("quota is reserved; checks are open: budget is pending", "AdmissionChecks", None), ["queue-checks"]);
}

#[test]
fn refusals_are_told_apart() {
    let refused = |message: &str| told(&Job { create_failure: Some(message.into()), ..job(Vec::new()) });
    let account = "pods \"t-0-x\" is forbidden: error looking up service account a/robot: serviceaccount \"robot\" not found";
    assert_eq!(refused(account), ["service-account-missing"]);
    assert_eq!(refused("pods \"t-0-x\" is forbidden: no PriorityClass with name urgent was found"), ["priority-class-missing"]);
    assert_eq!(
        refused("Internal error occurred: failed calling webhook \"guard.example.com\": connection refused"),
        ["webhook-down"]
    );
    assert_eq!(refused("something that nobody has seen"), ["pods-refused"]);
}

fn ended(rank: u32, second: i64, code: i32, reason: &str) -> Pod {
    let end = ContainerEnd { code, reason: reason.into(), ..ContainerEnd::default() };
    Pod {
        name: format!("t-{rank}"),
        rank: Some(rank),
        node: Some("n".into()),
        phase: PodPhase::Failed,
        ended_at: Some(jiff::Timestamp::from_second(second).unwrap()),
        containers: vec![Container { name: "main".into(), terminated: Some(end), ..Container::default() }],
        ..Pod::default()
    }
}

#[test]
fn of_several_ranks_the_first_end_counts() {
    let failed = |pods: Vec<Pod>| {
        let conditions = [("Failed".to_owned(), ("BackoffLimitExceeded".to_owned(), String::new()))].into();
        Job { pods_wanted: 3, conditions, ..job(pods) }
    };
    // Rank 1 ran out of memory; its peers lost the connection half a minute later.
    let pods = vec![ended(0, 134, 1, "Error"), ended(1, 100, 137, "OOMKilled"), ended(2, 135, 1, "Error")];
    assert_eq!(told(&failed(pods)), ["oom-container"]);
    // Within one second the rank with a reason of its own tells more.
    let pods = vec![ended(0, 100, 1, "Error"), ended(1, 100, 139, "Error")];
    assert_eq!(told(&failed(pods)), ["signal"]);
    let mut evicted = ended(0, 100, 137, "Error");
    evicted.disrupted = Some("PreemptionByScheduler".into());
    assert_eq!(told(&failed(vec![evicted])), ["preempted"]);
    assert_eq!(told(&failed(Vec::new())), ["retries-exhausted"]);
}

#[test]
fn what_runs_or_is_over_has_no_cause() {
    let pod = Pod { phase: PodPhase::Running, node: Some("n".into()), ready: true, ..Pod::default() };
    assert_eq!(told(&job(vec![pod])), Vec::<&str>::new());
    let done = [("Complete".to_owned(), (String::new(), String::new()))].into();
    assert_eq!(told(&Job { conditions: done, ..job(Vec::new()) }), Vec::<&str>::new());
    assert_eq!(told(&Job { deleting: true, ..job(Vec::new()) }), ["deleted"]);
    assert_eq!(told(&Job { suspended: true, ..job(Vec::new()) }), ["paused"]);
}
