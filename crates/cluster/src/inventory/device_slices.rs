//! Reads `ResourceSlice` objects, the lists of devices that drivers of dynamic resource allocation
//! publish.

use std::collections::BTreeMap;

use serde_json::Value;

/// A device's driver, pool and name.
pub(super) type DeviceKey = (String, String, String);

/// Reads the string at a JSON pointer, or returns an empty string if there is none.
pub(super) fn text(value: &Value, pointer: &str) -> String {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// Returns the driver and the pool name of a slice.
pub(super) fn pool(slice: &Value) -> (String, String) {
    (text(slice, "/spec/driver"), text(slice, "/spec/pool/name"))
}

pub(super) fn generation(slice: &Value) -> i64 {
    slice
        .pointer("/spec/pool/generation")
        .and_then(Value::as_i64)
        .unwrap_or(0)
}

/// Selects the slices of the newest generation of each pool. While a driver replaces the slices of
/// a pool, old and new ones exist at the same time.
pub(super) fn current(slices: &[Value]) -> Vec<&Value> {
    let mut newest: BTreeMap<(String, String), i64> = BTreeMap::new();
    for slice in slices {
        let latest = newest.entry(pool(slice)).or_insert(0);
        *latest = (*latest).max(generation(slice));
    }
    slices
        .iter()
        .filter(|slice| newest[&pool(slice)] == generation(slice))
        .collect()
}

pub(super) fn devices_of(slice: &Value) -> impl Iterator<Item = &Value> {
    slice
        .pointer("/spec/devices")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// Lists the devices allocated to a claim, except those with admin access, which does not reserve
/// devices.
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
