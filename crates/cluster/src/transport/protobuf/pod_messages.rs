//! Names and numbers of the protobuf fields that gpuctl reads from pods.

use super::{Kind, Message, MessageField};

pub(super) const fn field(number: u64, name: &'static str, kind: Kind) -> MessageField {
    MessageField { number, name, kind }
}

pub(super) const fn message(fields: &'static [MessageField]) -> Message {
    Message {
        fields,
        absent: &[],
    }
}

pub(super) static POD_SPEC: Message = message(&[
    field(1, "volumes", Kind::List(&Kind::Message(&VOLUME))),
    field(2, "containers", Kind::List(&Kind::Message(&CONTAINER))),
    field(3, "restartPolicy", Kind::Text),
    field(7, "nodeSelector", Kind::Map(&Kind::Text)),
    field(10, "nodeName", Kind::Text),
    field(20, "initContainers", Kind::List(&Kind::Message(&CONTAINER))),
    field(25, "priority", Kind::Integer),
    field(28, "readinessGates", Kind::List(&Kind::Message(&UNREAD))),
    field(32, "overhead", Kind::Map(&Kind::Quantity)),
    field(
        39,
        "resourceClaims",
        Kind::List(&Kind::Message(&POD_RESOURCE_CLAIM)),
    ),
    field(40, "resources", Kind::Message(&RESOURCES)),
]);

/// A message that is only checked for presence.
static UNREAD: Message = message(&[]);

static POD_RESOURCE_CLAIM: Message = message(&[field(1, "name", Kind::Text)]);

static VOLUME: Message = message(&[field(2, "", Kind::Inline(&VOLUME_SOURCE))]);

static VOLUME_SOURCE: Message = message(&[
    field(1, "hostPath", Kind::Message(&UNREAD)),
    field(10, "persistentVolumeClaim", Kind::Message(&CLAIM_SOURCE)),
]);

static CLAIM_SOURCE: Message = message(&[field(1, "claimName", Kind::Text)]);

static CONTAINER: Message = message(&[
    field(1, "name", Kind::Text),
    field(6, "ports", Kind::List(&Kind::Message(&CONTAINER_PORT))),
    field(8, "resources", Kind::Message(&RESOURCES)),
    field(11, "readinessProbe", Kind::Message(&PROBE)),
    field(22, "startupProbe", Kind::Message(&UNREAD)),
    field(24, "restartPolicy", Kind::Text),
]);

static RESOURCES: Message = message(&[
    field(1, "limits", Kind::Map(&Kind::Quantity)),
    field(2, "requests", Kind::Map(&Kind::Quantity)),
]);

static CONTAINER_PORT: Message = message(&[
    field(1, "name", Kind::Text),
    field(3, "containerPort", Kind::Integer),
]);

static PROBE: Message = message(&[field(1, "", Kind::Inline(&PROBE_HANDLER))]);

static PROBE_HANDLER: Message = message(&[field(2, "httpGet", Kind::Message(&UNREAD))]);

pub(super) static POD_STATUS: Message = message(&[
    field(1, "phase", Kind::Text),
    field(2, "conditions", Kind::List(&Kind::Message(&CONDITION))),
    field(3, "message", Kind::Text),
    field(4, "reason", Kind::Text),
    field(5, "hostIP", Kind::Text),
    field(7, "startTime", Kind::Time),
    field(
        8,
        "containerStatuses",
        Kind::List(&Kind::Message(&CONTAINER_STATUS)),
    ),
    field(
        10,
        "initContainerStatuses",
        Kind::List(&Kind::Message(&CONTAINER_STATUS)),
    ),
    field(11, "nominatedNodeName", Kind::Text),
]);

/// A condition of pods and Jobs.
pub(super) static CONDITION: Message = message(&[
    field(1, "type", Kind::Text),
    field(2, "status", Kind::Text),
    field(4, "lastTransitionTime", Kind::Time),
    field(5, "reason", Kind::Text),
    field(6, "message", Kind::Text),
]);

static CONTAINER_STATUS: Message = message(&[
    field(1, "name", Kind::Text),
    field(2, "state", Kind::Message(&CONTAINER_STATE)),
    field(3, "lastState", Kind::Message(&CONTAINER_STATE)),
    field(5, "restartCount", Kind::Integer),
    field(9, "started", Kind::Flag),
    field(
        14,
        "allocatedResourcesStatus",
        Kind::List(&Kind::Message(&RESOURCE_STATUS)),
    ),
]);

static RESOURCE_STATUS: Message = message(&[
    field(1, "name", Kind::Text),
    field(2, "resources", Kind::List(&Kind::Message(&RESOURCE_HEALTH))),
]);

static RESOURCE_HEALTH: Message = message(&[
    field(1, "resourceID", Kind::Text),
    field(2, "health", Kind::Text),
]);

static CONTAINER_STATE: Message = message(&[
    field(1, "waiting", Kind::Message(&WAITING)),
    field(2, "running", Kind::Message(&RUNNING)),
    field(3, "terminated", Kind::Message(&TERMINATED)),
]);

static WAITING: Message = message(&[
    field(1, "reason", Kind::Text),
    field(2, "message", Kind::Text),
]);

static RUNNING: Message = message(&[field(1, "startedAt", Kind::Time)]);

static TERMINATED: Message = message(&[
    field(1, "exitCode", Kind::Integer),
    field(3, "reason", Kind::Text),
    field(4, "message", Kind::Text),
    field(5, "startedAt", Kind::Time),
    field(6, "finishedAt", Kind::Time),
]);
