//! The effect of draining a node: which pods are evicted, and where each could run instead.
//! PodDisruptionBudgets are not considered.

use jiff::Timestamp;

/// A pod that a drain would evict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainedPod {
    pub namespace: String,
    pub name: String,
    /// The gpuctl job that it belongs to.
    pub job: Option<String>,
    pub rank: Option<u32>,
    pub gpus: u64,
    pub since: Option<Timestamp>,
    /// When its log last reported a saved checkpoint.
    pub checkpoint: Option<Timestamp>,
    /// The node that could take it now; `None` when no node could, or when free capacity is
    /// unknown.
    pub moves_to: Option<String>,
    /// Other pods of the job, which end together with it.
    pub peers: u32,
}
