//! Tests of causes that the test cluster cannot produce, with real messages of queues, rejected
//! pods and ended pods.

mod ends;

use super::answer::Help;
use super::*;
use gpuctl_core::model::{
    Container, ContainerEnd, Event, Nodes, Pod, PodPhase, QueuePosition, QueueVerdict,
};

mod broken;
mod hangs;

const NOW: &str = "2026-01-31T12:00:00Z";

fn diagnosed(job: &Job, running: Option<RunningFacts>, rank_answers: RankAnswers) -> Answer {
    diagnose_with_events(&[], job, running, rank_answers)
}

fn diagnose_with_events(
    events: &[Event],
    job: &Job,
    running: Option<RunningFacts>,
    rank_answers: RankAnswers,
) -> Answer {
    diagnose_on_nodes(&Nodes::Hidden, events, job, running, rank_answers)
}

fn diagnose_on_nodes(
    nodes: &Nodes,
    events: &[Event],
    job: &Job,
    running: Option<RunningFacts>,
    rank_answers: RankAnswers,
) -> Answer {
    let subject = Subject {
        kind: "training".to_owned(),
        is_managed: true,
    };
    diagnose(&Facts {
        events: Some(events),
        nodes,
        running,
        rank_answers,
        ..facts(&subject, job)
    })
}

fn facts<'f>(subject: &'f Subject, job: &'f Job) -> Facts<'f> {
    Facts {
        now: NOW.parse().unwrap(),
        subject,
        job,
        events: Some(&[]),
        pending: None,
        nodes: &Nodes::Hidden,
        capacity: None,
        claims: Vec::new(),
        devices: gpuctl_core::model::counting::device_claims::DeviceClaims::None,
        quotas: Vec::new(),
        queue: None,
        namespace_terminating: false,
        holders: Vec::new(),
        faults: Vec::new(),
        running: None,
        last_messages: Vec::new(),
        rank_answers: RankAnswers::default(),
    }
}

/// Returns a pod without a node, with the scheduler's message.
pub(crate) fn pending(message: &str) -> PendingPod {
    PendingPod {
        name: "t-0".to_owned(),
        created_at: NOW.parse().ok(),
        rules: gpuctl_manifest::render::PodRules::default(),
        requests: [("nvidia.com/gpu".to_owned(), 1000)].into(),
        nominated: None,
        unscheduled: Some(("Unschedulable".to_owned(), message.to_owned())),
        together: 1,
        group: None,
    }
}

/// Diagnoses a job with this pod for a user who cannot list nodes.
pub(crate) fn diagnose_pending(pending: PendingPod, events: &[Event]) -> Answer {
    let subject = Subject {
        kind: "training".to_owned(),
        is_managed: true,
    };
    let pod = Pod {
        name: pending.name.clone(),
        unscheduled: pending.unscheduled.clone(),
        ..Pod::default()
    };
    diagnose(&Facts {
        events: Some(events),
        pending: Some(pending),
        ..facts(&subject, &job(vec![pod]))
    })
}

/// A user who cannot list nodes has only the scheduler's message.
#[test]
fn scheduler_messages_explain_pods_without_nodes() {
    let words = |message: &str| {
        let answer = diagnose_pending(pending(message), &[]);
        let words: Vec<&str> = answer.causes.iter().map(|cause| cause.word).collect();
        (words, answer.sentence)
    };
    let volcano = "all nodes are unavailable: 1 node(s) had untolerated taint \
                   {node-role.kubernetes.io/control-plane: }, 3 Insufficient nvidia.com/gpu.";
    assert_eq!(words(volcano).0, ["insufficient-gpu", "taint"]);
    let (causes, sentence) = words("0/3 nodes are available: 3 words of a new plugin.");
    assert_eq!(causes, ["scheduler-other"]);
    assert!(sentence.ends_with("3 words of a new plugin"), "{sentence}");
    assert_eq!(
        words("Resources were not found, and these words are new").0,
        ["scheduler-other"]
    );
    let partitions = "0/5 nodes are available: 5 Insufficient amd.com/cpx_nps4.";
    let (causes, sentence) = words(partitions);
    assert_eq!(causes, ["insufficient-gpu"]);
    assert!(sentence.contains("amd.com/cpx_nps4"), "{sentence}");
}

