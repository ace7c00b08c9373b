//! Messages of schedulers about a pod without a node, and their causes.
//!
//! Sources: Kubernetes 1.18 to 1.36 (pkg/scheduler/framework/plugins), Volcano 1.13
//! (pkg/scheduler/api/unschedule_info.go, plugins/gang, plugins/proportion), KAI 0.10
//! (pkg/scheduler/api/common_info), HAMi 2.7 (pkg/device/common), Koordinator 1.6 and
//! scheduler-plugins 0.32 (pkg/coscheduling), gpushare-scheduler-extender.

use super::message_pattern::MessagePattern;

/// Beginnings of messages that list the reasons of nodes.
pub(super) const HEADS: [&str; 4] = [
    "{}/{} nodes are available",
    // Volcano.
    "all nodes are unavailable",
    "{}/{} nodes are unavailable",
    // KAI.
    "no nodes with enough resources were found",
];

/// Reasons of nodes and their causes.
pub(super) const PARTS: [MessagePattern; 49] = [
    ("node(s) were unschedulable", "cordoned"),
    ("node(s) had untolerated taint(s)", "taint"),
    ("node(s) had untolerated taint {}", "taint"),
    (
        "node(s) had taint {}, that the pod didn't tolerate",
        "taint",
    ),
    ("node(s) had taints that the pod didn't tolerate", "taint"),
    (
        "node(s) didn't match Pod's node affinity{}",
        "node-selector",
    ),
    ("node(s) didn't match node selector", "node-selector"),
    (
        "node(s) didn't satisfy plugin(s) [NodeAffinity]",
        "node-selector",
    ),
    (
        "node(s) didn't match PersistentVolume's node affinity",
        "volume-topology",
    ),
    (
        "node(s) had volume node affinity conflict",
        "volume-topology",
    ),
    (
        "node(s) didn't find available persistent volumes to bind",
        "volume-topology",
    ),
    ("node(s) had no available volume zone", "volume-topology"),
    (
        "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
        "volume-missing",
    ),
    (
        "node(s) unavailable due to PersistentVolume{}",
        "volume-topology",
    ),
    ("node(s) exceed max volume count", "volume-limit"),
    (
        "node(s) did not have enough free storage",
        "insufficient-storage",
    ),
    (
        "node(s) didn't match pod topology spread constraints{}",
        "topology-spread",
    ),
    ("node(s) didn't match pod affinity rules", "pod-affinity"),
    (
        "node(s) didn't match pod affinity/anti-affinity{}",
        "pod-affinity",
    ),
    (
        "node(s) didn't match pod anti-affinity rules",
        "pod-affinity",
    ),
    (
        "node(s) didn't satisfy existing pods anti-affinity rules",
        "pod-affinity",
    ),
    (
        "node(s) didn't have free ports for the requested pod ports",
        "host-port",
    ),
    ("Too many pods", "insufficient-pods"),
    ("node(s) pod number exceeded", "insufficient-pods"),
    // Dynamic resource allocation.
    ("cannot allocate all claims", "device-claim"),
    ("resourceclaim not available on the node", "device-claim"),
    ("node(s) resourceclaim {}", "device-claim"),
    // ReadWriteOncePod.
    (
        "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode",
        "claim-in-use",
    ),
    (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
        "claim-in-use",
    ),
    // KAI.
    (
        "node(s) didn't have enough resources: GPUs",
        "insufficient-gpu",
    ),
    (
        "node(s) didn't have enough resources: GPU memory",
        "insufficient-gpu",
    ),
    (
        "node(s) didn't have enough resources: CPU cores",
        "insufficient-cpu",
    ),
    (
        "node(s) didn't have enough resources: memory",
        "insufficient-memory",
    ),
    (
        "node(s) didn't have enough resources: {}",
        "insufficient-device",
    ),
    (
        "node-group(s) didn't have enough resources: GPUs",
        "insufficient-gpu",
    ),
    // HAMi.
    ("NodeInsufficientDevice", "insufficient-gpu"),
    ("AllocatedCardsInsufficientRequest", "insufficient-gpu"),
    ("CardInsufficientMemory", "insufficient-gpu"),
    ("CardInsufficientCore", "insufficient-gpu"),
    ("CardTimeSlicingExhausted", "insufficient-gpu"),
    ("CardComputeUnitsExhausted", "insufficient-gpu"),
    ("ExclusiveDeviceAllocateConflict", "insufficient-gpu"),
    ("CardTypeMismatch", "gpu-type-absent"),
    ("CardUUIDMismatch", "node-selector"),
    ("CardUuidMismatch", "node-selector"),
    (
        "no available node, {} nodes do not meet",
        "insufficient-gpu",
    ),
    // Volcano's vGPUs and Aliyun's gpushare.
    ("not enough gpu fitted on this node", "insufficient-gpu"),
    ("Insufficient GPU Memory in one device", "insufficient-gpu"),
    ("Insufficient gpu devices", "insufficient-gpu"),
];

