//! Tests of ended pods, with the statuses and messages of kubelets, controllers and queues.

use super::*;
use gpuctl_core::model::ContainerRestarts;

fn failed(pods: Vec<Pod>) -> Job {
    Job {
        pods_wanted: u32::try_from(pods.len()).unwrap(),
        conditions: [(
            "Failed".to_owned(),
            ("BackoffLimitExceeded".to_owned(), String::new()),
        )]
        .into(),
        ..job(pods)
    }
}

/// The first cause of a foreign pod, its first evidence, and its first command.
fn why(pod: Pod) -> (&'static str, String, Option<String>) {
    let subject = Subject {
        kind: "pod".to_owned(),
        is_managed: false,
    };
    let answer = diagnose(&facts(&subject, &failed(vec![pod])));
    let cause = &answer.causes[0];
    (
        cause.word,
        cause.evidence[0].text.clone(),
        cause.helps.first().and_then(|help| help.command.clone()),
    )
}

/// A pod that never ran, with the kubelet's reason and message.
fn refused(reason: &str, message: &str) -> Pod {
    Pod {
        reason: Some(reason.into()),
        message: Some(message.into()),
        ended_at: None,
        containers: Vec::new(),
        ..ended(0, 100, 0, "")
    }
}

/// Messages of kubernetes 1.24 to 1.36, pkg/kubelet.
#[test]
fn kubelet_rejections_are_causes_of_their_own() {
    for (reason, message) in [
        (
            "OutOfcpu",
            "Pod Node didn't have enough resource: cpu, requested: 8000, used: 1000, capacity: 8000",
        ),
        (
            "OutOfnvidia.com/gpu",
            "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 0, capacity: 0",
        ),
        (
            "OutOfpods",
            "Pod was rejected: Node didn't have enough resource: pods",
        ),
        (
            "TopologyAffinityError",
            "Resources cannot be allocated with Topology locality",
        ),
        (
            "SMTAlignmentError",
            "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2",
        ),
        (
            "UnexpectedAdmissionError",
            "Pod was rejected: Allocate failed due to device plugin GetPreferredAllocation rpc failed",
        ),
        ("NodeAffinity", "Pod Predicate NodeAffinity failed"),
        ("NodeAdmissionError", "node does not admit"),
        ("SomethingNew", "Pod was rejected: because of the weather"),
    ] {
        let (word, text, command) = why(refused(reason, message));
        assert_eq!(word, "admission-failed", "{reason}");
        let detail = message
            .strip_prefix("Pod was rejected: ")
            .unwrap_or(message);
        assert!(text.starts_with("node n rejected rank 0"), "{text}");
        assert!(text.contains(detail), "{text}");
        assert_eq!(
            command.as_deref(),
            Some("gpuctl describe node n"),
            "{reason}"
        );
    }
    // Without a message, the reason is the evidence.
    assert_eq!(
        why(refused("OutOfmemory", "")).1,
        "node n rejected rank 0: OutOfmemory"
    );
}

#[test]
fn evictions_name_what_ran_out() {
    for (message, word, part) in [
        (
            "The node was low on resource: memory. Threshold quantity: 100Mi.",
            "evicted-memory",
            "low on memory",
        ),
        (
            "The node was low on resource: pids. Threshold quantity: 3276, available: 1200.",
            "evicted-pids",
            "process IDs",
        ),
        (
            "The node was low on resource: ephemeral-storage. Container memory was using 28Ki.",
            "evicted-disk",
            "disk space",
        ),
        (
            "The node was low on resource: inodes. Threshold quantity: 5%.",
            "evicted-disk",
            "inodes",
        ),
        (
            "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
            "evicted-disk",
            "than its limit",
        ),
        (
            "Usage of EmptyDir volume \"dshm\" exceeds the limit \"16Gi\". ",
            "evicted-disk",
            "a volume used more",
        ),
        (
            "The node had condition: [PIDPressure]. ",
            "evicted-pids",
            "process IDs",
        ),
        ("The moon was full", "ended-other", "The moon was full"),
    ] {
        let (found, text, command) = why(refused("Evicted", message));
        assert_eq!(found, word, "{message}");
        assert!(
            text.contains(part) && text.contains(message.trim()),
            "{text}"
        );
        assert!(!command.unwrap().contains("gpuctl explain"), "{message}");
    }
}

