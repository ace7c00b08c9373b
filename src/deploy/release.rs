//! Determines which GPUs a deleted job has released, from the state of its nodes after the
//! deletion.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;

use gpuctl_cluster::Connection;
use gpuctl_core::model::counting::release::{NodeContact, Release};
use gpuctl_core::model::{Job, Pod};

/// Returns the GPUs that a job without pods has released. Without `force`, the kubelet has
/// confirmed the end of the containers, except on nodes that do not respond.
pub(crate) async fn release(connection: &Connection, job: &Job, force: bool) -> Release {
    let nodes: BTreeSet<&str> = job
        .pods
        .iter()
        .filter(|pod| pod.holds() && (force || pod.is_lost()))
        .filter_map(|pod: &Pod| pod.node.as_deref())
        .collect();
    let contacts = nodes.iter().map(|node| connection.nodes().contact(node));
    let contacts = join_all(contacts).await;
    let contacts: BTreeMap<&str, NodeContact> = nodes.into_iter().zip(contacts).collect();
    Release::new(&job.pods, |node| {
        contacts.get(node).cloned().unwrap_or(NodeContact::Ready)
    })
}
