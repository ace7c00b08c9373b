//! Scenarios with jobs that ended unexpectedly.

use serde_json::{Value, json};

use super::setup::{EmittedEvent, Setup, ended, gpus, job, job_with, pod, service, status, with};

fn disrupted(reason: &str, message: &str) -> Value {
    json!({"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}]})
}

pub fn setups() -> Vec<Setup> {
    let new = |title: &str, truth| Setup::new("dead", title, truth).nodes([gpus(0)]);
    let with_status = |title: &str, truth, annotations: Value| {
        new(title, truth).objects([job_with(1, pod(1), annotations)])
    };
    let evicted = |message: &str| {
        ended(
            137,
            "Error",
            json!({"reason": "Evicted", "message": message}),
        )
    };
    let without_pods = |one: Setup| {
        one.act(&[
            "delete",
            "pods",
            "--all",
            "--wait=false",
            "--force",
            "--grace-period=0",
        ])
    };
    let coded = {
        let rule = json!({"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]});
        with(
            job_with(1, pod(1), ended(42, "Error", json!({}))),
            json!({"spec": {"podFailurePolicy": rule}}),
        )
    };
    let late = with(
        job(1, pod(1)),
        json!({"spec": {"activeDeadlineSeconds": 2}}),
    );
    let lost = json!({"phase": "Running", "conditions": [{"type": "ContainersReady", "status": "True"}, {"type": "Ready", "status": "False"}],
        "containerStatuses": [{"name": "main", "image": "busybox", "imageID": "", "ready": true, "started": true, "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-31T10:00:00Z"}}}]});
    let mut leaving = job_with(1, pod(1), json!({"sandbox/silent": "yes"}));
    leaving["metadata"]["finalizers"] = json!(["example.com/wait"]);
    let bare = |annotations: Value| {
        let mut spec = pod(1);
        spec["nodeName"] = json!(format!("{}-0", super::setup::NS));
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train", "annotations": annotations}, "spec": spec})
    };
    vec![
        with_status("exit 1", "exit-code", ended(1, "Error", json!({}))),
        with_status("exit 2", "exit-code", ended(2, "Error", json!({}))),
        with_status("exit 127", "exit-code", ended(127, "Error", json!({}))),
        with_status("SIGSEGV", "signal", ended(139, "Error", json!({}))),
        with_status("SIGABRT", "signal", ended(134, "Error", json!({}))),
        with_status(
            "SIGKILL from an unknown sender",
            "signal",
            ended(137, "Error", json!({})),
        ),
        with_status("SIGBUS", "signal", ended(135, "Error", json!({}))),
        with_status(
            "too little memory",
            "oom-container",
            ended(137, "OOMKilled", json!({})),
        ),
        new(
            "too little memory in a pod that gpuctl did not create",
            "oom-container",
        )
        .objects([bare(ended(137, "OOMKilled", json!({})))]),
        Setup {
            emitted: vec![EmittedEvent {
                reason: "SystemOOM",
                message: "System OOM encountered, victim process: python, pid: 4242",
                warning: true,
                about: "Node",
            }],
            ..with_status(
                "a node without memory",
                "oom-node",
                ended(137, "Error", json!({})),
            )
            .without_nodes("signal")
            .without_events("signal")
        },
        with_status(
            "disk of the node",
            "evicted-disk",
            evicted(
                "The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 1Gi.",
            ),
        ),
        with_status(
            "its own disk limit",
            "evicted-disk",
            evicted("Pod ephemeral local storage usage exceeds the total limit of containers 1Gi."),
        ),
        with_status(
            "an emptyDir that is full",
            "evicted-disk",
            evicted("Usage of EmptyDir volume \"scratch\" exceeds the limit \"10Gi\"."),
        ),
        with_status(
            "memory of the node",
            "evicted-memory",
            evicted(
                "The node was low on resource: memory. Threshold quantity: 100Mi, available: 20Mi.",
            ),
        ),
        with_status(
            "preempted",
            "preempted",
            ended(
                143,
                "Error",
                disrupted(
                    "PreemptionByScheduler",
                    "default-scheduler: preempting to accommodate a higher priority pod",
                ),
            ),
        ),
        with_status(
            "drained",
            "node-drained",
            ended(
                143,
                "Error",
                disrupted("EvictionByEvictionAPI", "Eviction API: evicting"),
            ),
        ),
        with_status(
            "a taint of its node",
            "node-lost",
            ended(
                143,
                "Error",
                disrupted(
                    "DeletionByTaintManager",
                    "Taint manager: deleting due to NoExecute taint",
                ),
            ),
        ),
        with_status(
            "a node that was shut down",
            "node-lost",
            ended(
                143,
                "Error",
                json!({"reason": "NodeShutdown", "message": "Pod was terminated in response to imminent node shutdown."}),
            ),
        ),
        with_status(
            "a node that does not answer",
            "node-lost",
            status(lost.clone()),
        ),
        new("a node that does not answer, of a service", "node-lost").objects([service(
            1,
            pod(1),
            status(lost),
        )]),
        new("a deadline", "deadline").objects([late]),
        with_status(
            "a deadline of the pod",
            "deadline",
            ended(
                143,
                "Error",
                json!({"reason": "DeadlineExceeded", "message": "Pod was active on the node longer than the specified deadline"}),
            ),
        ),
        with_status(
            "no such program",
            "start-error",
            ended(
                128,
                "StartError",
                json!({"containerStatuses": [{"name": "main", "image": "busybox", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 128, "reason": "StartError", "message": "exec: \"trian\": executable file not found in $PATH"}}}]}),
            ),
        ),
        with_status(
            "a node that refuses the pod",
            "admission-failed",
            status(
                json!({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "Allocate failed due to requested number of devices unavailable"}),
            ),
        ),
        with_status(
            "a node whose device plugin lost its devices",
            "admission-failed",
            status(
                json!({"phase": "Failed", "reason": "OutOfnvidia.com/gpu", "message": "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 0, capacity: 0"}),
            ),
        ),
        with_status(
            "a node without devices and CPUs in one NUMA node",
            "admission-failed",
            status(
                json!({"phase": "Failed", "reason": "TopologyAffinityError", "message": "Resources cannot be allocated with Topology locality"}),
            ),
        ),
        with_status(
            "a container that its node lost",
            "container-lost",
            ended(137, "ContainerStatusUnknown", json!({})),
        ),
        with_status(
            "a container from before a restart of its node",
            "container-lost",
            ended(255, "Unknown", json!({})),
        ),
        with_status(
            "preempted for a critical pod",
            "preempted",
            ended(
                137,
                "Error",
                json!({"reason": "Preempting", "message": "Preempted in order to admit critical pod"}),
            ),
        ),
        with_status(
            "process IDs of the node",
            "evicted-pids",
            evicted("The node was low on resource: pids. Threshold quantity: 3276, available: 1200."),
        ),
        new("stopped by Kueue", "queue-evicted").objects([bare(ended(
            143,
            "Error",
            json!({"conditions": [{"type": "TerminationTarget", "status": "True", "reason": "WorkloadEvictedDueToPreempted",
                "message": "Preempted to accommodate a higher priority Workload"}]}),
        ))]),
        new("an unknown reason", "ended-other").objects([bare(ended(
            1,
            "Error",
            json!({"reason": "ProviderFailed", "message": "the provider lost the instance"}),
        ))]),
        with_status(
            "a check that kills",
            "probe-killed",
            ended(137, "Error", json!({})),
        )
        .emitted(
            "Killing",
            "Container main failed liveness probe, will be restarted",
        )
        .without_events("signal"),
        without_pods(with_status(
            "deleted pods",
            "retries-exhausted",
            ended(1, "Error", json!({})),
        )),
        without_pods(
            new(
                "deleted pods, and a failure policy that records the exit code",
                "exit-code",
            )
            .objects([coded]),
        ),
        new("being deleted", "deleted").objects([leaving]).act(&[
            "delete",
            "job",
            "train",
            "--wait=false",
        ]),
    ]
}
