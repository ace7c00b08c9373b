//! Decodes the fields of Kubernetes objects that gpuctl reads, borrowing their values from the
//! bytes of a page. Other fields are skipped, and missing fields get defaults.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::lenient;
use gpuctl_core::model::{ContainerEnd, PodPhase, is_starting};

/// A page of a list. Go encodes an empty list as `null`.
#[derive(Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub(crate) struct ListPage<T> {
    #[serde(default = "Vec::new", deserialize_with = "null_is_empty")]
    pub items: Vec<T>,
}

fn null_is_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    Ok(Option::<Vec<T>>::deserialize(deserializer)?.unwrap_or_default())
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ObjectMetadata<'a> {
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    #[serde(borrow)]
    pub namespace: Cow<'a, str>,
    #[serde(borrow)]
    pub uid: Cow<'a, str>,
    #[serde(borrow)]
    pub resource_version: Cow<'a, str>,
    pub generation: u64,
    #[serde(deserialize_with = "lenient::time")]
    pub creation_timestamp: Option<Timestamp>,
    #[serde(deserialize_with = "lenient::marker")]
    pub deletion_timestamp: Option<Timestamp>,
    pub owner_references: Vec<OwnerReference>,
    pub finalizers: Vec<String>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OwnerReference {
    pub uid: String,
    #[serde(default)]
    pub api_version: String,
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub controller: bool,
}

impl ObjectMetadata<'_> {
    /// Returns the owner that manages the object, or the first owner if none is marked as the
    /// controller.
    pub(crate) fn controller(&self) -> Option<&OwnerReference> {
        let owners = &self.owner_references;
        owners
            .iter()
            .find(|owner| owner.controller)
            .or_else(|| owners.first())
    }
}

#[derive(Deserialize)]
pub(crate) struct WirePod<'a> {
    #[serde(borrow, default)]
    pub metadata: ObjectMetadata<'a>,
    #[serde(borrow, default)]
    pub spec: PodSpec<'a>,
    #[serde(borrow, default)]
    pub status: PodStatus<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpec<'a> {
    #[serde(borrow)]
    pub node_name: Cow<'a, str>,
    #[serde(borrow)]
    pub containers: Vec<WireContainer<'a>>,
    #[serde(borrow)]
    pub init_containers: Vec<WireContainer<'a>>,
    pub volumes: Vec<WireVolume>,
    pub node_selector: BTreeMap<String, String>,
    /// Overhead of the pod's runtime class, in addition to the requests of its containers.
    pub overhead: BTreeMap<String, String>,
    /// Pod-level requests, which replace the sum of the containers' requests (KEP-2837).
    pub resources: ContainerResources,
    pub readiness_gates: Vec<IgnoredAny>,
    pub resource_claims: Vec<WireResourceClaim>,
    pub priority: i64,
    #[serde(borrow)]
    pub restart_policy: Cow<'a, str>,
}

