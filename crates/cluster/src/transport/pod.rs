//! Converts pods of the Kubernetes API to pods of gpuctl's model.

use super::decode::{
    Condition, ContainerStatus, TEMPLATE_HASH, Terminated, WireContainer, WirePod,
};
use gpuctl_core::model::contract::labels::{GROUP_INDEX, GROUP_RANK, GROUP_REVISION};
use gpuctl_core::model::values::omissions;
use gpuctl_core::model::values::omissions::Omission;
use gpuctl_core::model::{Container, ContainerRestarts, GpuCount, Pod, PodPhase};

impl WirePod<'_> {
    /// Returns the completion index of a pod of a Job.
    fn rank(&self) -> Option<u32> {
        let index = "batch.kubernetes.io/job-completion-index";
        let rank = self
            // The label exists since Kubernetes 1.28, the annotation also before.
            .metadata
            .labels
            .get(index)
            .or_else(|| self.metadata.annotations.get(index));
        rank.and_then(|rank| rank.parse().ok())
    }

    /// Lists the containers, followed by those init containers that block the pod.
    fn containers(&self) -> Vec<Container> {
        let inits = self
            .status
            .init_container_statuses
            .iter()
            .filter(|init| init.holds_up());
        let statuses = self.status.container_statuses.iter();
        let mains = statuses.map(|status| (status, &self.spec.containers, false));
        let inits = inits.map(|status| (status, &self.spec.init_containers, true));
        mains
            .chain(inits)
            .map(|(status, specs, is_init)| {
                let spec = specs.iter().find(|spec| spec.name == status.name);
                Container {
                    is_init,
                    has_gpus: spec.is_some_and(WireContainer::has_devices),
                    ..status.container()
                }
            })
            .collect()
    }

    pub(crate) fn pod(&self) -> Pod {
        let status = &self.status;
        let condition = |kind: &str| {
            status
                .conditions
                .iter()
                .find(|condition| condition.kind == kind)
        };
        let phase = status.phase();
        let number = |key: &str| {
            self.metadata
                .labels
                .get(key)
                .and_then(|text| text.parse().ok())
        };
        let disruption = condition("DisruptionTarget").filter(|condition| condition.holds());
        let unscheduled = condition("PodScheduled").filter(|condition| condition.status == "False");
        let ends = status
            .container_statuses
            .iter()
            .filter_map(|container| container.state.terminated.as_ref()?.finished_at);
        if !phase.has_ended() && self.spec.is_absurd() {
            omissions::note(
                Omission::AbsurdRequest,
                format!("{}/{}", self.metadata.namespace, self.metadata.name),
            );
        }
        Pod {
            name: self.metadata.name.to_string(),
            uid: self.metadata.uid.to_string(),
            rank: self.rank(),
            group: number(GROUP_INDEX).zip(number(GROUP_RANK)),
            revision: [TEMPLATE_HASH, GROUP_REVISION, "controller-revision-hash"]
                .iter()
                .find_map(|key| self.metadata.labels.get(*key).cloned()),
            node: Some(self.spec.node_name.to_string()).filter(|node| !node.is_empty()),
            phase,
            deleting: self.metadata.deletion_timestamp.is_some(),
            created_at: self.metadata.creation_timestamp,
            scheduled_at: condition("PodScheduled")
                .filter(|condition| condition.holds())
                .and_then(|condition| condition.last_transition_time),
            started_at: status.started_at(),
            ended_at: ends.max(),
            ready: condition("Ready").is_some_and(Condition::holds),
            gpus: GpuCount(self.spec.devices()),
            unscheduled: unscheduled
                .map(|condition| (condition.reason.to_string(), condition.message.to_string())),
            // When a node stops reporting, the node controller sets `Ready` of its pods to False
            // and leaves `ContainersReady` unchanged. Exclude readiness gates, which have the same
            // effect.
            silent: phase == PodPhase::Running
                && self.spec.readiness_gates.is_empty()
                && condition("ContainersReady").is_some_and(Condition::holds)
                && condition("Ready").is_some_and(|condition| condition.status == "False"),
            host_ip: Some(status.host_ip.to_string()).filter(|address| !address.is_empty()),
            // Kubernetes sets this condition before an eviction, a preemption, or a deletion
            // because of a taint.
            disrupted: disruption.map(|condition| condition.reason.to_string()),
            disruption: disruption
                .map(|condition| condition.message.to_string())
                .filter(|message| !message.is_empty()),
            stopped: condition("TerminationTarget")
                .filter(|condition| condition.holds())
                .map(|condition| (condition.reason.to_string(), condition.message.to_string())),
            reason: Some(status.reason.to_string()).filter(|reason| !reason.is_empty()),
            message: Some(status.message.to_string()).filter(|message| !message.is_empty()),
            restart_policy: match self.spec.restart_policy.as_ref() {
                "Never" => ContainerRestarts::Never,
                "OnFailure" => ContainerRestarts::OnFailure,
                // The API server's default.
                _ => ContainerRestarts::Always,
            },
            containers: self.containers(),
        }
    }
}

impl ContainerStatus<'_> {
    fn holds_up(&self) -> bool {
        self.state
            .waiting
            .as_ref()
            .is_some_and(|waiting| waiting.reason != "PodInitializing")
            || self
                .state
                .terminated
                .as_ref()
                .is_some_and(|terminated| terminated.exit_code != 0)
    }

    fn container(&self) -> Container {
        Container {
            name: self.name.to_string(),
            has_gpus: false,
            restarts: self.restart_count,
            waiting: self
                .state
                .waiting
                .as_ref()
                .map(|waiting| (waiting.reason.to_string(), waiting.message.to_string())),
            terminated: self.state.terminated.as_ref().map(Terminated::end),
            last_ended: self.last_state.terminated.as_ref().map(Terminated::end),
            started: self.started.unwrap_or_else(|| self.state.running.is_some()),
            running: self.state.running.is_some(),
            running_since: self
                .state
                .running
                .as_ref()
                .and_then(|running| running.started_at),
            is_init: false,
            unhealthy: self.unhealthy(),
        }
    }

    /// Names the devices that the kubelet reports as unhealthy.
    fn unhealthy(&self) -> Vec<String> {
        let status = self.allocated_resources_status.iter();
        let devices = status.flat_map(|status| {
            let name = status.name.strip_prefix("claim:").unwrap_or(&status.name);
            let unhealthy = status
                .resources
                .iter()
                .filter(|device| device.health == "Unhealthy");
            unhealthy.map(move |device| format!("{} of {name}", device.resource_id))
        });
        devices.collect()
    }
}