#[test]
fn critical_pods_and_queues_are_not_drains() {
    let message = "Preempted in order to admit critical pod";
    let (word, text, command) = why(refused("Preempting", message));
    assert_eq!(word, "preempted");
    assert!(text.contains("for a critical pod"), "{text}");
    assert_eq!(command.as_deref(), Some("gpuctl describe node n"));
    let by_kueue = |reason: &str, message: &str| Pod {
        stopped: Some((reason.into(), message.into())),
        ..ended(0, 100, 143, "Error")
    };
    // Kueue 0.18, pkg/controller/jobs/pod.
    let message = "Preempted to accommodate a higher priority Workload";
    let (word, text, command) = why(by_kueue("WorkloadEvictedDueToPreempted", message));
    assert_eq!(word, "queue-evicted");
    assert_eq!(
        text,
        format!(
            "rank 0 was stopped by its queue (Kueue), because another workload preempted it: {message}"
        )
    );
    assert_eq!(command.as_deref(), Some("gpuctl get queues -n a"));
    let (word, text, _) = why(by_kueue("WorkloadEvictedDueToTheWeather", "rain"));
    assert_eq!(word, "queue-evicted");
    assert!(
        text.ends_with("WorkloadEvictedDueToTheWeather: rain"),
        "{text}"
    );
    // The pod is deleted, but Kueue's finalizer keeps it.
    let deleted = Job {
        deleting: true,
        ..job(vec![by_kueue("WorkloadEvictedDueToPodsReadyTimeout", "")])
    };
    assert_eq!(cause_words(&deleted), ["queue-evicted"]);
}

#[test]
fn disruptions_are_distinguished_by_reason() {
    let disrupted = |reason: &str, message: &str| {
        why(Pod {
            disrupted: Some(reason.into()),
            disruption: Some(message.into()),
            ..ended(0, 100, 137, "Error")
        })
    };
    for (reason, message, word) in [
        ("PreemptionByScheduler", "", "preempted"),
        ("DeletionByTaintManager", "", "node-lost"),
        (
            "DeletionByPodGC",
            "PodGC: node no longer exists",
            "node-lost",
        ),
        (
            "EvictionByEvictionAPI",
            "Eviction API: evicting",
            "node-drained",
        ),
        ("DeletionByDeviceTaintManager", "", "device-taint"),
        (
            "TerminationByKubelet",
            "The node was low on resource: pids. ",
            "evicted-pids",
        ),
        (
            "TerminationByKubelet",
            "Pod was preempted by Kubelet to accommodate a critical pod.",
            "preempted",
        ),
        (
            "TerminationByKubelet",
            "Pod was terminated in response to imminent node shutdown.",
            "node-lost",
        ),
        ("ReclaimedByCloud", "spot instance", "ended-other"),
    ] {
        assert_eq!(disrupted(reason, message).0, word, "{reason} {message}");
    }
    let (_, text, command) = disrupted("ReclaimedByCloud", "spot instance");
    assert_eq!(text, "rank 0 ended: ReclaimedByCloud: spot instance");
    assert_eq!(command.as_deref(), Some("kubectl get pod t-0 -n a -o yaml"));
}

#[test]
fn invented_exit_codes_are_unknown() {
    for (code, reason) in [(137, "ContainerStatusUnknown"), (255, "Unknown")] {
        let (word, text, command) = why(ended(0, 100, code, reason));
        assert_eq!(word, "container-lost", "{reason}");
        assert!(text.contains(reason) && !text.contains("SIGKILL"), "{text}");
        assert_eq!(command.as_deref(), Some("gpuctl describe node n"));
    }
    assert_eq!(why(ended(0, 100, 255, "Error")).0, "exit-code");
    let (word, text, _) = why(ended(0, 100, 3, "Cancelled"));
    assert_eq!(word, "exit-code");
    assert_eq!(text, "rank 0 exited with code 3, reason Cancelled");
    let (word, text, _) = why(Pod {
        reason: Some("ProviderFailed".into()),
        ..ended(0, 100, 1, "Error")
    });
    assert_eq!(
        (word, text.as_str()),
        ("ended-other", "rank 0 ended: ProviderFailed")
    );
    let (word, _, _) = why(Pod {
        containers: Vec::new(),
        ..ended(0, 100, 0, "")
    });
    assert_eq!(word, "ended-other");
}

