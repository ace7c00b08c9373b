//! A pod of a job and its containers, as the cluster reports them.

use jiff::Timestamp;

use crate::model::contract::labels::TERMINATION_PREFIX;
use crate::model::values::units::GpuCount;

/// The container that gpuctl makes in every pod.
pub const OWN_CONTAINER: &str = "main";

/// A pod's phase in Kubernetes' words.
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
    /// Whether no container of the pod will run again.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// A pod of a job.
#[derive(Clone, Debug, Default)]
pub struct Pod {
    pub name: String,
    pub uid: String,
    /// Its index in an Indexed Job.
    pub rank: Option<u32>,
    /// The replica that it is of and its number in it, where a replica is several pods; number 0
    /// answers requests.
    pub group: Option<(u32, u32)>,
    /// The version of the template that it was made from, where a controller replaces pods by newer
    /// ones.
    pub revision: Option<String>,
    pub node: Option<String>,
    /// The node's address, where node ports answer.
    pub host_ip: Option<String>,
    pub phase: PodPhase,
    pub deleting: bool,
    pub created_at: Option<Timestamp>,
    /// When its first container began to run.
    pub started_at: Option<Timestamp>,
    /// When its last container ended, of those that have.
    pub ended_at: Option<Timestamp>,
    pub ready: bool,
    pub gpus: GpuCount,
    /// Why the scheduler has not placed it: (reason, message).
    pub unscheduled: Option<(String, String)>,
    /// Its node does not answer: it was marked not ready although its containers were when last
    /// heard of.
    pub silent: bool,
    /// The reason of a DisruptionTarget condition: somebody else ended it.
    pub disrupted: Option<String>,
    pub reason: Option<String>,
    /// What the kubelet says of an eviction.
    pub message: Option<String>,
    pub containers: Vec<Container>,
}

impl Pod {
    /// Returns true while bound to a node and not ended: its devices are taken, also while it pulls
    /// its image or terminates.
    pub fn holds(&self) -> bool {
        self.node.is_some() && !self.ended()
    }

    pub fn ended(&self) -> bool {
        self.phase.has_ended()
    }

    /// Returns true when its node does not answer.
    pub fn is_lost(&self) -> bool {
        // A pod that the taint manager deletes stays until its node answers.
        let given_up = self.deleting && self.disrupted.as_deref() == Some("DeletionByTaintManager");
        self.node.is_some() && (self.phase == PodPhase::Unknown || self.silent || given_up)
    }

    /// Returns the container that runs the job; the kubelet sorts them by name, and a sidecar may
    /// come first.
    pub fn own_container(&self) -> &str {
        let own = self
            .containers
            .iter()
            .find(|container| container.name == OWN_CONTAINER);
        own.or(self.containers.first())
            .map_or(OWN_CONTAINER, |container| container.name.as_str())
    }

    /// Returns true when the job's own container has ended, whatever sidecars do.
    pub fn own_ended(&self) -> bool {
        self.containers
            .iter()
            .any(|container| container.name == OWN_CONTAINER && container.terminated.is_some())
    }

    /// Returns a container that keeps a pod alive whose own one has ended.
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

/// How a container ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerEnd {
    pub code: i32,
    /// The runtime's word: `OOMKilled`, `Error`, `StartError`.
    pub reason: String,
    /// What the runtime says of a container that it could not start; else what the program wrote as
    /// its last words.
    pub message: String,
}

impl ContainerEnd {
    /// Returns true for a container whose command never ran.
    pub fn never_started(&self) -> bool {
        matches!(self.reason.as_str(), "StartError" | "ContainerCannotRun")
    }

    /// Returns the exit code of the command: a supervisor of ranks ends with a code of its own and
    /// says the command's.
    pub fn command_code(&self) -> i32 {
        let told = self
            .message
            .strip_prefix(TERMINATION_PREFIX)
            .and_then(|text| text.split_once("exit code "));
        let digits = told.and_then(|(_, rest)| {
            rest.split(|c: char| !c.is_ascii_digit())
                .next()?
                .parse()
                .ok()
        });
        digits.unwrap_or(self.code)
    }
}

/// A container's state.
#[derive(Clone, Debug, Default)]
pub struct Container {
    pub name: String,
    pub restarts: u32,
    /// Waiting: (reason, message).
    pub waiting: Option<(String, String)>,
    /// How it ended, if it has.
    pub terminated: Option<ContainerEnd>,
    /// How it ended before its last restart.
    pub last_ended: Option<ContainerEnd>,
    pub running: bool,
    /// Its startup check has passed, or it has none.
    pub started: bool,
}
