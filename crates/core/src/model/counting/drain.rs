//! What draining a node would do: whose pods are hit, and where each could run instead. It does not
//! know budgets of disruption.

use jiff::Timestamp;

/// A pod that a drain would end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainedPod {
    pub namespace: String,
    pub name: String,
    /// The job of ours that it is of.
    pub job: Option<String>,
    pub rank: Option<u32>,
    pub gpus: u64,
    pub since: Option<Timestamp>,
    /// When its log last told of a saved checkpoint.
    pub checkpoint: Option<Timestamp>,
    /// The node that would take it now; `None` where none would, or where that is not known.
    pub moves_to: Option<String>,
    /// Other pods of the job, which end with it.
    pub peers: u32,
}