#[test]
fn commands_for_logs_name_the_container() {
    let end = ContainerEnd {
        code: 1,
        reason: "Error".into(),
        ..ContainerEnd::default()
    };
    let waiting = |name: &str| Container {
        name: name.into(),
        waiting: Some(("PodInitializing".into(), String::new())),
        ..Container::default()
    };
    let pod = |containers| Pod {
        name: "initcl".into(),
        rank: None,
        phase: PodPhase::Pending,
        ended_at: None,
        containers,
        ..ended(0, 100, 0, "")
    };
    let crashing = pod(vec![
        waiting("main"),
        Container {
            name: "val".into(),
            is_init: true,
            restarts: 4,
            waiting: Some(("CrashLoopBackOff".into(), String::new())),
            last_ended: Some(end.clone()),
            ..Container::default()
        },
    ]);
    let answer = |pod: &Pod, is_managed| {
        let subject = Subject {
            kind: if is_managed { "training" } else { "pod" }.to_owned(),
            is_managed,
        };
        diagnose(&facts(&subject, &job(vec![pod.clone()])))
    };
    let foreign = answer(&crashing, false);
    assert_eq!(foreign.causes[0].word, "crash-loop");
    assert_eq!(
        foreign.causes[0].evidence[0].text,
        "init container val of initcl keeps exiting (4 restarts), last with exit code 1"
    );
    assert_eq!(
        foreign.causes[1].evidence[0].text,
        "init container val of initcl exited with code 1"
    );
    for cause in &foreign.causes {
        assert_eq!(
            cause.helps[0].command.as_deref(),
            Some("kubectl logs initcl -n a -c val --previous"),
            "{}",
            cause.word
        );
    }
    assert_eq!(
        answer(&crashing, true).causes[0].helps[0]
            .command
            .as_deref(),
        Some("gpuctl logs a/t -c val --previous")
    );
    let failed_sidecar = Pod {
        containers: vec![Container {
            name: "proxy".into(),
            terminated: Some(end),
            ..Container::default()
        }],
        ..ended(0, 100, 0, "")
    };
    assert_eq!(
        why(failed_sidecar).2.as_deref(),
        Some("kubectl logs t-0 -n a -c proxy")
    );
}

#[test]
fn sidecar_cause_tells_how_the_main_container_ended() {
    let pod = |name: &str, code, reason: &str, policy| {
        let end = ContainerEnd {
            code,
            reason: reason.into(),
            ..ContainerEnd::default()
        };
        let proxy = Container {
            name: "istio-proxy".into(),
            running: true,
            ..Container::default()
        };
        let main = Container {
            name: name.into(),
            has_gpus: true,
            terminated: Some(end),
            ..Container::default()
        };
        Pod {
            phase: PodPhase::Running,
            restart_policy: policy,
            containers: vec![proxy, main],
            ..ended(0, 100, 0, "")
        }
    };
    let never = ContainerRestarts::Never;
    let causes = |pod: Pod| {
        let answer = diagnosed(&job(vec![pod]), None, RankAnswers::default());
        let words: Vec<_> = answer.causes.iter().map(|cause| cause.word).collect();
        let text = answer
            .causes
            .first()
            .map(|cause| cause.evidence[0].text.clone());
        (words, text.unwrap_or_default())
    };
    let (words, text) = causes(pod("main", 0, "Completed", never));
    assert_eq!(words, ["sidecar-running"]);
    assert!(
        text.starts_with("rank 0 ended with exit code 0, but"),
        "{text}"
    );
    let (words, text) = causes(pod("main", 137, "OOMKilled", never));
    assert_eq!(words, ["sidecar-running", "oom-container"]);
    assert!(text.contains("OOMKilled (exit code 137)"), "{text}");
    // The container with the GPUs is the main one, whatever its name.
    let (words, text) = causes(pod("worker", 1, "Error", never));
    assert_eq!(words, ["sidecar-running", "exit-code"]);
    assert!(text.contains("ended with exit code 1"), "{text}");
    // The kubelet starts the container again.
    let (words, _) = causes(pod("worker", 1, "Error", ContainerRestarts::Always));
    assert!(!words.contains(&"sidecar-running"), "{words:?}");
}

