//! Names and meanings of causes. A test compares docs/why.md with this list.

/// All causes that an answer can contain, with their meanings.
pub(crate) const CAUSES: &[(&str, &str)] = &[
    ("insufficient-gpu", "no eligible node has enough free GPUs"),
    ("insufficient-cpu", "no eligible node has enough free CPU"),
    (
        "insufficient-memory",
        "no eligible node has enough free memory",
    ),
    (
        "insufficient-storage",
        "no eligible node has enough free disk space",
    ),
    (
        "insufficient-pods",
        "eligible nodes have reached their pod limit",
    ),
    ("no-nodes", "the cluster has no nodes for the scheduler"),
    (
        "insufficient-device",
        "too few other devices, such as network cards, are free",
    ),
    ("gpu-type-absent", "no node has GPUs of the requested type"),
    ("never-fits", "the pod is larger than every eligible node"),
    (
        "fragmented",
        "enough GPUs are free in total, but not on one node",
    ),
    ("taint", "the pod does not tolerate a taint on the nodes"),
    (
        "node-selector",
        "no node has the labels that the pod requires",
    ),
    ("cordoned", "a node that fits the pod is cordoned"),
    (
        "node-faulty",
        "a node that fits the pod, or that it is on, is unhealthy",
    ),
    (
        "volume-topology",
        "its volume can only be mounted on other nodes",
    ),
    (
        "volume-limit",
        "the nodes have attached as many volumes as they can",
    ),
    ("topology-spread", "its pods must be spread more evenly"),
    (
        "pod-affinity",
        "its pod affinity or anti-affinity excludes the nodes",
    ),
    ("host-port", "the host port that it requests is in use"),
    (
        "device-claim",
        "no node has the devices that it claims (dynamic resource allocation)",
    ),
    (
        "device-taint",
        "the devices that it claims are tainted (dynamic resource allocation)",
    ),
    ("node-starting", "an autoscaler is adding a node"),
    (
        "autoscaler-waits",
        "no such node runs, and the autoscaler cannot add one now",
    ),
    (
        "autoscaler-refused",
        "no such node runs, and the autoscaler cannot add one",
    ),
    (
        "scheduler-other",
        "the scheduler gives a reason that gpuctl does not know",
    ),
    ("quota", "a ResourceQuota in the namespace is used up"),
    (
        "limit-range",
        "a LimitRange in the namespace rejects its pods",
    ),
    (
        "priority-lower",
        "higher-priority pods wait for the same GPUs",
    ),
    (
        "preemption-pending",
        "lower-priority pods are being preempted for it",
    ),
    (
        "gang-incomplete",
        "its pods are scheduled together or not at all, and not all of them fit",
    ),
    (
        "peers-waiting",
        "some of its pods have nodes and wait for the others",
    ),
    ("queue-quota", "its queue has too little quota left"),
    ("queue-position", "other jobs are ahead of it in its queue"),
    ("queue-inactive", "its queue is stopped"),
    ("queue-missing", "its queue does not exist"),
    (
        "queue-namespace",
        "its queue accepts no jobs of its namespace",
    ),
    ("queue-checks", "its queue waits for admission checks"),
    (
        "queue-topology",
        "no domain of its queue's topology has room for its pods",
    ),
    ("queue-flavor", "no flavor of its queue matches its pods"),
    (
        "queue-flavor-missing",
        "a ResourceFlavor of its queue does not exist",
    ),
    (
        "queue-resource",
        "its queue does not cover a resource that it requests",
    ),
    (
        "queue-pods-ready",
        "its queue waits until the pods of another job are ready",
    ),
    (
        "queue-pods-timeout",
        "its queue stopped it, because its pods were not ready in time",
    ),
    ("queue-evaluating", "its queue has not evaluated it yet"),
    (
        "queue-gated",
        "another controller keeps it out of its queue",
    ),
    (
        "queue-deactivated",
        "its queue stopped it and does not admit it again",
    ),
    (
        "queue-misconfigured",
        "its queue or its request for the queue is wrong",
    ),
    (
        "queue-other",
        "its queue gives a reason that gpuctl does not know",
    ),
    ("runs-elsewhere", "another cluster runs it"),
    ("suspended", "it was suspended"),
    ("paused", "it was paused"),
    ("scheduling-gate", "a scheduling gate holds its pods back"),
    ("webhook-denied", "an admission webhook rejects its pods"),
    (
        "webhook-down",
        "a required admission webhook does not respond",
    ),
    ("policy-denied", "a policy rejects its pods"),
    ("pod-security", "Pod Security rejects its pods"),
    ("priority-class-missing", "its PriorityClass does not exist"),
    ("namespace-terminating", "its namespace is being deleted"),
    ("pods-refused", "the API server rejects its pods"),
    ("scheduler-absent", "no scheduler handles its pods"),
    (
        "service-account-missing",
        "its ServiceAccount does not exist",
    ),
    ("claim-pending", "its volume claim has no volume yet"),
    ("claim-missing", "its volume claim does not exist"),
    ("claim-deleting", "its volume claim is being deleted"),
    (
        "claim-in-use",
        "another pod uses its volume claim, which allows only one",
    ),
    ("volume-missing", "the volume of its claim does not exist"),
    (
        "storage-class-missing",
        "the storage class of its claim does not exist",
    ),
    (
        "secret-missing",
        "a Secret that it refers to does not exist",
    ),
    (
        "configmap-missing",
        "a ConfigMap that it refers to does not exist",
    ),
    ("mount-failed", "a volume cannot be mounted"),
    ("image-missing", "its image does not exist"),
    ("image-auth", "the registry requires different credentials"),
    ("image-pulling", "its image is being pulled"),
    ("registry-unreachable", "the registry does not respond"),
    ("image-rate-limit", "the registry or the node limits pulls"),
    (
        "image-platform",
        "its image is not built for the platform of the node",
    ),
    ("image-policy", "a policy of the node rejects its image"),
    (
        "image-disk-full",
        "the disk of the node has no space for its image",
    ),
    ("image-interrupted", "the pull of its image was canceled"),
    (
        "image-other",
        "its image cannot be pulled, for a reason that gpuctl does not know",
    ),
    ("start-error", "the runtime cannot start its command"),
    ("init-running", "an init container is running"),
    ("container-creating", "its container is being created"),
    (
        "probe-starting",
        "it is running, but not ready, for example because its probe fails",
    ),
    ("crash-loop", "its container keeps exiting"),
    ("rollout-waiting", "a new version waits for the old one"),
    ("exit-code", "its command exited with an error"),
    ("signal", "it was killed by a signal"),
    ("oom-container", "it used more memory than its limit"),
    ("oom-node", "its node ran out of memory"),
    (
        "evicted-disk",
        "its node ran out of disk, or it used more than its limit",
    ),
    ("evicted-memory", "its node evicted it to reclaim memory"),
    (
        "evicted-pids",
        "its node evicted it because it ran out of process IDs",
    ),
    ("preempted", "a higher-priority job took its place"),
    ("queue-evicted", "its queue stopped it"),
    ("admission-failed", "its node rejected it"),
    (
        "container-lost",
        "its node lost the container, and its end was not recorded",
    ),
    ("node-lost", "its node does not respond or was deleted"),
    (
        "node-drained",
        "its node was drained, or it was evicted through the API",
    ),
    ("deadline", "it exceeded its maximum runtime"),
    ("gpu-fault", "a GPU failed"),
    ("probe-killed", "a probe failed, and it was killed"),
    ("deleted", "it was deleted"),
    ("retries-exhausted", "every retry failed"),
    (
        "ended-other",
        "it ended for a reason that gpuctl does not know, which is quoted",
    ),
    (
        "sidecar-running",
        "its command has exited, but another container keeps the pod running",
    ),
    (
        "rank-missing",
        "one of its processes does not respond to the others",
    ),
    (
        "data-stall",
        "a rank waits for data, and the others wait for it",
    ),
    (
        "collective-hang",
        "its GPUs wait in a collective for a rank",
    ),
    ("node-frozen", "a node stopped responding while it ran"),
    ("silent", "it logs nothing, and its GPUs are idle"),
    (
        "clock-throttled",
        "a GPU runs at a lower clock than its peers",
    ),
    ("thermal", "a GPU is throttled because it is hot"),
    ("power-capped", "a GPU is throttled by its power limit"),
    ("link-errors", "a GPU link has transmission errors"),
    (
        "nic",
        "a network port on a node is down, or its link is failing",
    ),
    (
        "cpu-starved",
        "its CPU limit throttles a rank while its GPUs wait",
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
        let documented: Vec<&str> = page
            .lines()
            .filter(|line| line.starts_with("| `"))
            .collect();
        assert_eq!(documented, rows);
    }
}
