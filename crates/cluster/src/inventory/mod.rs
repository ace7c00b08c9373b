//! Reads and writes nodes, devices and pools.

pub(crate) mod capacity;
pub(crate) mod condition;
pub(crate) mod device_claims;
pub(crate) mod device_slices;
pub(crate) mod devices;
pub(crate) mod gpu_stack;
pub(crate) mod held_pod;
pub(crate) mod labels;
pub(crate) mod node_contact;
pub(crate) mod nodes;
pub(crate) mod pods_on_node;
pub(crate) mod pools;
pub(crate) mod read;
pub(crate) mod resource_requests;