/// The kubelet's reason decides, then the whole error. A bare back-off without an event decides
/// nothing.
#[test]
fn pull_errors_are_quoted() {
    let words = |reason: &str, message: &str| {
        let pod = Pod {
            name: "t-0".into(),
            node: Some("n".into()),
            containers: vec![Container {
                name: "main".into(),
                waiting: Some((reason.into(), message.into())),
                ..Container::default()
            }],
            ..Pod::default()
        };
        let answer = diagnosed(&job(vec![pod]), None, RankAnswers::default());
        let words: Vec<_> = answer
            .causes
            .iter()
            .map(|cause| (cause.word, cause.weight))
            .collect();
        words
    };
    let unavailable = "image pull failed for x because the registry is unavailable";
    assert_eq!(
        words("RegistryUnavailable", unavailable),
        [("registry-unreachable", 1.0)]
    );
    assert_eq!(
        words("SignatureValidationFailed", "words"),
        [("image-policy", 1.0)]
    );
    assert_eq!(
        words("ErrImagePull", "words of a new runtime"),
        [("image-other", 1.0)]
    );
    assert_eq!(
        words("ImageInspectError", "words of a new runtime"),
        [("image-other", 1.0)]
    );
    assert_eq!(
        words("ImagePullBackOff", "Back-off pulling image \"x:v1\""),
        []
    );
    let hidden = "rpc error: code = Unknown desc = failed to resolve reference \"x\": pull access \
                  denied, repository does not exist or may require authorization: server message: \
                  insufficient_scope: authorization failed";
    assert_eq!(
        words("ErrImagePull", hidden),
        [("image-auth", 0.5), ("image-missing", 0.5)]
    );
}

fn cause_words(job: &Job) -> Vec<&'static str> {
    let answer = diagnosed(job, None, RankAnswers::default());
    let sum: f64 = answer.causes.iter().map(|cause| cause.weight).sum();
    assert!(
        answer.causes.is_empty() || (0.97..1.03).contains(&sum),
        "{sum}"
    );
    answer.causes.iter().map(|cause| cause.word).collect()
}

fn job(pods: Vec<Pod>) -> Job {
    Job {
        name: "t".into(),
        namespace: "a".into(),
        pods_wanted: 1,
        pods,
        ..Job::default()
    }
}

/// The messages are those of Kueue 0.18.3.
#[test]
fn queue_verdicts_become_causes() {
    let queued = |message: &str, reason: &str, position: Option<u64>| {
        let verdict = QueueVerdict {
            reason: reason.into(),
            message: message.into(),
            ..QueueVerdict::default()
        };
        let position = position.map(|place| QueuePosition {
            in_queue: place,
            waiting: Some(9),
            in_cluster_queue: place,
        });
        let queue = Some("research".to_owned());
        cause_words(&Job {
            suspended: true,
            queued: true,
            queue,
            queue_verdict: Some(verdict),
            queue_position: position,
            ..job(Vec::new())
        })
    };
    let quota = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor gpus, 3 more needed";
    assert_eq!(queued(quota, "Pending", Some(1)), ["queue-quota"]);
    assert_eq!(
        queued(quota, "Pending", Some(3)),
        ["queue-quota", "queue-position"]
    );
    assert_eq!(
        queued("LocalQueue nosuch doesn't exist", "Inadmissible", None),
        ["queue-missing"]
    );
    assert_eq!(
        queued("ClusterQueue research is inactive", "Inadmissible", None),
        ["queue-inactive"]
    );
    assert_eq!(
        queued(
            "Workload namespace doesn't match ClusterQueue selector",
            "Inadmissible",
            None
        ),
        ["queue-namespace"]
    );
    let large = "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor gpus, request > maximum capacity (16 > 8)";
    assert_eq!(queued(large, "Pending", None), ["never-fits"]);
    assert_eq!(
        queued(
            "quota is reserved; waiting for checks: budget is pending",
            "AdmissionChecks",
            None
        ),
        ["queue-checks"]
    );
}

