//! Facts about nodes, devices, jobs and workloads.

pub(crate) mod claim;
pub mod condition;
pub mod device;
pub(crate) mod event;
pub mod exported_instances;
pub mod gpu;
pub mod gpu_group;
pub mod gpu_stack;
pub mod host;
pub mod job;
pub mod job_pod;
pub mod node;
pub mod part;
pub mod pool;
pub(crate) mod queue;
pub mod quota;
pub mod reading;
pub mod resource;
pub mod service;
pub(crate) mod serving;
pub mod state;
pub(crate) mod training;
pub mod unit;
pub mod wait_condition;
pub mod work_pod;
pub mod workload;
