//! Names and numbers of the protobuf fields that gpuctl reads, for the kinds of which a cluster has
//! thousands of objects. Every field that a struct decodes must be listed. Source:
//! `generated.proto` of k8s.io/api and k8s.io/apimachinery 0.34. Field numbers never change.

use super::pod_messages::{CONDITION, POD_SPEC, POD_STATUS, field, message};
use super::{Kind, Message};

/// Declares a list message: its metadata, and items of the given message.
macro_rules! list_of {
    ($item:expr) => {{
        static LIST: Message = message(&[
            field(1, "metadata", Kind::Message(&LIST_METADATA)),
            field(2, "items", Kind::List(&Kind::Message($item))),
        ]);
        &LIST
    }};
}

/// Declares an object message: its metadata, spec and status.
macro_rules! object {
    ($name:ident, $spec:expr, $status:expr) => {
        static $name: Message = message(&[
            field(1, "metadata", Kind::Message(&METADATA)),
            field(2, "spec", Kind::Message($spec)),
            field(3, "status", Kind::Message($status)),
        ]);
    };
}

/// Returns the message of the list at this API path, or `None` for a kind that is read as JSON.
pub(crate) fn list_of(path: &str) -> Option<&'static Message> {
    let (core, batch, apps) = (
        path.strip_prefix("/api/v1/"),
        path.strip_prefix("/apis/batch/v1/"),
        path.strip_prefix("/apis/apps/v1/"),
    );
    // The path is `pods` or `namespaces/NAME/pods`.
    let plural = |plural: &'static str, parent: Option<&str>| {
        parent.is_some_and(|path| {
            path == plural
                || path
                    .strip_prefix("namespaces/")
                    .and_then(|path| path.split_once('/'))
                    .is_some_and(|(_, kind)| kind == plural)
        })
    };
    if plural("pods", core) {
        Some(list_of!(&POD))
    } else if plural("nodes", core) {
        Some(list_of!(&NODE))
    } else if plural("jobs", batch) {
        Some(list_of!(&JOB))
    } else if plural("cronjobs", batch) {
        Some(list_of!(&CRON_JOB))
    } else if plural("deployments", apps) {
        Some(list_of!(&DEPLOYMENT))
    } else if plural("replicasets", apps) {
        Some(list_of!(&REPLICA_SET))
    } else if plural("statefulsets", apps) {
        Some(list_of!(&STATEFUL_SET))
    } else if plural("daemonsets", apps) {
        Some(list_of!(&DAEMON_SET))
    } else {
        None
    }
}

static LIST_METADATA: Message = message(&[
    field(2, "resourceVersion", Kind::Text),
    field(3, "continue", Kind::Text),
]);

/// A `Status`, which error responses contain.
pub(crate) static STATUS: Message = Message {
    fields: &[
        field(1, "metadata", Kind::Message(&LIST_METADATA)),
        field(2, "status", Kind::Text),
        field(3, "message", Kind::Text),
        field(4, "reason", Kind::Text),
        field(5, "details", Kind::Message(&STATUS_DETAILS)),
        field(6, "code", Kind::Integer),
    ],
    // Only JSON has `kind`, which identifies a Status there.
    absent: &["kind"],
};

static STATUS_DETAILS: Message = message(&[
    field(1, "name", Kind::Text),
    field(3, "kind", Kind::Text),
    field(4, "causes", Kind::List(&Kind::Message(&STATUS_CAUSE))),
]);

static STATUS_CAUSE: Message = message(&[
    field(1, "reason", Kind::Text),
    field(2, "message", Kind::Text),
    field(3, "field", Kind::Text),
]);