/// Kueue keeps the message of the eviction, and `QuotaReserved` states what holds the job back now.
#[test]
fn evicted_jobs_wait_for_what_holds_them_back_now() {
    let words = |reason: &str, current: Option<(&str, &str)>| {
        let verdict = QueueVerdict {
            reason: reason.into(),
            message: "Preempted to accommodate a workload (job a/urgent)".into(),
            current: current.map(|(reason, message)| (reason.to_owned(), message.to_owned())),
            ..QueueVerdict::default()
        };
        cause_words(&Job {
            suspended: true,
            queued: true,
            queue: Some("research".to_owned()),
            queue_verdict: Some(verdict),
            ..job(Vec::new())
        })
    };
    let quota = "couldn't assign flavors to pod set main: insufficient unused quota for \
                 nvidia.com/gpu in flavor gpus, 3 more needed";
    assert_eq!(
        words("Preempted", Some(("Pending", quota))),
        ["queue-quota"]
    );
    assert_eq!(
        words("Preempted", Some(("Pending", "new words"))),
        ["preempted"]
    );
    assert_eq!(words("Preempted", None), ["preempted"]);
    assert_eq!(words("PodsReadyTimeout", None), ["queue-pods-timeout"]);
    assert_eq!(words("SomethingNew", None), ["queue-other"]);
}

#[test]
fn topology_arithmetic_and_priority_are_evidence() {
    let message = "couldn't assign flavors to pod set main: topology \"rack\" allows to fit only 2 \
                   out of 16 pod(s). Total nodes: 207; excluded: resource \"nvidia.com/gpu\": 190, \
                   taint \"a:NoSchedule\": 15";
    let evidence = |reason: &str, message: &str| {
        let verdict = QueueVerdict {
            reason: reason.into(),
            message: message.into(),
            ..QueueVerdict::default()
        };
        let job = Job {
            suspended: true,
            queued: true,
            queue: Some("research".to_owned()),
            queue_priority: Some("urgent".to_owned()),
            queue_verdict: Some(verdict),
            ..job(Vec::new())
        };
        let answer = diagnosed(&job, None, RankAnswers::default());
        let texts = answer.causes[0].evidence.iter().map(|one| one.text.clone());
        (answer.causes[0].word, texts.collect::<Vec<_>>())
    };
    let (word, texts) = evidence("TopologyPlacementFailed", message);
    assert_eq!(word, "queue-topology");
    assert_eq!(
        texts[1..],
        [
            "the nearest domain of topology rack has room for 2 of 16 pods",
            "of 207 nodes, 190 have too little free nvidia.com/gpu, 15 have the taint a:NoSchedule"
        ]
    );
    let (word, texts) = evidence("WaitingForQuota", "insufficient unused quota");
    assert_eq!((word, texts.len()), ("queue-quota", 2));
    assert_eq!(texts[1], "its WorkloadPriorityClass is urgent");
}

