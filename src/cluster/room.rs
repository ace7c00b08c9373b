//! Computes the free resources of nodes, and which jobs hold their devices, from one list of the pods that have not ended. It also
//! computes what a pod that is not created yet requests.

use std::collections::BTreeMap;

use serde_json::Value;

use super::decode::{ListPage, PodSpec, WirePod};
use super::nodes::MACHINE;
use super::{Connection, Failure};
use crate::model::Node;
use crate::model::capacity::Amounts;
use crate::model::labels::JOB;

/// Free resources of nodes, and who holds their devices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room {
    /// By node; below zero where more is requested than allocatable.
    pub free: BTreeMap<String, Amounts>,
    /// Devices in use: by node, then by NAMESPACE/NAME of the job, else of the pod's owner or of the pod.
    pub held: BTreeMap<String, BTreeMap<String, u64>>,
}

/// Returns what the scheduler counts for a pod; nothing when the pod cannot be read.
pub(crate) fn requests(pod: &Value) -> Amounts {
    let text = pod["spec"].to_string();
    serde_json::from_str::<PodSpec<'_>>(&text).map(|spec| spec.amounts()).unwrap_or_default()
}

impl Connection {
    /// Returns the room on `nodes`. `None` when the user may not see all pods.
    pub(crate) async fn room(&self, nodes: &[Node]) -> Result<Option<Room>, Failure> {
        let free = nodes.iter().map(|node| (node.name.clone(), node.now())).collect();
        let mut room = Room { free, held: BTreeMap::new() };
        let unfinished = [("fieldSelector", "status.phase!=Succeeded,status.phase!=Failed")];
        let listed = self
            .list("/api/v1/pods", &unfinished, |page| {
                let page: ListPage<WirePod<'_>> = serde_json::from_slice(page)?;
                page.items.iter().for_each(|pod| room.take(pod));
                Ok(())
            })
            .await;
        match listed {
            Ok(()) => Ok(Some(room)),
            Err(failure) if failure.is_forbidden() => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}

impl Room {
    fn take(&mut self, pod: &WirePod<'_>) {
        let node = pod.spec.node_name.as_ref();
        let Some(free) = self.free.get_mut(node) else { return };
        for (resource, amount) in pod.spec.amounts() {
            if let Some(left) = free.get_mut(&resource) {
                *left -= amount;
            }
        }
        let devices = pod.spec.devices();
        if devices > 0 {
            let job = pod.metadata.labels.get(JOB).map(String::as_str);
            let owner = job.or_else(|| pod.metadata.controller().map(|owner| owner.name.as_str()));
            let name = owner.unwrap_or(pod.metadata.name.as_ref());
            let held = self.held.entry(node.to_owned()).or_default();
            *held.entry(format!("{}/{name}", pod.metadata.namespace)).or_default() += devices;
        }
    }
}

impl PodSpec<'_> {
    /// Returns everything that the scheduler counts for this pod, in thousandths.
    fn amounts(&self) -> Amounts {
        let total = self.total();
        let extended = total.extended.into_iter().map(|(resource, amount)| (resource, i128::from(amount) * 1000));
        let machine = MACHINE.into_iter().map(|resource| (resource.to_owned(), i128::from(self.of_node(resource))));
        extended.chain(machine).filter(|(_, amount)| *amount > 0).collect()
    }
}
