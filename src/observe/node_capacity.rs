//! Reads nodes and their free capacity.

use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::model::Nodes;
use gpuctl_core::model::counting::candidates::ClusterCapacity;
use gpuctl_core::model::counting::capacity::Amounts;
use gpuctl_core::model::counting::device_claims::DeviceClaims;

/// Nodes with their free capacity, read once per command.
pub(crate) struct NodeCapacity {
    pub nodes: Nodes,
    /// `None` if the user may not list all pods.
    pub free_resources: Option<ClusterCapacity>,
}

impl NodeCapacity {
    pub(crate) async fn read(connection: &Connection) -> Result<Self, Error> {
        let nodes = connection.nodes().list().await?;
        let free_resources = match &nodes {
            Nodes::Listed(nodes) => connection.inventory().capacity(nodes).await?,
            Nodes::Published(_) | Nodes::Hidden => None,
        };
        Ok(Self {
            nodes,
            free_resources,
        })
    }

    /// Adds the devices that a pod claims to the pod's requests, and their capacity to a copy of
    /// the nodes. Returns `None` if no claimed devices can be compared with the nodes.
    pub(crate) fn with_devices(
        &self,
        devices: &DeviceClaims,
        requests: &mut Amounts,
    ) -> Option<Self> {
        let Nodes::Listed(nodes) = &self.nodes else {
            return None;
        };
        if !matches!(devices, DeviceClaims::Compared(_)) {
            return None;
        }
        let (mut nodes, mut free_resources) = (nodes.clone(), self.free_resources.clone());
        devices.add_to(requests, &mut nodes, free_resources.as_mut());
        Some(Self {
            nodes: Nodes::Listed(nodes),
            free_resources,
        })
    }

    /// Reads the nodes without their free capacity, which only unscheduled pods need.
    pub(crate) async fn read_nodes(connection: &Connection) -> Result<Self, Error> {
        Ok(Self {
            nodes: connection.nodes().list().await?,
            free_resources: None,
        })
    }

    /// Creates an empty value for jobs whose diagnosis does not need the nodes.
    pub(crate) fn hidden() -> Self {
        Self {
            nodes: Nodes::Hidden,
            free_resources: None,
        }
    }
}