/// A Job of MultiKueue: this cluster has no pods of it, and its status is a copy.
#[test]
fn jobs_of_other_clusters_are_not_judged_by_their_pods() {
    use gpuctl_core::model::{RemoteRun, State};
    let answer = |ready: u32, cluster: Option<&str>| {
        let remote = RemoteRun {
            managed_by: "kueue.x-k8s.io/multikueue".to_owned(),
            active: 2,
            ready: Some(ready),
            cluster: cluster.map(ToOwned::to_owned),
            candidates: Vec::new(),
        };
        let job = Job {
            pods_wanted: 2,
            queued: true,
            remote: Some(remote),
            ..job(Vec::new())
        };
        let state = State::from_job(&job).status;
        (state, diagnosed(&job, None, RankAnswers::default()))
    };
    let (status, running) = answer(2, Some("worker-2"));
    assert_eq!(status, Status::Running);
    assert_eq!(running.situation, Situation::Unknown);
    assert_eq!(
        running.sentence,
        "t: cluster worker-2 runs it; 2 pods are active there, 2 of them are ready"
    );
    let command = running.causes[0].helps[0].command.as_deref();
    assert_eq!(command, Some("gpuctl why a/t --context worker-2"));
    let (status, starting) = answer(0, None);
    assert_eq!(status, Status::Pending);
    assert_eq!(starting.situation, Situation::Waiting);
    assert_eq!(starting.causes[0].word, "runs-elsewhere");
}

#[test]
fn rejections_are_distinguished() {
    let refused = |message: &str| {
        cause_words(&Job {
            create_failure: Some(message.into()),
            ..job(Vec::new())
        })
    };
    let account = "pods \"t-0-x\" is forbidden: error looking up service account a/robot: serviceaccount \"robot\" not found";
    assert_eq!(refused(account), ["service-account-missing"]);
    assert_eq!(
        refused("pods \"t-0-x\" is forbidden: no PriorityClass with name urgent was found"),
        ["priority-class-missing"]
    );
    assert_eq!(
        refused(
            "Internal error occurred: failed calling webhook \"guard.example.com\": connection refused"
        ),
        ["webhook-down"]
    );
    // k8s.io/apiserver, pkg/admission/plugin/namespace/lifecycle/admission.go.
    let terminating = "pods \"t-0-x\" is forbidden: unable to create new content in namespace a \
                       because it is being terminated";
    assert_eq!(refused(terminating), ["namespace-terminating"]);
    assert_eq!(refused("something that nobody has seen"), ["pods-refused"]);
}

/// The pod template of a Job is immutable, so the API server rejects `kubectl edit`.
#[test]
fn foreign_jobs_are_not_edited() {
    let message = "pods \"t-0-x\" is forbidden: failed quota: team: must specify cpu for: main";
    let job = Job {
        create_failure: Some(message.into()),
        ..job(Vec::new())
    };
    let help = |kind: &str, is_managed| {
        let subject = Subject {
            kind: kind.to_owned(),
            is_managed,
        };
        let mut help = Help {
            text: "set the CPU".to_owned(),
            command: Some(refused::set(&facts(&subject, &job), "resources.cpu=8")),
            proven: false,
        };
        refused::fit_to_subject(&facts(&subject, &job), &mut help);
        help
    };
    for kind in ["job", "pod", "jobset", "pytorchjob", "replicaset"] {
        let help = help(kind, false);
        assert_eq!(help.command, None, "{kind}");
        assert!(help.text.contains("create it again"), "{}", help.text);
    }
    for kind in ["deployment", "statefulset", "cronjob", "notebook"] {
        let edit = format!("kubectl edit {kind}/t -n a");
        assert_eq!(help(kind, false).command, Some(edit));
    }
    let command = help("training", true).command.unwrap();
    assert!(command.starts_with("gpuctl apply"), "{command}");
}

#[test]
fn terminating_namespace_explains_missing_pods() {
    let subject = Subject {
        kind: "training".to_owned(),
        is_managed: true,
    };
    let answer = |job: &Job| {
        let answer = diagnose(&Facts {
            namespace_terminating: true,
            ..facts(&subject, job)
        });
        let words: Vec<_> = answer.causes.iter().map(|cause| cause.word).collect();
        (answer.situation, words)
    };
    assert_eq!(
        answer(&job(Vec::new())),
        (Situation::Waiting, vec!["namespace-terminating"])
    );
    let deleted = Job {
        deleting: true,
        ..job(Vec::new())
    };
    let words = vec!["namespace-terminating", "deleted"];
    assert_eq!(answer(&deleted), (Situation::Dead, words));
    let running = Pod {
        phase: PodPhase::Running,
        ready: true,
        node: Some("n".into()),
        ..Pod::default()
    };
    assert_eq!(
        answer(&job(vec![running])),
        (Situation::Unknown, Vec::new()),
        "a pod that still runs, and whose log cannot be read"
    );
}

