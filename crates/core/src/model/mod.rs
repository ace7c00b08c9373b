//! Domain types and the facts about a cluster.

pub mod contract;
pub mod counting;
pub mod facts;
pub mod secrets;
pub mod values;

pub use counting::consumer::{Consumer, Consumers, MachineRequests};
pub use counting::forest::Forest;
pub use counting::held_use::HeldUse;
pub use counting::inventory::{Count, Inventory};
pub use counting::node_usage::{Device, Holder, NodeUsage};
pub use facts::claim::{Claim, ClaimState};
pub use facts::condition::HostCondition;
pub use facts::container_end::ContainerEnd;
pub use facts::device::DeviceId;
pub use facts::event::Event;
pub use facts::gpu::GpuType;
pub use facts::host::{NodeDetails, NodeHealth};
pub use facts::job::{Job, JobKind};
pub use facts::job_pod::{Container, ContainerRestarts, OWN_CONTAINER, Pod, PodPhase};
pub use facts::node::{ClaimableDevices, Node, Nodes, Taint};
pub use facts::node_fault::NodeFault;
pub use facts::pool::{LabelNote, LabelNotes, PoolDefinition};
pub use facts::queue::{Gang, GangMode, QueueSystem};
pub use facts::queue::{
    GroupVerdict, Preemption, Queue, QueueCheck, QueuePosition, QueueVerdict, RemoteRun,
};
pub use facts::quota::QuotaUse;
pub use facts::reading::{Figures, Reading, Readings};
pub use facts::service::{Autoscaler, Endpoint, Scaling};
pub use facts::state::{State, Status, cannot_start, is_starting};
pub use facts::wait_condition::{WaitCondition, WaitVerdict};
pub use facts::workload::Workload;
pub use values::series::{Point, Series};
pub use values::time::UnixSeconds;
pub use values::units::GpuCount;
pub use values::units::{Celsius, Mebibytes, Percent, Watts};
