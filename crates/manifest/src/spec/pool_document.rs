//! Documents of node pools and namespace quotas.

use super::fields::Located;
use gpuctl_core::model::GpuType;

/// A set of nodes that jobs can request by name.
#[derive(Clone, Debug)]
pub struct Pool {
    /// The name, with its position in the file.
    pub name: Located<String>,
    pub description: Option<String>,
    /// GPU types that the pool allows. Empty allows all.
    pub gpu_types: Vec<GpuType>,
    pub quota: PoolQuota,
    /// Whether the pool's nodes reject jobs of other pools and jobs without a pool.
    pub exclusive: bool,
    /// Nodes that the file assigns to the pool.
    pub nodes: Vec<PoolNode>,
}

#[derive(Clone, Debug, Default)]
pub struct PoolQuota {
    /// Limit on the number of unfinished jobs.
    pub max_jobs: Option<u32>,
    /// Limit on the total number of GPUs that one job's pods use.
    pub max_gpu_per_job: Option<u32>,
}

/// A node in a pool.
#[derive(Clone, Debug)]
pub struct PoolNode {
    /// The name, with its position in the file.
    pub name: Located<String>,
    /// The GPU type with which gpuctl labels the node.
    pub gpu_type: Option<GpuType>,
}

/// Limits for one or more namespaces.
#[derive(Clone, Debug)]
pub struct Quota {
    pub name: String,
    pub description: Option<String>,
    pub namespaces: Vec<(String, QuotaLimits)>,
}

/// Limits of one namespace. `None` means unlimited.
#[derive(Clone, Debug, Default)]
pub struct QuotaLimits {
    /// A CPU quantity.
    pub cpu: Option<String>,
    /// A memory quantity.
    pub memory: Option<String>,
    pub gpu: Option<u32>,
    pub pods: Option<u32>,
    /// Total size of the PersistentVolumeClaims.
    pub storage: Option<String>,
}