fn ended(rank: u32, second: i64, code: i32, reason: &str) -> Pod {
    let end = ContainerEnd {
        code,
        reason: reason.into(),
        ..ContainerEnd::default()
    };
    Pod {
        name: format!("t-{rank}"),
        rank: Some(rank),
        node: Some("n".into()),
        phase: PodPhase::Failed,
        ended_at: Some(jiff::Timestamp::from_second(second).unwrap()),
        containers: vec![Container {
            name: "main".into(),
            terminated: Some(end),
            ..Container::default()
        }],
        ..Pod::default()
    }
}

#[test]
fn first_rank_to_end_determines_the_cause() {
    let failed = |pods: Vec<Pod>| {
        let conditions = [(
            "Failed".to_owned(),
            ("BackoffLimitExceeded".to_owned(), String::new()),
        )]
        .into();
        Job {
            pods_wanted: 3,
            conditions,
            ..job(pods)
        }
    };
    // Rank 1 ran out of memory, and its peers lost the connection 34 seconds later.
    let pods = vec![
        ended(0, 134, 1, "Error"),
        ended(1, 100, 137, "OOMKilled"),
        ended(2, 135, 1, "Error"),
    ];
    assert_eq!(cause_words(&failed(pods)), ["oom-container"]);
    // If several ranks ended in the same second, the rank with a specific reason failed first.
    let pods = vec![ended(0, 100, 1, "Error"), ended(1, 100, 139, "Error")];
    assert_eq!(cause_words(&failed(pods)), ["signal"]);
    let mut evicted = ended(0, 100, 137, "Error");
    evicted.disrupted = Some("PreemptionByScheduler".into());
    assert_eq!(cause_words(&failed(vec![evicted])), ["preempted"]);
    assert_eq!(cause_words(&failed(Vec::new())), ["retries-exhausted"]);
}

/// A kubelet with a full disk evicts a pod but cannot update its status.
#[test]
fn eviction_event_counts_until_the_pod_restarts() {
    let event = |reason: &str, message: &str, warning: bool| Event {
        reason: reason.into(),
        message: message.into(),
        warning,
        object: "Pod/t-0".into(),
        at: None,
        count: 1,
        version: 0,
    };
    let message =
        "The node was low on resource: ephemeral-storage. Container memory-hog was using 28Ki.";
    let (evicted, begun) = (
        event("Evicted", message, true),
        event("Started", "Container started", false),
    );
    let pod = Pod {
        phase: PodPhase::Running,
        ..ended(0, 100, 137, "Error")
    };
    let words = |events: &[Event], pods: Vec<Pod>| {
        let job = Job {
            pods_wanted: u32::try_from(pods.len()).unwrap(),
            eviction: Some(message.into()),
            ..job(pods)
        };
        let answer = diagnose_with_events(events, &job, None, RankAnswers::default());
        answer
            .causes
            .iter()
            .map(|cause| cause.word)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        words(&[begun.clone(), evicted.clone()], vec![pod.clone()]),
        ["evicted-disk"]
    );
    // The kubelet may not even update the container's status.
    let unaware = Pod {
        ready: true,
        containers: vec![Container {
            name: "main".into(),
            running: true,
            ..Container::default()
        }],
        ..pod.clone()
    };
    assert_eq!(
        words(&[begun.clone(), evicted.clone()], vec![unaware]),
        ["evicted-disk"]
    );
    // Afterwards, only the end of its container counts.
    assert_eq!(
        words(&[evicted.clone(), begun.clone()], vec![pod.clone()]),
        ["signal"]
    );
    let by_karpenter = event("Evicted", "Evicted pod: Underutilized", false);
    assert_eq!(
        words(&[begun.clone(), by_karpenter], vec![pod.clone()]),
        ["signal"]
    );
    // The disk does not affect the other rank.
    let waiting = Some(("ContainerCreating".to_owned(), String::new()));
    let restarted = Pod {
        name: "t-1".into(),
        rank: Some(1),
        node: Some("m".into()),
        containers: vec![Container {
            name: "main".into(),
            waiting,
            ..Container::default()
        }],
        ..Pod::default()
    };
    let pulling = Event {
        at: NOW.parse().ok(),
        object: "Pod/t-1".into(),
        ..event("Pulling", "Pulling image \"i:1\"", false)
    };
    assert_eq!(words(&[pulling], vec![restarted]), ["image-pulling"]);
}

