//! Warns about data of a node list that the user may not read.

use crate::context::Context;
use gpuctl_cluster::InventorySnapshot;

/// Warns about each resource that the user may not list.
pub(crate) fn warn_of_missing_rights(snapshot: &InventorySnapshot, context: &Context) {
    if snapshot.unreadable.contains(&"pods") {
        context.terminal.warn_missing_permission(
            "you are not allowed to list the pods in all namespaces: the number of held GPUs is unknown",
        );
    }
    if snapshot.unreadable.contains(&"nodes") {
        context.terminal.warn_missing_permission(
            "you are not allowed to list nodes: they are shown as published, without their status",
        );
    }
    if snapshot.unreadable.contains(&"device taint rules") {
        context.terminal.warn_missing_permission(
            "you are not allowed to list device taint rules: devices that they taint count as free",
        );
    }
    let claims: Vec<&str> = snapshot
        .unreadable
        .iter()
        .copied()
        .filter(|resource| resource.starts_with("resource"))
        .collect();
    if !claims.is_empty() {
        context.terminal.warn_missing_permission(&format!(
            "you are not allowed to list {}: devices from dynamic resource allocation are not counted",
            claims.join(" and ")
        ));
    }
}