#[test]
fn first_rank_of_the_last_attempt_has_its_own_code() {
    let sentence = |pods: Vec<Pod>, logged: Option<&str>| {
        let subject = Subject {
            kind: "training".to_owned(),
            is_managed: true,
        };
        let message = logged.map(|pod| LastMessage {
            text: "the first error in the logs".into(),
            pod: Some(pod.into()),
            at: None,
        });
        let answer = diagnose(&Facts {
            last_messages: message.into_iter().collect(),
            ..facts(&subject, &failed(pods))
        });
        let evidence = &answer.causes[0].evidence;
        let texts = evidence.iter().map(|evidence| evidence.text.clone());
        texts.collect::<Vec<_>>().join("; ")
    };
    // Every rank records which one failed first. Rank 0 exits with the supervisor's code.
    let supervised = |rank, second, code| {
        let mut pod = ended(rank, second, code, "Error");
        let end = pod.containers[0].terminated.as_mut().unwrap();
        end.message = "gpuctl/Error: rank 1 ended with exit code 3; all 2 retries are used".into();
        pod
    };
    let pods = vec![supervised(0, 100, 113), supervised(1, 100, 3)];
    assert!(
        sentence(pods.clone(), None).starts_with("rank 1 ended with exit code 3"),
        "{}",
        sentence(pods, None)
    );
    assert_eq!(
        first_failed(&failed(vec![supervised(0, 99, 113), supervised(1, 100, 3)]))
            .and_then(|pod| pod.rank),
        Some(1)
    );
    // Without the supervisor, the log decides between pods that ended in the same second.
    let pods = vec![ended(0, 100, 1, "Error"), ended(1, 100, 3, "Error")];
    let undecided = sentence(pods.clone(), None);
    assert!(
        undecided.contains("rank 1 exited with code 3 in the same second, and may have"),
        "{undecided}"
    );
    let decided = sentence(pods, Some("t-1"));
    assert!(
        decided.starts_with("rank 1 exited with code 3"),
        "{decided}"
    );
    assert!(!decided.contains("same second"), "{decided}");
}

#[test]
fn only_dated_errors_of_devices_are_causes() {
    let causes = |code, is_dated| {
        let subject = Subject {
            kind: "training".to_owned(),
            is_managed: true,
        };
        let answer = diagnose(&Facts {
            faults: vec![DeviceError {
                device: "n/gpu-3".into(),
                code,
                is_dated,
            }],
            ..facts(&subject, &failed(vec![ended(0, 100, 1, "Error")]))
        });
        let words: Vec<_> = answer.causes.iter().map(|cause| cause.word).collect();
        (words, answer.causes[0].clone())
    };
    for code in [
        48, 62, 64, 74, 79, 94, 95, 119, 120, 136, 140, 143, 145, 149, 150, 154,
    ] {
        let (words, cause) = causes(code, true);
        assert_eq!(words, ["gpu-fault", "exit-code"], "{code}");
        assert!(cause.helps[0].text.contains("NVIDIA recommends: "));
        assert_eq!(causes(code, false).0, ["exit-code"], "{code} undated");
    }
    let (_, cause) = causes(79, true);
    assert_eq!(
        cause.evidence[0].text,
        "n/gpu-3, which rank 0 used, reported XID 79 within five minutes of the failure: the GPU has fallen off the bus"
    );
    for code in [13, 31, 43, 45, 63, 92, 137, 9999] {
        let (words, cause) = causes(code, true);
        assert_eq!(words, ["exit-code"], "{code}");
        assert!(
            cause.evidence[1]
                .text
                .starts_with(&format!("n/gpu-3 reported XID {code}")),
            "{:?}",
            cause.evidence
        );
    }
}

/// `gpuctl` commands about jobs do not find the objects of other tools.
#[test]
fn foreign_objects_get_commands_of_kubectl() {
    let lost = Pod {
        phase: PodPhase::Running,
        silent: true,
        ..ended(0, 100, 0, "")
    };
    let subject = |is_managed| Subject {
        kind: "deployment".to_owned(),
        is_managed,
    };
    let job = job(vec![lost]);
    let fitted = |command: &str, is_managed| {
        let subject = subject(is_managed);
        let mut help = Help {
            text: "x".to_owned(),
            command: Some(command.to_owned()),
            proven: false,
        };
        refused::fit_to_subject(&facts(&subject, &job), &mut help);
        help.command
    };
    let restart = "gpuctl restart job a/t";
    assert_eq!(fitted(restart, false), None);
    assert_eq!(fitted(restart, true).as_deref(), Some(restart));
    assert_eq!(
        fitted("gpuctl explain security", false).as_deref(),
        Some("kubectl explain pod.spec.securityContext")
    );
    assert_eq!(fitted("gpuctl explain job.gang", false), None);
    assert_eq!(
        fitted("gpuctl logs a/t --tail 20", false).as_deref(),
        Some("kubectl logs t-0 -n a -c main")
    );
    let node = "gpuctl describe node n";
    assert_eq!(fitted(node, false).as_deref(), Some(node));
    let deleted = Job {
        deleting: true,
        ..job.clone()
    };
    let subject = subject(false);
    let answer = diagnose(&facts(&subject, &deleted));
    let helps = answer.causes.iter().flat_map(|cause| &cause.helps);
    let mut commands = helps.filter_map(|help| help.command.as_deref());
    let forced = "kubectl delete pod t-0 -n a --force";
    assert!(
        commands.any(|command| command.starts_with(forced)),
        "{answer:?}"
    );
}
