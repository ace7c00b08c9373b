//! Parses the annotations with the devices that sharing systems register on a node.
//!
//! Sources: Project-HAMi/HAMi (docs/develop/protocol.md, pkg/device) and
//! Project-HAMi/volcano-vgpu-device-plugin.

use super::node::Node;

/// Returns the devices in an annotation, each with its memory in MiB if it is known.
pub(super) fn devices(node: &Node, annotation: &str) -> Vec<Option<f64>> {
    let Some(text) = node.annotations.get(annotation) else {
        return Vec::new();
    };
    match serde_json::from_str::<Vec<serde_json::Value>>(text) {
        Ok(devices) => devices
            .iter()
            .map(|device| device["devmem"].as_f64())
            .collect(),
        // Before 2.5, HAMi wrote each device as `UUID,count,MiB,cores,type,numa,health:`, as
        // Volcano does without the cores.
        Err(_) => text
            .split(':')
            .filter_map(|device| Some(device.split(',').nth(2)?.parse().ok()))
            .collect(),
    }
}

/// Returns the memory in MiB of each device in an annotation, if all are equal.
pub(super) fn memory(node: &Node, annotation: &str) -> Option<f64> {
    let sizes: Vec<f64> = devices(node, annotation).into_iter().flatten().collect();
    let first = *sizes.first()?;
    sizes
        .iter()
        .all(|size| (size - first).abs() < 1.0)
        .then_some(first)
}
