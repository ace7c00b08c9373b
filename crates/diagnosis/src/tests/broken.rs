//! Tests running pods with broken containers or nodes.

use gpuctl_core::model::{JobKind, Node, NodeFault, Taint};

use super::*;

fn container(name: &str) -> Container {
    Container {
        name: name.into(),
        running: true,
        running_since: "2026-01-31T10:00:00Z".parse().ok(),
        started: true,
        ..Container::default()
    }
}

fn end(code: i32, reason: &str, message: &str) -> ContainerEnd {
    ContainerEnd {
        code,
        reason: reason.into(),
        message: message.into(),
    }
}

/// A container in CrashLoopBackOff, whose last run ended like this.
fn crashing(name: &str, last: ContainerEnd) -> Container {
    Container {
        name: name.into(),
        restarts: 7,
        waiting: Some((
            "CrashLoopBackOff".into(),
            "back-off 5m0s restarting failed container".into(),
        )),
        last_ended: Some(last),
        ..Container::default()
    }
}

fn pod(containers: Vec<Container>) -> Pod {
    Pod {
        name: "t".into(),
        node: Some("n".into()),
        phase: PodPhase::Running,
        ready: containers.iter().all(|container| container.running),
        containers,
        ..Pod::default()
    }
}

fn answer_on(nodes: &Nodes, kind: &str, is_managed: bool, job: &Job) -> Answer {
    let subject = Subject {
        kind: kind.to_owned(),
        is_managed,
    };
    diagnose(&Facts {
        nodes,
        ..facts(&subject, job)
    })
}

fn words(answer: &Answer) -> Vec<&'static str> {
    answer.causes.iter().map(|cause| cause.word).collect()
}

#[test]
fn crash_loops_are_found_in_every_kind_of_workload() {
    let ends = [
        (end(137, "OOMKilled", ""), "oom-container"),
        (end(1, "Error", ""), "exit-code"),
        (end(139, "Error", ""), "signal"),
        (
            end(128, "ContainerCannotRun", "unknown device id"),
            "start-error",
        ),
        (
            end(128, "StartError", "exec: \"trian\": not found"),
            "start-error",
        ),
    ];
    for (last, word) in ends {
        for kind in ["pod", "job", "pytorchjob", "deployment", "training"] {
            let job = Job {
                kind: match kind {
                    "deployment" => JobKind::Inference,
                    _ => JobKind::Training,
                },
                ..job(vec![pod(vec![crashing("worker", last.clone())])])
            };
            let answer = answer_on(&Nodes::Hidden, kind, kind == "training", &job);
            assert_eq!(words(&answer), ["crash-loop", word], "{kind}");
            assert_eq!(answer.situation, Situation::Waiting, "{kind}");
            let sentence = &answer.sentence;
            assert!(sentence.starts_with("t waits: t keeps exiting (7 restarts), last with "));
        }
    }
}

#[test]
fn every_container_of_a_pod_is_checked() {
    // The main container runs, so it is unknown whether the job works.
    let sidecar = job(vec![pod(vec![
        container("main"),
        crashing("proxy", end(1, "Error", "")),
    ])]);
    let answer = answer_on(&Nodes::Hidden, "pod", false, &sidecar);
    assert_eq!(answer.situation, Situation::Unknown);
    assert_eq!(words(&answer), ["crash-loop", "exit-code"]);
    assert_eq!(
        answer.sentence,
        "t: container proxy of t keeps exiting (7 restarts), last with exit code 1"
    );
    let logs = answer.causes[0].helps[0].command.as_deref();
    assert_eq!(logs, Some("kubectl logs t -n a -c proxy --previous"));
    let text = &answer.causes[1].evidence[0].text;
    assert_eq!(text, "container proxy of t exited with code 1");
    // An init container keeps the pod from starting.
    let init = Container {
        is_init: true,
        ..crashing("val", end(2, "Error", ""))
    };
    let waiting = Container {
        waiting: Some(("PodInitializing".into(), String::new())),
        ..Container::default()
    };
    let pending = Pod {
        phase: PodPhase::Pending,
        ..pod(vec![waiting, init])
    };
    let answer = answer_on(&Nodes::Hidden, "pod", false, &job(vec![pending]));
    assert_eq!(words(&answer), ["crash-loop", "exit-code"]);
    assert!(
        answer
            .sentence
            .starts_with("t waits: init container val of t keeps exiting")
    );
    // A container that failed and is not restarted.
    let failed = Container {
        terminated: Some(end(137, "OOMKilled", "")),
        ..Container {
            name: "trainer".into(),
            ..Container::default()
        }
    };
    let unequal = job(vec![pod(vec![container("istio-proxy"), failed])]);
    let answer = answer_on(&Nodes::Hidden, "pod", false, &unequal);
    assert_eq!(words(&answer), ["oom-container"]);
    assert_eq!(answer.situation, Situation::Unknown);
    assert!(
        answer.sentence.contains("container trainer of t"),
        "{}",
        answer.sentence
    );
}

