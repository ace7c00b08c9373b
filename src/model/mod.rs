//! What is true of the cluster, in our own words. Nothing here knows Kubernetes structs, clients or text layout.

pub mod device;
pub mod forest;
pub mod gpu;
pub mod host;
pub mod inventory;
pub mod job;
mod measured;
pub mod node;
pub mod pool;
pub mod quantity;
pub mod quota;
pub mod reading;
pub mod rights;
pub mod series;
pub mod service;
mod serving;
pub mod state;
mod training;
pub mod workload;

pub use device::DeviceId;
pub use forest::Forest;
pub use gpu::GpuType;
pub use host::{HostCondition, NodeDetails, NodeHealth};
pub use inventory::{Consumer, Count, Device, Holder, Inventory, NodeUsage};
pub use job::{Container, Event, Job, JobKind, OWN_CONTAINER, Pod, PodPhase};
pub use node::{Node, Nodes, Taint};
pub use pool::{Noted, Notes, PoolDefinition};
pub use quota::QuotaUse;
pub use reading::{Figures, Reading, Readings};
pub use series::{Point, Series};
pub use service::{Autoscaler, Endpoint, Scaling};
pub use state::{State, Status};
pub use workload::Workload;

/// The label that puts a node into a pool, and a job beside it.
pub const POOL_LABEL: &str = "gpuctl/pool";
