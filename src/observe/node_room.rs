//! Reads the nodes and the free amounts on them.

use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::model::Nodes;
use gpuctl_core::model::counting::candidates::Room;
use gpuctl_core::model::counting::capacity::Amounts;
use gpuctl_core::model::counting::device_demand::DeviceClaims;

/// Nodes and the free amounts on them, which one run reads once.
pub(crate) struct NodeRoom {
    pub nodes: Nodes,
    /// `None` where not all pods may be listed.
    pub room: Option<Room>,
}

impl NodeRoom {
    pub(crate) async fn of(connection: &Connection) -> Result<Self, Error> {
        let nodes = connection.nodes().list().await?;
        let room = match &nodes {
            Nodes::Listed(nodes) => connection.inventory().room(nodes).await?,
            Nodes::Published(_) | Nodes::Hidden => None,
        };
        Ok(Self { nodes, room })
    }

    /// Returns the same nodes with what they offer of the devices that a pod claims. Adds the
    /// devices to its requests. `None` where it claims none.
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
        let (mut nodes, mut room) = (nodes.clone(), self.room.clone());
        devices.add_to(requests, &mut nodes, room.as_mut());
        Some(Self {
            nodes: Nodes::Listed(nodes),
            room,
        })
    }

    /// Knows the nodes alone: for a job whose pods all have one.
    pub(crate) async fn of_nodes(connection: &Connection) -> Result<Self, Error> {
        Ok(Self {
            nodes: connection.nodes().list().await?,
            room: None,
        })
    }

    /// Knows no nodes: for a job that needs none.
    pub(crate) fn hidden() -> Self {
        Self {
            nodes: Nodes::Hidden,
            room: None,
        }
    }
}