/// A claim of dynamic resource allocation.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct WireResourceClaim {
    pub name: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WireVolume {
    pub host_path: Option<IgnoredAny>,
    pub persistent_volume_claim: Option<WirePodClaim>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WirePodClaim {
    pub claim_name: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WireProbe {
    pub http_get: Option<IgnoredAny>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WirePort {
    pub container_port: u16,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WireContainer<'a> {
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    #[serde(borrow)]
    pub restart_policy: Cow<'a, str>,
    pub resources: ContainerResources,
    pub ports: Vec<WirePort>,
    pub startup_probe: Option<IgnoredAny>,
    pub readiness_probe: Option<WireProbe>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct ContainerResources {
    pub requests: BTreeMap<String, String>,
    pub limits: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodStatus<'a> {
    #[serde(borrow)]
    pub phase: Cow<'a, str>,
    #[serde(borrow)]
    pub reason: Cow<'a, str>,
    #[serde(borrow)]
    pub message: Cow<'a, str>,
    #[serde(borrow)]
    pub nominated_node_name: Cow<'a, str>,
    #[serde(borrow, rename = "hostIP")]
    pub host_ip: Cow<'a, str>,
    #[serde(deserialize_with = "lenient::time")]
    pub start_time: Option<Timestamp>,
    #[serde(borrow)]
    pub conditions: Vec<Condition<'a>>,
    #[serde(borrow)]
    pub container_statuses: Vec<ContainerStatus<'a>>,
    #[serde(borrow)]
    pub init_container_statuses: Vec<ContainerStatus<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Condition<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Cow<'a, str>,
    #[serde(borrow)]
    pub status: Cow<'a, str>,
    #[serde(borrow)]
    pub reason: Cow<'a, str>,
    #[serde(borrow)]
    pub message: Cow<'a, str>,
    #[serde(deserialize_with = "lenient::time")]
    pub last_transition_time: Option<Timestamp>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerStatus<'a> {
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    #[serde(deserialize_with = "lenient::count")]
    pub restart_count: u32,
    pub started: Option<bool>,
    #[serde(borrow)]
    pub state: ContainerState<'a>,
    #[serde(borrow)]
    pub last_state: ContainerState<'a>,
    #[serde(borrow)]
    pub allocated_resources_status: Vec<ResourceStatus<'a>>,
}

/// Health of the devices that a container uses (KEP-4680).
#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct ResourceStatus<'a> {
    /// The extended resource, or `claim:NAME/REQUEST`.
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    #[serde(borrow)]
    pub resources: Vec<ResourceHealth<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct ResourceHealth<'a> {
    #[serde(borrow, rename = "resourceID")]
    pub resource_id: Cow<'a, str>,
    /// `Healthy`, `Unhealthy` or `Unknown`.
    #[serde(borrow)]
    pub health: Cow<'a, str>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct ContainerState<'a> {
    #[serde(borrow)]
    pub waiting: Option<Waiting<'a>>,
    pub running: Option<Running>,
    #[serde(borrow)]
    pub terminated: Option<Terminated<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct Waiting<'a> {
    #[serde(borrow)]
    pub reason: Cow<'a, str>,
    #[serde(borrow)]
    pub message: Cow<'a, str>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Running {
    #[serde(deserialize_with = "lenient::time")]
    pub started_at: Option<Timestamp>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Terminated<'a> {
    pub exit_code: i32,
    #[serde(borrow)]
    pub reason: Cow<'a, str>,
    #[serde(borrow)]
    pub message: Cow<'a, str>,
    #[serde(deserialize_with = "not_epoch")]
    pub started_at: Option<Timestamp>,
    #[serde(deserialize_with = "not_epoch")]
    pub finished_at: Option<Timestamp>,
}

/// Decodes a time, and treats 1970 as missing: the kubelet writes it for a container that never
/// started (kubernetes#104107).
fn not_epoch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    Ok(lenient::time(deserializer)?.filter(|time| *time > Timestamp::UNIX_EPOCH))
}

impl PodSpec<'_> {
    pub(crate) fn claim_names(&self) -> Vec<String> {
        self.volumes
            .iter()
            .filter_map(|volume| volume.persistent_volume_claim.as_ref())
            .map(|claim| claim.claim_name.clone())
            .collect()
    }
}

impl WireContainer<'_> {
    /// Returns true if a probe determines the container's readiness.
    pub(crate) fn is_checked(&self) -> bool {
        self.startup_probe.is_some()
            || self
                .readiness_probe
                .as_ref()
                .is_some_and(|probe| probe.http_get.is_some())
    }
}

impl ContainerResources {
    /// Returns the request, or the limit if no request is set.
    pub(crate) fn requested(&self, name: &str) -> Option<String> {
        self.requests
            .get(name)
            .or_else(|| self.limits.get(name))
            .cloned()
    }
}

impl Terminated<'_> {
    pub(super) fn end(&self) -> ContainerEnd {
        ContainerEnd {
            code: self.exit_code,
            reason: self.reason.to_string(),
            message: self.message.trim().to_owned(),
        }
    }
}

impl Condition<'_> {
    pub(crate) fn holds(&self) -> bool {
        self.status == "True"
    }
}

impl PodStatus<'_> {
    /// Returns when the first container started, or `None` while all containers wait or pull
    /// images.
    pub(crate) fn started_at(&self) -> Option<Timestamp> {
        // The status has only the last two runs of a container. After more restarts, use the pod's
        // start time, which never changes.
        if self
            .container_statuses
            .iter()
            .any(|status| status.restart_count > 1)
        {
            return self.start_time;
        }
        self.container_statuses
            .iter()
            .filter_map(ContainerStatus::started_at)
            .min()
    }

    /// Returns the reason why a container does not start, such as `CrashLoopBackOff`, except for
    /// reasons that also occur during a normal start.
    pub(crate) fn trouble(&self) -> Option<String> {
        let statuses = self
            .container_statuses
            .iter()
            .chain(&self.init_container_statuses);
        let mut waiting = statuses.filter_map(|status| status.state.waiting.as_ref());
        waiting
            .find(|waiting| !is_starting(&waiting.reason))
            .map(|waiting| waiting.reason.to_string())
    }

    pub(crate) fn phase(&self) -> PodPhase {
        match self.phase.as_ref() {
            "Running" => PodPhase::Running,
            "Succeeded" => PodPhase::Succeeded,
            "Failed" => PodPhase::Failed,
            "Pending" | "" => PodPhase::Pending,
            _ => PodPhase::Unknown,
        }
    }
}

impl ContainerStatus<'_> {
    fn started_at(&self) -> Option<Timestamp> {
        let start_of = |state: &ContainerState<'_>| {
            let running = state
                .running
                .as_ref()
                .and_then(|running| running.started_at);
            running.or_else(|| {
                state
                    .terminated
                    .as_ref()
                    .and_then(|terminated| terminated.started_at)
            })
        };
        start_of(&self.state)
            .into_iter()
            .chain(start_of(&self.last_state))
            .min()
    }
}

/// Label with the hash of the pod template, on a ReplicaSet and its pods.
pub(crate) const TEMPLATE_HASH: &str = "pod-template-hash";

#[cfg(test)]
mod tests;