#[test]
fn a_container_between_two_crashes_is_in_a_crash_loop() {
    let running = |since: &str, restarts| Container {
        restarts,
        running_since: since.parse().ok(),
        last_ended: Some(end(137, "OOMKilled", "")),
        ..container("main")
    };
    let answer = |container| {
        answer_on(
            &Nodes::Hidden,
            "job",
            false,
            &job(vec![pod(vec![container])]),
        )
    };
    let again = answer(running("2026-01-31T11:59:40Z", 7));
    assert_eq!(words(&again), ["crash-loop", "oom-container"]);
    assert_eq!(again.situation, Situation::Unknown);
    assert!(
        again
            .sentence
            .ends_with("; it has been running again for 20 s"),
        "{}",
        again.sentence
    );
    // After ten minutes the kubelet resets the delay. A single retry is not a loop.
    assert_eq!(
        words(&answer(running("2026-01-31T11:40:00Z", 7))),
        Vec::<&str>::new()
    );
    assert_eq!(
        words(&answer(running("2026-01-31T11:59:40Z", 1))),
        Vec::<&str>::new()
    );
}

#[test]
fn a_command_that_ends_without_an_error_is_started_again() {
    let done = crashing("main", end(0, "Completed", ""));
    let answer = answer_on(
        &Nodes::Hidden,
        "deployment",
        false,
        &job(vec![pod(vec![done])]),
    );
    assert_eq!(words(&answer), ["crash-loop"]);
    assert!(
        answer.causes[0].evidence[1]
            .text
            .contains("ends without an error")
    );
}

fn node(fault: Option<NodeFault>, taint: Option<&str>) -> Nodes {
    let taints = taint.map(|key| Taint {
        key: key.into(),
        effect: "NoExecute".into(),
        ..Taint::default()
    });
    Nodes::Listed(vec![Node {
        name: "n".into(),
        schedulable: true,
        fault,
        taints: taints.into_iter().collect(),
        ..Node::default()
    }])
}

fn fault(status: &str, message: &str) -> Option<NodeFault> {
    Some(NodeFault {
        condition: "Ready".into(),
        status: status.into(),
        reason: "NodeStatusUnknown".into(),
        message: message.into(),
        since: "2026-01-31T11:46:00Z".parse().ok(),
    })
}