static METADATA: Message = message(&[
    field(1, "name", Kind::Text),
    field(3, "namespace", Kind::Text),
    field(5, "uid", Kind::Text),
    field(6, "resourceVersion", Kind::Text),
    field(7, "generation", Kind::Integer),
    field(8, "creationTimestamp", Kind::Time),
    field(9, "deletionTimestamp", Kind::Time),
    field(11, "labels", Kind::Map(&Kind::Text)),
    field(12, "annotations", Kind::Map(&Kind::Text)),
    field(
        13,
        "ownerReferences",
        Kind::List(&Kind::Message(&OWNER_REFERENCE)),
    ),
    field(14, "finalizers", Kind::List(&Kind::Text)),
]);

static OWNER_REFERENCE: Message = message(&[
    field(1, "kind", Kind::Text),
    field(3, "name", Kind::Text),
    field(4, "uid", Kind::Text),
    field(5, "apiVersion", Kind::Text),
    field(6, "controller", Kind::Flag),
]);

object!(POD, &POD_SPEC, &POD_STATUS);

object!(NODE, &NODE_SPEC, &NODE_STATUS);

static NODE_SPEC: Message = message(&[
    field(4, "unschedulable", Kind::Flag),
    field(5, "taints", Kind::List(&Kind::Message(&TAINT))),
]);

static TAINT: Message = message(&[
    field(1, "key", Kind::Text),
    field(2, "value", Kind::Text),
    field(3, "effect", Kind::Text),
]);

static NODE_STATUS: Message = message(&[
    field(1, "capacity", Kind::Map(&Kind::Quantity)),
    field(2, "allocatable", Kind::Map(&Kind::Quantity)),
    field(4, "conditions", Kind::List(&Kind::Message(&NODE_CONDITION))),
    field(5, "addresses", Kind::List(&Kind::Message(&NODE_ADDRESS))),
    field(7, "nodeInfo", Kind::Message(&NODE_INFO)),
]);

static NODE_CONDITION: Message = message(&[
    field(1, "type", Kind::Text),
    field(2, "status", Kind::Text),
    field(3, "lastHeartbeatTime", Kind::Time),
    field(4, "lastTransitionTime", Kind::Time),
    field(5, "reason", Kind::Text),
    field(6, "message", Kind::Text),
]);

static NODE_ADDRESS: Message = message(&[field(2, "address", Kind::Text)]);

static NODE_INFO: Message = message(&[
    field(4, "kernelVersion", Kind::Text),
    field(5, "osImage", Kind::Text),
]);

/// The pod template of an owner.
static TEMPLATE: Message = message(&[field(2, "spec", Kind::Message(&POD_SPEC))]);

object!(JOB, &JOB_SPEC, &JOB_STATUS);

static JOB_SPEC: Message = Message {
    fields: &[
        field(1, "parallelism", Kind::Integer),
        field(2, "completions", Kind::Integer),
        field(6, "template", Kind::Message(&TEMPLATE)),
        field(10, "suspend", Kind::Flag),
        field(15, "managedBy", Kind::Text),
    ],
    absent: &[
        "replicas",
        "jobTemplate",
        "leaderWorkerTemplate",
        "resources",
    ],
};

static JOB_STATUS: Message = Message {
    fields: &[
        field(1, "conditions", Kind::List(&Kind::Message(&CONDITION))),
        field(2, "startTime", Kind::Time),
        field(3, "completionTime", Kind::Time),
        field(4, "active", Kind::Integer),
        field(5, "succeeded", Kind::Integer),
        field(9, "ready", Kind::Integer),
    ],
    absent: &[
        "replicas",
        "updatedReplicas",
        "observedGeneration",
        "desiredNumberScheduled",
    ],
};

object!(CRON_JOB, &CRON_JOB_SPEC, &CRON_JOB_STATUS);

static CRON_JOB_SPEC: Message = Message {
    fields: &[
        field(4, "suspend", Kind::Flag),
        field(5, "jobTemplate", Kind::Message(&JOB_TEMPLATE)),
    ],
    absent: &[
        "replicas",
        "parallelism",
        "completions",
        "managedBy",
        "template",
        "leaderWorkerTemplate",
        "resources",
    ],
};

