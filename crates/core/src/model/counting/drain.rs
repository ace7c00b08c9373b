//! Effect of draining a node: the pods that it would evict, and the nodes that could run them
//! instead. Ignores PodDisruptionBudgets.

use jiff::Timestamp;

/// A pod that a drain would evict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainedPod {
    pub namespace: String,
    pub name: String,
    /// Name of the gpuctl job that the pod belongs to.
    pub job: Option<String>,
    pub rank: Option<u32>,
    pub gpus: u64,
    pub since: Option<Timestamp>,
    /// Time of the last log line that reports a saved checkpoint.
    pub checkpoint: Option<Timestamp>,
    /// A node that could run the pod now, or `None` if no node can or free capacity is unknown.
    pub moves_to: Option<String>,
    /// Number of other pods of the job, which end together with this pod.
    pub peers: u32,
}
