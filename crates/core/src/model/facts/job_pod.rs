//! A pod of a job and its containers, as the cluster reports them.

use jiff::Timestamp;

use super::container_end::ContainerEnd;
use crate::model::values::units::GpuCount;

/// Name of the main container in every pod that gpuctl creates.
pub const OWN_CONTAINER: &str = "main";

/// Phase of a pod, as defined by Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PodPhase {
    #[default]
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
}

impl PodPhase {
    /// Returns true if no container of the pod will run again.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// Which ended containers of a pod its kubelet starts again (`restartPolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ContainerRestarts {
    #[default]
    Never,
    OnFailure,
    Always,
}

/// A pod of a job.
#[derive(Clone, Debug, Default)]
pub struct Pod {
    pub name: String,
    pub uid: String,
    /// Completion index of the pod in an Indexed Job.
    pub rank: Option<u32>,
    /// Index of the replica, and of the pod within the replica, if replicas have several pods. The
    /// pod with index 0 receives requests.
    pub group: Option<(u32, u32)>,
    /// Version of the pod template, if the controller replaces pods during a rollout.
    pub revision: Option<String>,
    pub node: Option<String>,
    /// IP address of the pod's node, which serves node ports.
    pub host_ip: Option<String>,
    pub phase: PodPhase,
    pub deleting: bool,
    pub created_at: Option<Timestamp>,
    /// When the scheduler assigned a node to the pod.
    pub scheduled_at: Option<Timestamp>,
    /// Start time of the first container.
    pub started_at: Option<Timestamp>,
    /// End time of the container that terminated last.
    pub ended_at: Option<Timestamp>,
    pub ready: bool,
    pub gpus: GpuCount,
    /// Reason and message why the pod is not scheduled.
    pub unscheduled: Option<(String, String)>,
    /// True if the pod is marked as not ready although its containers last reported ready, because
    /// the node has stopped responding.
    pub silent: bool,
    /// Reason of the pod's DisruptionTarget condition, which Kubernetes sets if something other
    /// than the pod ended it.
    pub disrupted: Option<String>,
    /// Message of the `DisruptionTarget` condition.
    pub disruption: Option<String>,
    /// Reason and message of the `TerminationTarget` condition, which Kueue sets on pods that it
    /// manages itself before it deletes them (kueue, `pkg/controller/jobs/pod`).
    pub stopped: Option<(String, String)>,
    pub reason: Option<String>,
    /// The kubelet's message about the eviction of the pod.
    pub message: Option<String>,
    pub restart_policy: ContainerRestarts,
    pub containers: Vec<Container>,
}

impl Pod {
    /// Returns true if the pod is bound to a node and has not terminated. It then holds its
    /// devices, even while it pulls its image or terminates.
    pub fn holds(&self) -> bool {
        self.node.is_some() && !self.ended()
    }

    pub fn ended(&self) -> bool {
        self.phase.has_ended()
    }

    /// Returns true if the node of the pod does not respond.
    pub fn is_lost(&self) -> bool {
        // A pod that the taint manager deletes remains until its node responds again.
        let given_up = self.deleting && self.disrupted.as_deref() == Some("DeletionByTaintManager");
        self.node.is_some() && (self.phase == PodPhase::Unknown || self.silent || given_up)
    }

    /// Returns the name of the container that runs the job. The kubelet sorts container statuses by
    /// name, so the first one may be a sidecar.
    pub fn own_container(&self) -> &str {
        self.main_container()
            .or(self.containers.first())
            .map_or(OWN_CONTAINER, |container| container.name.as_str())
    }

    /// Returns the container with the name of gpuctl's own one, or the only one that requests
    /// devices.
    fn main_container(&self) -> Option<&Container> {
        let named = self
            .containers
            .iter()
            .find(|container| container.name == OWN_CONTAINER);
        let mut with_gpus = self
            .containers
            .iter()
            .filter(|container| container.has_gpus && !container.is_init);
        named.or_else(|| with_gpus.next().filter(|_| with_gpus.next().is_none()))
    }

    /// Returns how the main container ended, if it has terminated and is not started again.
    /// Sidecars may still run.
    pub fn own_end(&self) -> Option<&ContainerEnd> {
        let end = self.main_container()?.terminated.as_ref()?;
        let is_restarted = match self.restart_policy {
            ContainerRestarts::Never => false,
            ContainerRestarts::OnFailure => end.code != 0,
            ContainerRestarts::Always => true,
        };
        (!is_restarted).then_some(end)
    }

    /// Returns a sidecar that keeps the pod running after the main container has terminated.
    pub fn sidecar_left(&self) -> Option<&str> {
        let left = self.containers.iter().find(|container| container.running)?;
        (self.own_end().is_some() && self.phase == PodPhase::Running).then_some(left.name.as_str())
    }

    pub fn restarts(&self) -> u32 {
        self.containers
            .iter()
            .map(|container| container.restarts)
            .fold(0, u32::saturating_add)
    }
}

/// State of a container.
#[derive(Clone, Debug, Default)]
pub struct Container {
    pub name: String,
    /// Whether it requests devices.
    pub has_gpus: bool,
    pub restarts: u32,
    /// Reason and message, if the container is waiting.
    pub waiting: Option<(String, String)>,
    /// Termination of the container, if it has terminated.
    pub terminated: Option<ContainerEnd>,
    /// Termination of the container before its last restart.
    pub last_ended: Option<ContainerEnd>,
    pub running: bool,
    /// Start of the current run, if the container is running.
    pub running_since: Option<Timestamp>,
    /// True for init containers, including native sidecars.
    pub is_init: bool,
    /// True once the startup probe has succeeded, or if the container has none.
    pub started: bool,
    /// Devices that the kubelet reports as unhealthy, such as `GPU-5d1f of nvidia.com/gpu`.
    pub unhealthy: Vec<String>,
}
