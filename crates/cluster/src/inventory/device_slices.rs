//! Reads the slices in which drivers of dynamic resource allocation offer devices.

use std::collections::BTreeMap;

use serde_json::Value;

/// A device by its driver, pool and name.
pub(super) type DeviceKey = (String, String, String);

/// Returns the text at a JSON pointer; empty where there is none.
pub(super) fn text(value: &Value, pointer: &str) -> String {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// Returns the driver and the pool of a slice.
pub(super) fn pool(slice: &Value) -> (String, String) {
    (text(slice, "/spec/driver"), text(slice, "/spec/pool/name"))
}

pub(super) fn generation(slice: &Value) -> i64 {
    slice
        .pointer("/spec/pool/generation")
        .and_then(Value::as_i64)
        .unwrap_or(0)
}

/// Returns the slices of the newest generation of their pool. A pool that is being replaced has old
/// slices and new ones at the same time.
pub(super) fn current(slices: &[Value]) -> Vec<&Value> {
    let mut newest: BTreeMap<(String, String), i64> = BTreeMap::new();
    for slice in slices {
        let known = newest.entry(pool(slice)).or_insert(0);
        *known = (*known).max(generation(slice));
    }
    slices
        .iter()
        .filter(|slice| newest[&pool(slice)] == generation(slice))
        .collect()
}

/// Returns the devices of a slice.
pub(super) fn devices_of(slice: &Value) -> impl Iterator<Item = &Value> {
    slice
        .pointer("/spec/devices")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// Returns the devices that a claim has. A claim of an administrator shares a device without taking
/// it.
pub(super) fn allocated(claim: &Value) -> impl Iterator<Item = DeviceKey> {
    claim
        .pointer("/status/allocation/devices/results")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|result| result["adminAccess"] != true)
        .map(|result| {
            (
                text(result, "/driver"),
                text(result, "/pool"),
                text(result, "/device"),
            )
        })
}
