//! A pod of a job and its containers, as the cluster reports them.

use jiff::Timestamp;

use crate::model::contract::labels::TERMINATION_PREFIX;
use crate::model::values::units::GpuCount;

/// The main container of every pod that gpuctl creates.
pub const OWN_CONTAINER: &str = "main";

/// The phase of a pod, as defined by Kubernetes.
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
    /// True if no container of the pod will run again.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// A pod of a job.
#[derive(Clone, Debug, Default)]
pub struct Pod {
    pub name: String,
    pub uid: String,
    /// The completion index of the pod in an Indexed Job.
    pub rank: Option<u32>,
    /// The index of its replica, and its index within the replica. Only set if replicas have
    /// several pods. The pod with index 0 receives requests.
    pub group: Option<(u32, u32)>,
    /// The version of the pod template, if the controller replaces pods during a rollout.
    pub revision: Option<String>,
    pub node: Option<String>,
    /// The address of its node. Node ports are reachable there.
    pub host_ip: Option<String>,
    pub phase: PodPhase,
    pub deleting: bool,
    pub created_at: Option<Timestamp>,
    /// The time at which its first container started.
    pub started_at: Option<Timestamp>,
    /// The time at which its last terminated container ended.
    pub ended_at: Option<Timestamp>,
    pub ready: bool,
    pub gpus: GpuCount,
    /// Why the pod is not scheduled, as (reason, message).
    pub unscheduled: Option<(String, String)>,
    /// The node has stopped responding. The pod is marked as not ready, although its containers
    /// were ready in their last known state.
    pub silent: bool,
    /// The reason in the pod's DisruptionTarget condition. It means that something other than the
    /// pod itself ended the pod.
    pub disrupted: Option<String>,
    pub reason: Option<String>,
    /// The kubelet's message about the eviction of the pod.
    pub message: Option<String>,
    pub containers: Vec<Container>,
}

impl Pod {
    /// Whether the pod is bound to a node and has not terminated. Such a pod holds its devices,
    /// even while it pulls its image or terminates.
    pub fn holds(&self) -> bool {
        self.node.is_some() && !self.ended()
    }

    pub fn ended(&self) -> bool {
        self.phase.has_ended()
    }

    /// True when its node does not respond.
    pub fn is_lost(&self) -> bool {
        // A pod that the taint manager deletes remains until its node responds again.
        let given_up = self.deleting && self.disrupted.as_deref() == Some("DeletionByTaintManager");
        self.node.is_some() && (self.phase == PodPhase::Unknown || self.silent || given_up)
    }

    /// Returns the name of the container that runs the job. It is not simply the first container:
    /// the kubelet sorts containers by name, so a sidecar may come first.
    pub fn own_container(&self) -> &str {
        let main = self
            .containers
            .iter()
            .find(|container| container.name == OWN_CONTAINER);
        main.or(self.containers.first())
            .map_or(OWN_CONTAINER, |container| container.name.as_str())
    }

    /// Whether the job's own container has terminated. Sidecars do not matter.
    pub fn own_ended(&self) -> bool {
        self.containers
            .iter()
            .any(|container| container.name == OWN_CONTAINER && container.terminated.is_some())
    }

    /// Finds a container that keeps the pod running after the job's own container has terminated.
    pub fn sidecar_left(&self) -> Option<&str> {
        let left = self.containers.iter().find(|container| container.running)?;
        (self.own_ended() && self.phase == PodPhase::Running).then_some(left.name.as_str())
    }

    pub fn restarts(&self) -> u32 {
        self.containers
            .iter()
            .map(|container| container.restarts)
            .fold(0, u32::saturating_add)
    }
}

/// How a container terminated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerEnd {
    pub code: i32,
    /// The reason from the container runtime: `OOMKilled`, `Error`, `StartError`.
    pub reason: String,
    /// The runtime's message if it could not start the container. Otherwise, the program's
    /// termination message.
    pub message: String,
}

impl ContainerEnd {
    /// Whether the container's command never ran.
    pub fn never_started(&self) -> bool {
        // containerd reports `StartError`, Docker reports `ContainerCannotRun`.
        matches!(self.reason.as_str(), "StartError" | "ContainerCannotRun")
    }

    /// Returns the command's exit code. The rank supervisor exits with its own code, and reports
    /// the command's in its termination message.
    pub fn command_code(&self) -> i32 {
        let reported = self
            .message
            .strip_prefix(TERMINATION_PREFIX)
            .and_then(|text| text.split_once("exit code "));
        let digits = reported.and_then(|(_, rest)| {
            rest.split(|c: char| !c.is_ascii_digit())
                .next()?
                .parse()
                .ok()
        });
        digits.unwrap_or(self.code)
    }
}

/// The state of a container.
#[derive(Clone, Debug, Default)]
pub struct Container {
    pub name: String,
    pub restarts: u32,
    /// The reason and message if the container is waiting.
    pub waiting: Option<(String, String)>,
    /// How the container terminated, if it has terminated.
    pub terminated: Option<ContainerEnd>,
    /// How the container terminated before its last restart.
    pub last_ended: Option<ContainerEnd>,
    pub running: bool,
    /// True once the startup probe has succeeded, or if there is no such probe.
    pub started: bool,
}