static JOB_TEMPLATE: Message = message(&[field(2, "spec", Kind::Message(&JOB_SPEC))]);

static CRON_JOB_STATUS: Message = Message {
    fields: &[],
    absent: &[
        "conditions",
        "startTime",
        "completionTime",
        "desiredNumberScheduled",
    ],
};

/// Fields that the structs for all owners read, but that Deployments, StatefulSets, ReplicaSets and
/// DaemonSets do not have.
const BESIDE_SETS: &[&str] = &[
    "parallelism",
    "completions",
    "suspend",
    "managedBy",
    "jobTemplate",
    "leaderWorkerTemplate",
    "replicas",
    "resources",
];
const BESIDE_SET_STATUS: &[&str] = &[
    "startTime",
    "completionTime",
    "active",
    "succeeded",
    "ready",
    "desiredNumberScheduled",
    "updatedReplicas",
    "replicas",
];

object!(DEPLOYMENT, &SIZED_SPEC, &DEPLOYMENT_STATUS);
object!(STATEFUL_SET, &SIZED_SPEC, &STATEFUL_SET_STATUS);
object!(REPLICA_SET, &SIZED_SPEC, &REPLICA_SET_STATUS);

/// The spec of Deployments, StatefulSets and ReplicaSets.
static SIZED_SPEC: Message = Message {
    fields: &[
        field(1, "replicas", Kind::Integer),
        field(3, "template", Kind::Message(&TEMPLATE)),
    ],
    absent: BESIDE_SETS,
};

static DEPLOYMENT_STATUS: Message = Message {
    fields: &[
        field(1, "observedGeneration", Kind::Integer),
        field(2, "replicas", Kind::Integer),
        field(3, "updatedReplicas", Kind::Integer),
        field(
            6,
            "conditions",
            Kind::List(&Kind::Message(&DEPLOYMENT_CONDITION)),
        ),
    ],
    absent: BESIDE_SET_STATUS,
};

static STATEFUL_SET_STATUS: Message = Message {
    fields: &[
        field(1, "observedGeneration", Kind::Integer),
        field(2, "replicas", Kind::Integer),
        field(5, "updatedReplicas", Kind::Integer),
        field(10, "conditions", Kind::List(&Kind::Message(&SET_CONDITION))),
    ],
    absent: BESIDE_SET_STATUS,
};

static REPLICA_SET_STATUS: Message = Message {
    fields: &[
        field(1, "replicas", Kind::Integer),
        field(3, "observedGeneration", Kind::Integer),
        field(6, "conditions", Kind::List(&Kind::Message(&SET_CONDITION))),
    ],
    absent: BESIDE_SET_STATUS,
};

static DEPLOYMENT_CONDITION: Message = message(&[
    field(1, "type", Kind::Text),
    field(2, "status", Kind::Text),
    field(4, "reason", Kind::Text),
    field(5, "message", Kind::Text),
    field(7, "lastTransitionTime", Kind::Time),
]);

/// A condition of StatefulSets, ReplicaSets and DaemonSets.
static SET_CONDITION: Message = message(&[
    field(1, "type", Kind::Text),
    field(2, "status", Kind::Text),
    field(3, "lastTransitionTime", Kind::Time),
    field(4, "reason", Kind::Text),
    field(5, "message", Kind::Text),
]);

object!(DAEMON_SET, &DAEMON_SET_SPEC, &DAEMON_SET_STATUS);

static DAEMON_SET_SPEC: Message = Message {
    fields: &[field(2, "template", Kind::Message(&TEMPLATE))],
    absent: BESIDE_SETS,
};

static DAEMON_SET_STATUS: Message = Message {
    fields: &[
        field(3, "desiredNumberScheduled", Kind::Integer),
        field(5, "observedGeneration", Kind::Integer),
        field(10, "conditions", Kind::List(&Kind::Message(&SET_CONDITION))),
    ],
    absent: BESIDE_SET_STATUS,
};
