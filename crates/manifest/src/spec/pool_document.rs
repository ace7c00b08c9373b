//! Pools of nodes and quotas of namespaces, as a document describes them.

use super::fields::Located;
use gpuctl_core::model::GpuType;

/// A set of nodes that jobs can ask for by name.
#[derive(Clone, Debug)]
pub struct Pool {
    /// The name, with its place in the file.
    pub name: Located<String>,
    /// Free text.
    pub description: Option<String>,
    /// Allowed types; empty allows all.
    pub gpu_types: Vec<GpuType>,
    /// Limits of the pool.
    pub quota: PoolQuota,
    /// Its nodes take no job of another pool, or of none.
    pub exclusive: bool,
    /// The nodes that the file puts into it.
    pub nodes: Vec<PoolNode>,
}

/// Limits of a pool.
#[derive(Clone, Debug, Default)]
pub struct PoolQuota {
    /// Jobs that have not ended.
    pub max_jobs: Option<u32>,
    /// GPUs of all pods of a job.
    pub max_gpu_per_job: Option<u32>,
}

/// A node of a pool.
#[derive(Clone, Debug)]
pub struct PoolNode {
    /// The name, with its place in the file.
    pub name: Located<String>,
    /// The type that the node gets as a label.
    pub gpu_type: Option<GpuType>,
}

/// Limits of namespaces.
#[derive(Clone, Debug)]
pub struct Quota {
    /// Its name.
    pub name: String,
    /// Free text.
    pub description: Option<String>,
    /// Limits by namespace.
    pub namespaces: Vec<(String, QuotaLimits)>,
}

/// Limits of one namespace; absent means no limit.
#[derive(Clone, Debug, Default)]
pub struct QuotaLimits {
    /// A quantity of CPUs.
    pub cpu: Option<String>,
    /// A quantity of bytes.
    pub memory: Option<String>,
    /// GPUs.
    pub gpu: Option<u32>,
    /// Pods.
    pub pods: Option<u32>,
    /// Bytes of claims.
    pub storage: Option<String>,
}
