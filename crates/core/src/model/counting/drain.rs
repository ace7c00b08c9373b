//! The effect of draining a node: which pods it evicts, and where each of them could run instead.
//! PodDisruptionBudgets are ignored.

use jiff::Timestamp;

/// A pod that a drain would evict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainedPod {
    pub namespace: String,
    pub name: String,
    /// The gpuctl job that the pod belongs to.
    pub job: Option<String>,
    pub rank: Option<u32>,
    pub gpus: u64,
    pub since: Option<Timestamp>,
    /// The time of the last log line that reported a saved checkpoint.
    pub checkpoint: Option<Timestamp>,
    /// A node that could run the pod now. `None` if there is no such node, or if free capacity is
    /// unknown.
    pub moves_to: Option<String>,
    /// The number of other pods in the job, which end together with this one.
    pub peers: u32,
}
