//! Counts the GPUs that a pod requests, and the free GPUs on eligible nodes.

use super::candidates::CandidateNode;
use super::facts::{Facts, PendingPod};
use gpuctl_core::model::counting::capacity::Amounts;
use gpuctl_core::model::facts::resource::is_device;

/// Sums the amounts of the device kinds that the pod requests.
pub(super) fn devices(amounts: &Amounts, pending: &PendingPod) -> i128 {
    let resource = pending.requests.keys().find(|resource| is_device(resource));
    resource
        .and_then(|resource| amounts.get(resource))
        .copied()
        .unwrap_or(0)
        .max(0)
        / 1000
}

/// Numbers of requested GPUs and of free GPUs on eligible nodes.
pub(super) struct FreeDevices {
    pub wanted: i128,
    in_all: i128,
    /// The largest number of free GPUs on one node.
    pub most: i128,
}

impl FreeDevices {
    pub(super) fn count(pending: &PendingPod, on: &[&CandidateNode<'_>]) -> Self {
        let free: Vec<i128> = on
            .iter()
            .filter(|candidate| candidate.lacks_only_resources())
            .map(|candidate| devices(candidate.free, pending))
            .collect();
        Self {
            wanted: devices(&pending.requests, pending),
            in_all: free.iter().sum(),
            most: free.iter().max().copied().unwrap_or(0),
        }
    }

    /// Returns true if enough GPUs are free in total but not on any node.
    pub(super) fn are_fragmented(&self, pending: &PendingPod) -> bool {
        self.most < self.wanted
            && self.in_all >= self.wanted * i128::from(pending.together)
            && self.wanted > 1
    }

    /// Describes the requested and free GPUs.
    pub(super) fn describe(
        &self,
        facts: &Facts<'_>,
        pending: &PendingPod,
        on: &[&CandidateNode<'_>],
    ) -> String {
        let Self {
            wanted,
            in_all,
            most,
        } = *self;
        let kind =
            facts
                .job
                .gpu_type
                .as_deref()
                .unwrap_or(if wanted == 1 { "GPU" } else { "GPUs" });
        let per_pod = if pending.together > 1 {
            format!("{} pods × {wanted} {kind}", pending.together)
        } else {
            format!("{wanted} {kind} on one node")
        };
        match on {
            _ if self.are_fragmented(pending) => {
                format!("{per_pod}: {in_all} are free in total, but at most {most} on one node")
            }
            [one] => format!(
                "{per_pod}; {} has {} free",
                one.node.name,
                devices(one.free, pending)
            ),
            several if most == 0 => format!(
                "{per_pod}; none is free on the {} eligible nodes",
                several.len()
            ),
            several => format!(
                "{per_pod}; none of {} nodes has more than {most} free",
                several.len()
            ),
        }
    }
}