#[test]
fn running_and_finished_jobs_have_no_cause() {
    let pod = Pod {
        phase: PodPhase::Running,
        node: Some("n".into()),
        ready: true,
        ..Pod::default()
    };
    assert_eq!(cause_words(&job(vec![pod])), Vec::<&str>::new());
    let mut on_bad_device = Pod {
        phase: PodPhase::Running,
        node: Some("n".into()),
        ready: true,
        containers: vec![Container {
            name: "main".into(),
            running: true,
            unhealthy: vec!["GPU-5d1f of nvidia.com/gpu".into()],
            ..Container::default()
        }],
        ..Pod::default()
    };
    assert_eq!(
        cause_words(&job(vec![on_bad_device.clone()])),
        ["gpu-fault"]
    );
    // The next attempt waits because the first one crashed, which the device explains.
    on_bad_device.phase = PodPhase::Failed;
    let words = cause_words(&job(vec![on_bad_device]));
    assert_eq!(words[..2], ["gpu-fault", "crash-loop"]);
    let done = [("Complete".to_owned(), (String::new(), String::new()))].into();
    assert_eq!(
        cause_words(&Job {
            conditions: done,
            ..job(Vec::new())
        }),
        Vec::<&str>::new()
    );
    assert_eq!(
        cause_words(&Job {
            deleting: true,
            ..job(Vec::new())
        }),
        ["deleted"]
    );
    assert_eq!(
        cause_words(&Job {
            suspended: true,
            ..job(Vec::new())
        }),
        ["paused"]
    );
}

/// 7 of 8 GPUs at 100 % and 72 W contradict "fine", even if the log has no steps.
#[test]
fn spinning_devices_without_steps_are_unknown() {
    use gpuctl_core::model::JobKind;
    use gpuctl_core::stats::logs::steps::Cadence;
    use gpuctl_core::stats::score::peers::PeerReport;
    let answer = |kind, report: PeerReport, cadence| {
        let pod = Pod {
            phase: PodPhase::Running,
            ready: true,
            node: Some("n".into()),
            ..Pod::default()
        };
        let job = Job {
            kind,
            ..job(vec![pod])
        };
        let running = RunningFacts {
            report,
            cadence,
            ..RunningFacts::default()
        };
        let answer = diagnosed(&job, Some(running), RankAnswers::default());
        (answer.situation, answer.sentence)
    };
    let spinning = |devices: usize| PeerReport {
        sampled: 8,
        spinning: (0..devices).collect(),
        spinning_watts: Some(72.0),
        ..PeerReport::default()
    };
    let (situation, sentence) = answer(JobKind::Training, spinning(7), None);
    assert_eq!(situation, Situation::Unknown);
    assert_eq!(
        sentence,
        "t: 7 of 8 GPUs show full utilization at 72 W, too little for work; its log has no steps, \
         so it is unknown whether it makes progress"
    );
    let unchecked = "t is running; not checked: ";
    // 4 of 8 are not a majority.
    let (_, sentence) = answer(JobKind::Training, spinning(4), None);
    assert!(sentence.starts_with(unchecked), "{sentence}");
    let (_, sentence) = answer(JobKind::Inference, spinning(8), None);
    assert!(sentence.starts_with(unchecked), "{sentence}");
    let last = NOW.parse().unwrap();
    let steps = Some(Cadence {
        last,
        seconds: 9.0,
        longest: 9.0,
    });
    let (_, sentence) = answer(JobKind::Training, spinning(8), steps);
    assert_eq!(
        sentence,
        "t is running; not checked: its nodes (you are not allowed to list nodes)"
    );
    let silent = PeerReport {
        sampled: 8,
        silent_nodes: vec!["gpu-3".into()],
        ..PeerReport::default()
    };
    let (situation, sentence) = answer(JobKind::Training, silent, None);
    assert_eq!(situation, Situation::Unknown);
    assert!(sentence.starts_with("t: the GPUs of gpu-3 have had no metrics"));
}