#[test]
fn running_pods_on_nodes_without_a_kubelet_are_lost() {
    let silent = node(
        fault("Unknown", "Kubelet stopped posting node status."),
        Some("node.kubernetes.io/unreachable"),
    );
    let unready = Pod {
        ready: false,
        ..pod(vec![container("main")])
    };
    let marked = Pod {
        silent: true,
        ..unready.clone()
    };
    for (pod, nodes) in [(&unready, &silent), (&marked, &silent)] {
        for (kind, is_managed) in [("pod", false), ("pytorchjob", false), ("training", true)] {
            let answer = answer_on(nodes, kind, is_managed, &job(vec![pod.clone()]));
            assert_eq!(words(&answer), ["node-lost"], "{kind}");
            assert_eq!(answer.situation, Situation::Dead, "{kind}");
            let text =
                "node n of t has not responded for 14 min: Kubelet stopped posting node status";
            assert_eq!(answer.sentence, format!("t: {text}"));
            assert_eq!(answer.since, "2026-01-31T11:46:00Z".parse().ok());
        }
    }
    // The taint is enough, as is the status of the pod for users who cannot list nodes.
    let tainted = node(None, Some("node.kubernetes.io/unreachable"));
    assert_eq!(
        words(&answer_on(&tainted, "pod", false, &job(vec![unready]))),
        ["node-lost"]
    );
    let answer = answer_on(&Nodes::Hidden, "pod", false, &job(vec![marked]));
    assert_eq!(words(&answer), ["node-lost"]);
}

#[test]
fn running_pods_on_unready_nodes_are_on_a_faulty_node() {
    let message = "PLEG is not healthy: pleg was last seen active 5m0s ago";
    let nodes = node(
        fault("False", message),
        Some("node.kubernetes.io/not-ready"),
    );
    for silent in [false, true] {
        let pod = Pod {
            ready: false,
            silent,
            ..pod(vec![container("main")])
        };
        let answer = answer_on(&nodes, "pod", false, &job(vec![pod]));
        assert_eq!(words(&answer), ["node-faulty"]);
        let expected = format!("t: node n of t has not been ready for 14 min: {message}");
        assert_eq!(
            (answer.situation, answer.sentence),
            (Situation::Unknown, expected)
        );
    }
    let pressure = Some(NodeFault {
        condition: "GPUMissing".into(),
        status: "True".into(),
        message: "7 of 8 GPUs".into(),
        ..NodeFault::default()
    });
    let running = job(vec![pod(vec![container("main")])]);
    let answer = answer_on(&node(pressure, None), "pod", false, &running);
    assert_eq!(
        answer.sentence,
        "t: node n of t reports GPUMissing: 7 of 8 GPUs"
    );
    assert_eq!(
        (answer.situation, words(&answer)),
        (Situation::Unknown, vec!["node-faulty"])
    );
}

#[test]
fn deleted_pods_do_not_end_on_a_node_that_does_not_respond() {
    let nodes = node(fault("Unknown", ""), Some("node.kubernetes.io/unreachable"));
    let deleted = |reason: Option<&str>| {
        let pod = Pod {
            ready: false,
            deleting: true,
            reason: reason.map(Into::into),
            ..pod(vec![container("main")])
        };
        Job {
            deleting: true,
            ..job(vec![pod])
        }
    };
    for reason in [None, Some("NodeLost")] {
        let answer = answer_on(&nodes, "pod", false, &deleted(reason));
        assert_eq!(words(&answer), ["node-lost", "deleted"]);
        assert!(
            answer.sentence.starts_with(
                "t: t was deleted, but it does not end until its node n returns or somebody \
                 deletes it by force: the node has not responded for 14 min"
            ),
            "{}",
            answer.sentence
        );
        let helps = &answer.causes[0].helps;
        let force = "kubectl delete pod t -n a --force --grace-period=0";
        assert_eq!(helps[1].command.as_deref(), Some(force));
    }
    let managed = answer_on(&nodes, "training", true, &deleted(None));
    let force = managed.causes[0].helps[1].command.as_deref();
    assert_eq!(force, Some("gpuctl delete job a/t --force"));
}

#[test]
fn pods_that_are_not_ready_are_not_fine() {
    let unready = Pod {
        ready: false,
        ..pod(vec![container("main")])
    };
    let answer = answer_on(&Nodes::Hidden, "pod", false, &job(vec![unready]));
    assert_eq!(words(&answer), ["probe-starting"]);
    assert_eq!(answer.situation, Situation::Unknown);
    assert_eq!(answer.sentence, "t: t is running, but it is not ready");
}
