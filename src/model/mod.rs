//! What is true of the cluster, in gpuctl's own types.

pub(crate) mod device;
pub(crate) mod forest;
pub(crate) mod gpu;
pub(crate) mod host;
pub(crate) mod inventory;
pub(crate) mod job;
pub(crate) mod labels;
mod measured;
pub(crate) mod node;
pub(crate) mod pool;
pub(crate) mod quantity;
pub(crate) mod quota;
pub(crate) mod reading;
pub(crate) mod rights;
pub(crate) mod series;
pub(crate) mod service;
mod serving;
pub(crate) mod state;
mod training;
pub(crate) mod units;
pub(crate) mod workload;

pub(crate) use device::DeviceId;
pub(crate) use forest::Forest;
pub use gpu::GpuType;
pub(crate) use host::{HostCondition, NodeDetails, NodeHealth};
pub(crate) use inventory::{Consumer, Count, Device, Holder, Inventory, NodeUsage};
pub(crate) use job::{Container, Event, Job, JobKind, OWN_CONTAINER, Pod, PodPhase};
pub use node::{Node, Nodes, Taint};
pub(crate) use pool::{Noted, Notes, PoolDefinition};
pub(crate) use quota::QuotaUse;
pub(crate) use reading::{Figures, Reading, Readings};
pub use series::{Point, Series};
pub(crate) use service::{Autoscaler, Endpoint, Scaling};
pub(crate) use state::{State, Status};
pub(crate) use units::{Celsius, Mebibytes, Percent, Watts};
pub(crate) use workload::Workload;