#[test]
fn running_pod_without_a_node_object_is_unknown() {
    use gpuctl_core::model::Node;
    let pod = Pod {
        phase: PodPhase::Running,
        node: Some("gpu-9".into()),
        ready: true,
        ..Pod::default()
    };
    let job = job(vec![pod]);
    let answer = |nodes: Nodes| diagnose_on_nodes(&nodes, &[], &job, None, RankAnswers::default());
    let node = |name: &str| Node {
        name: name.into(),
        ..Node::default()
    };
    let gone = answer(Nodes::Listed(vec![node("gpu-1")]));
    assert_eq!(gone.situation, Situation::Unknown);
    assert_eq!(gone.causes[0].word, "node-lost");
    assert!(gone.sentence.contains("node gpu-9"), "{}", gone.sentence);
    let listed = answer(Nodes::Listed(vec![node("gpu-9")]));
    assert_eq!(listed.causes.len(), 0);
    assert!(
        !listed.sentence.contains("its nodes"),
        "{}",
        listed.sentence
    );
    // A published copy may be outdated.
    let published = Nodes::Published(vec![node("gpu-1")]);
    assert_eq!(answer(published).causes.len(), 0);
    assert_eq!(answer(Nodes::Hidden).causes.len(), 0);
}

/// Diagnoses a training without new log lines. The ranks' responses determine the rank that its
/// peers wait for.
#[test]
fn rank_answers_explain_a_hang() {
    use gpuctl_core::stats::logs::ras::read;
    use gpuctl_core::stats::logs::stacks::StackGroup;
    use gpuctl_core::stats::logs::steps::Cadence;
    let words = |silent_for: i64, answers: RankAnswers| {
        let last =
            NOW.parse::<jiff::Timestamp>().unwrap() - jiff::SignedDuration::from_secs(silent_for);
        let running = RunningFacts {
            cadence: Some(Cadence {
                last,
                seconds: 9.0,
                longest: 9.0,
            }),
            ..RunningFacts::default()
        };
        let pod = Pod {
            phase: PodPhase::Running,
            ready: true,
            node: Some("n".into()),
            ..Pod::default()
        };
        let job = Job {
            kind: gpuctl_core::model::JobKind::Training,
            ..job(vec![pod])
        };
        let answer = diagnosed(&job, Some(running), answers);
        (
            answer.situation,
            answer.causes.first().map(|cause| cause.word),
            answer.sentence,
        )
    };
    let group = |ranks: &[&str], frame: &str| StackGroup {
        ranks: ranks.iter().map(|rank| (*rank).to_owned()).collect(),
        frames: vec![frame.to_owned()],
    };
    let stacks = |odd: &str| RankAnswers {
        stacks: Some(vec![
            group(&["rank 0", "rank 2"], "all_reduce (c10d.py:25)"),
            group(&["rank 1"], odd),
        ]),
        ..RankAnswers::default()
    };
    let data = words(1080, stacks("_next_data (dataloader.py:630)"));
    assert_eq!((data.0, data.1), (Situation::Stuck, Some("data-stall")));
    assert_eq!(
        data.2,
        "t hangs: 2 of 3 processes wait in a collective, and rank 1 waits for data"
    );
    assert_eq!(
        words(1080, stacks("save (checkpoint.py:3)")).1,
        Some("collective-hang")
    );
    // Waiting ranks may have several locations, and the one that differs may be the first.
    let spread = RankAnswers {
        stacks: Some(vec![
            group(&["rank 0"], "save (checkpoint.py:3)"),
            group(&["rank 1"], "barrier (c10d.py:40)"),
            group(&["rank 2"], "all_reduce (c10d.py:25)"),
        ]),
        ..RankAnswers::default()
    };
    assert_eq!(
        words(1080, spread).2,
        "t hangs: 2 of 3 processes wait in a collective, and rank 0 is elsewhere"
    );
    // Several ranks elsewhere may wait for each other, and a native frame of the interpreter is not
    // a location.
    let frames = |odd: &str| RankAnswers {
        stacks: Some(vec![
            group(&["0", "1", "2", "3", "4"], "all_reduce (c10d.py:25)"),
            group(&["5", "6"], odd),
        ]),
        ..RankAnswers::default()
    };
    assert_eq!(
        words(1080, frames("save (checkpoint.py:3)")).0,
        Situation::Unknown
    );
    assert_eq!(
        words(1080, stacks("_PyEval_EvalFrameDefault")).0,
        Situation::Unknown
    );
    let device = RankAnswers {
        stacks: Some(vec![
            group(
                &["rank 0", "rank 2"],
                "synchronize (torch/cuda/__init__.py:985)",
            ),
            group(&["rank 1"], "_next_data (dataloader.py:630)"),
        ]),
        ..RankAnswers::default()
    };
    let device = words(1080, device).2;
    assert_eq!(
        device,
        "t hangs: 2 of 3 processes wait in a collective or for their GPU, and rank 1 waits for data"
    );
    // If most ranks are elsewhere, the rank that the waiting one waits for is unknown.
    let few = RankAnswers {
        stacks: Some(vec![
            group(&["rank 0", "rank 1"], "save (checkpoint.py:3)"),
            group(&["rank 2"], "all_reduce (c10d.py:25)"),
        ]),
        ..RankAnswers::default()
    };
    let few = words(1080, few);
    assert_eq!(few.0, Situation::Unknown);
    assert_eq!(
        few.2,
        "t logged no step for 1080 s; a step takes 9 s; the cause is unknown"
    );
    assert_eq!(words(1080, RankAnswers::default()).0, Situation::Unknown);
    // A rank without a stack trace may be the one that its peers wait for. A missing response of
    // NCCL does not change the result.
    let unread = RankAnswers {
        unread: 1,
        ..stacks("save (checkpoint.py:3)")
    };
    assert_eq!(words(1080, unread).0, Situation::Unknown);
    let silent = vec!["RAS of NCCL: t-0 did not answer".to_owned()];
    assert_eq!(
        words(
            1080,
            RankAnswers {
                silent,
                ..stacks("save (checkpoint.py:3)")
            }
        )
        .1,
        Some("collective-hang")
    );
    // A training that makes progress spends time in collectives too.
    assert_eq!(words(5, stacks("save (checkpoint.py:3)")).1, None);
    let ras = |text: &str| RankAnswers {
        ras: read(&format!("NCCL version 2.27.3 compiled\n\n{text}")),
        ..RankAnswers::default()
    };
    let behind = "#0-0 (1b) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n  7 ranks have launched up to \
                  operation 64\n  Rank 7 has launched up to operation 60 -- GPU 3 managed by process 1650386 on node node1\n";
    assert_eq!(words(1080, ras(behind)).1, Some("collective-hang"));
    assert_eq!(
        words(5, ras(behind)).1,
        None,
        "some are always behind while ranks communicate"
    );
    let dead =
        "DEAD\n  1 job process is considered dead\n  Process 34 on node 10.0.0.1 managing GPU 5\n";
    assert_eq!(words(1080, ras(dead)).1, Some("rank-missing"));
}