/// Messages about the pod itself, and their causes.
pub(super) const MESSAGES: [MessagePattern; 36] = [
    ("no nodes available to schedule pods", "no-nodes"),
    (
        "pod has unbound immediate PersistentVolumeClaims{}",
        "claim-pending",
    ),
    ("persistentvolumeclaim \"{}\" not found{}", "claim-missing"),
    (
        "persistentvolumeclaim \"{}\" is being deleted{}",
        "claim-deleting",
    ),
    (
        "persistentvolumeclaim \"{}\" bound to non-existent persistentvolume \"{}\"{}",
        "volume-missing",
    ),
    (
        "waiting for ephemeral volume controller to create the persistentvolumeclaim {}",
        "claim-pending",
    ),
    (
        "running PreBind plugin \"VolumeBinding\": {}",
        "claim-pending",
    ),
    ("binding volumes: {}", "claim-pending"),
    (
        "running PreBind plugin \"DynamicResources\": {}",
        "device-claim",
    ),
    ("resourceclaim \"{}\" not found{}", "device-claim"),
    ("resourceclaim {}", "device-claim"),
    ("waiting for resource driver {}", "device-claim"),
    (
        "waiting for dynamic resource controller to create the resourceclaim {}",
        "device-claim",
    ),
    (
        "pod \"{}\" waiting for resource claim to be created{}",
        "device-claim",
    ),
    ("cannot allocate all claims{}", "device-claim"),
    ("Claims are attempted to be allocated in {}", "device-claim"),
    // Gangs of Volcano, Koordinator, KAI and scheduler-plugins.
    ("pod group is not ready{}", "gang-incomplete"),
    ("gang is not ready{}", "gang-incomplete"),
    ("{} tasks in gang unschedulable: {}", "gang-incomplete"),
    (
        "Not enough valid pods of each task for gang-scheduling{}",
        "gang-incomplete",
    ),
    (
        "Not enough valid tasks for gang-scheduling{}",
        "gang-incomplete",
    ),
    (
        "Pod {} can possibly be assigned to {}, once {}",
        "gang-incomplete",
    ),
    (
        "pod \"{}\" rejected while waiting on permit: {}",
        "gang-incomplete",
    ),
    (
        "rejected due to timeout after waiting {} at plugin Coscheduling",
        "gang-incomplete",
    ),
    (
        "pod \"{}\" rejected due to timeout after waiting {} at permit",
        "gang-incomplete",
    ),
    ("optimistic rejection in PostFilter", "gang-incomplete"),
    (
        "running PreFilter plugin \"Coscheduling\": {}",
        "gang-incomplete",
    ),
    (
        "pre-filter pod {} cannot find enough sibling pods, {}",
        "gang-incomplete",
    ),
    ("gang \"{}\" gets rejected due to {}", "gang-incomplete"),
    ("Gang \"{}\" gets rejected due to {}", "gang-incomplete"),
    ("gang child pod not collect enough, {}", "gang-incomplete"),
    // Queues of Volcano and KAI.
    ("queue resource quota insufficient{}", "queue-quota"),
    (
        "{} quota has reached the allowable limit of {}",
        "queue-quota",
    ),
    ("Non-preemptible workload is over quota. {}", "queue-quota"),
    (
        "Workload requested {} quota is {} already allocated for non-preemptible pods. {}",
        "queue-quota",
    ),
    (
        "<{}>: Node didn't have enough resources: GPUs{}",
        "insufficient-gpu",
    ),
];
