//! The names of causes with their meanings. A test compares docs/why.md with this list.

/// All causes that an answer may contain, with their meanings.
pub(crate) const CAUSES: &[(&str, &str)] = &[
    (
        "insufficient-gpu",
        "too few GPUs are free on each node that qualifies",
    ),
    (
        "insufficient-cpu",
        "too little CPU is free on each node that qualifies",
    ),
    (
        "insufficient-memory",
        "too little memory is free on each node that qualifies",
    ),
    (
        "insufficient-storage",
        "too little disk is free on each node that qualifies",
    ),
    (
        "insufficient-pods",
        "nodes that qualify run as many pods as they may",
    ),
    (
        "insufficient-device",
        "too few devices of another kind are free, such as network cards",
    ),
    ("gpu-type-absent", "no node has GPUs of the type"),
    (
        "never-fits",
        "the pod is larger than every node that qualifies",
    ),
    (
        "fragmented",
        "enough GPUs are free in all, and not on one node",
    ),
    ("taint", "the pod does not tolerate a taint of the nodes"),
    (
        "node-selector",
        "no node has the labels that the pod asks for",
    ),
    ("cordoned", "the node that would do is cordoned"),
    ("node-faulty", "the node that would do is not well"),
    (
        "volume-topology",
        "its volume can be mounted on other nodes only",
    ),
    ("topology-spread", "its pods must be spread more evenly"),
    (
        "pod-affinity",
        "it must run beside, or apart from, other pods",
    ),
    ("host-port", "the port of the node that it wants is taken"),
    (
        "device-claim",
        "no node has the devices that it claims (dynamic resource allocation)",
    ),
    (
        "device-taint",
        "the devices that it claims are tainted (dynamic resource allocation)",
    ),
    ("node-starting", "an autoscaler brings a node"),
    ("quota", "a ResourceQuota of the namespace is used up"),
    (
        "limit-range",
        "a LimitRange of the namespace refuses its pods",
    ),
    (
        "priority-lower",
        "pods of higher priority wait for the same GPUs",
    ),
    (
        "preemption-pending",
        "others are being ended to make room for it",
    ),
    (
        "gang-incomplete",
        "its pods are placed together or not at all, and not all fit",
    ),
    (
        "peers-waiting",
        "some of its pods have nodes and wait for the others",
    ),
    ("queue-quota", "its queue has too little quota left"),
    ("queue-position", "others are before it in its queue"),
    ("queue-inactive", "its queue is stopped"),
    ("queue-missing", "its queue does not exist"),
    ("queue-checks", "its queue waits for admission checks"),
    ("suspended", "somebody suspended it"),
    ("paused", "somebody paused it"),
    ("scheduling-gate", "a scheduling gate holds its pods back"),
    ("webhook-denied", "an admission webhook refuses its pods"),
    (
        "webhook-down",
        "an admission webhook that must be asked does not answer",
    ),
    ("policy-denied", "a policy refuses its pods"),
    ("pod-security", "Pod Security refuses its pods"),
    ("priority-class-missing", "its PriorityClass does not exist"),
    ("pods-refused", "the API server refuses its pods"),
    ("scheduler-absent", "nobody schedules its pods"),
    (
        "service-account-missing",
        "its ServiceAccount does not exist",
    ),
    ("claim-pending", "its volume claim has no volume yet"),
    ("claim-missing", "its volume claim does not exist"),
    (
        "storage-class-missing",
        "the storage class of its claim does not exist",
    ),
    ("secret-missing", "a Secret that it names does not exist"),
    (
        "configmap-missing",
        "a ConfigMap that it names does not exist",
    ),
    ("mount-failed", "a volume cannot be mounted"),
    ("image-missing", "its image does not exist"),
    ("image-auth", "the registry wants other credentials"),
    ("image-pulling", "its image is being pulled"),
    ("registry-unreachable", "the registry does not answer"),
    ("start-error", "the runtime cannot start its command"),
    ("init-running", "an init container runs"),
    ("container-creating", "its container is being made"),
    ("probe-starting", "it runs and its check has not passed"),
    ("crash-loop", "its container ends again and again"),
    ("rollout-waiting", "a new version waits for the old one"),
    ("exit-code", "its command ended with an error"),
    ("signal", "a signal ended it"),
    ("oom-container", "it used more memory than its limit"),
    ("oom-node", "its node ran out of memory"),
    (
        "evicted-disk",
        "its node ran out of disk, or it used more than its limit",
    ),
    ("evicted-memory", "its node evicted it for memory"),
    ("preempted", "a job of higher priority took its place"),
    ("node-lost", "its node does not answer"),
    (
        "node-drained",
        "its node was drained, or it was evicted through the API",
    ),
    ("deadline", "it ran longer than it may"),
    ("gpu-fault", "a GPU failed"),
    ("probe-killed", "its check failed and it was killed"),
    ("deleted", "it was deleted"),
    ("retries-exhausted", "every retry failed"),
    (
        "sidecar-running",
        "its command has ended and another container keeps the pod",
    ),
    ("rank-missing", "a process of it does not answer the others"),
    (
        "data-stall",
        "a rank waits for data, and the others wait for it",
    ),
    (
        "collective-hang",
        "its GPUs wait in a collective for a rank",
    ),
    ("node-frozen", "a node stopped answering while it ran"),
    ("silent", "it logs nothing and its GPUs do nothing"),
    (
        "clock-throttled",
        "a GPU runs at a lower clock than its peers",
    ),
    ("thermal", "a GPU is throttled because it is hot"),
    ("power-capped", "a GPU is throttled by its power limit"),
    ("link-errors", "a link of a GPU repeats transfers"),
    ("nic", "a network port of a node is down, or its link fails"),
    (
        "cpu-starved",
        "its CPU limit holds a rank up, and its GPUs wait",
    ),
    ("straggler", "a rank is slower than its peers"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_is_explained() {
        let page = include_str!("../../../docs/why.md");
        let rows: Vec<String> = CAUSES
            .iter()
            .map(|(word, meaning)| format!("| `{word}` | {meaning} |"))
            .collect();
        let told: Vec<&str> = page
            .lines()
            .filter(|line| line.starts_with("| `"))
            .collect();
        assert_eq!(told, rows);
    }
}
