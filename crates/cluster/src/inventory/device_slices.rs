//! Reads the devices and counters that drivers of dynamic resource allocation offer
//! (`ResourceSlice`), and the taints that administrators set (`DeviceTaintRule`).

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use gpuctl_core::model::Taint;
use gpuctl_core::model::counting::device_supply::{
    AttributeValue, CounterSets, CounterUse, DeviceKey, DeviceSupply, OfferedDevice,
};
use gpuctl_core::model::values::quantity;

/// Reads the string at a JSON pointer, or returns an empty string if there is none.
pub(super) fn text(value: &Value, pointer: &str) -> String {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// Returns the driver and the pool name of a slice.
fn pool(slice: &Value) -> (String, String) {
    (text(slice, "/spec/driver"), text(slice, "/spec/pool/name"))
}

fn generation(slice: &Value) -> i64 {
    slice
        .pointer("/spec/pool/generation")
        .and_then(Value::as_i64)
        .unwrap_or(0)
}

/// Selects the slices of the newest generation of each pool, in the scheduler's order. While a
/// driver replaces the slices of a pool, old and new ones exist at the same time.
fn current(slices: &[Value]) -> Vec<&Value> {
    let mut newest: BTreeMap<(String, String), i64> = BTreeMap::new();
    for slice in slices {
        let latest = newest.entry(pool(slice)).or_insert(0);
        *latest = (*latest).max(generation(slice));
    }
    let mut current: Vec<&Value> = slices
        .iter()
        .filter(|slice| newest[&pool(slice)] == generation(slice))
        .collect();
    current.sort_by_cached_key(|slice| (pool(slice), text(slice, "/metadata/name")));
    current
}

/// Lists the values of an array; empty if it is missing.
fn list<'v>(value: &'v Value, pointer: &str) -> impl Iterator<Item = &'v Value> + use<'v> {
    let values = value.pointer(pointer).and_then(Value::as_array);
    values.into_iter().flatten()
}

/// Lists the devices allocated to a claim, except those with admin access, which does not reserve
/// devices.
pub(super) fn allocated(claim: &Value) -> impl Iterator<Item = DeviceKey> {
    list(claim, "/status/allocation/devices/results")
        .filter(|result| result["adminAccess"] != true)
        .map(|result| DeviceKey {
            driver: text(result, "/driver"),
            pool: text(result, "/pool"),
            name: text(result, "/device"),
        })
}

/// Reads the devices of all current slices, and the counters of their pools. `claims` hold devices,
/// and `rules` taint them.
pub(super) fn supply(slices: &[Value], claims: &[Value], rules: &[Value]) -> DeviceSupply {
    let held: HashSet<DeviceKey> = claims.iter().flat_map(allocated).collect();
    let current = current(slices);
    let mut supply = DeviceSupply::default();
    for slice in &current {
        let sets = counter_sets(slice);
        supply.counters.entry(pool(slice)).or_default().extend(sets);
    }
    for slice in &current {
        let pool = pool(slice);
        let is_usable = is_complete(slice, &current);
        let counters = &supply.counters[&pool];
        for device in list(slice, "/spec/devices") {
            let key = DeviceKey {
                driver: pool.0.clone(),
                pool: pool.1.clone(),
                name: text(device, "/name"),
            };
            let mut offered = offered_device(device, key, rules);
            // A slice that several nodes can use has `nodeSelector` or `allNodes` instead, and a
            // slice with `perDeviceNodeSelection` names the node of each device.
            let node = Some(text(slice, "/spec/nodeName")).filter(|node| !node.is_empty());
            offered.node = node.unwrap_or_else(|| text(basic(device), "/nodeName"));
            // The scheduler does not use pools with wrong references to counters.
            let is_valid = offered.counters.iter().all(|used| {
                let set = counters.get(&used.set);
                set.is_some_and(|set| used.amounts.keys().all(|name| set.contains_key(name)))
            });
            offered.is_countable &= !offered.node.is_empty();
            offered.is_pool_usable = is_usable && is_valid;
            offered.is_held = held.contains(&offered.key);
            supply.devices.push(offered);
        }
    }
    supply
}

/// Whether all slices of the pool are listed. A driver publishes them one after the other, and
/// `resourceSliceCount` is their total number in this generation.
fn is_complete(slice: &Value, current: &[&Value]) -> bool {
    let published = current.iter().filter(|other| pool(other) == pool(slice));
    let expected = slice
        .pointer("/spec/pool/resourceSliceCount")
        .and_then(Value::as_u64);
    let published = published.count() as u64;
    expected.is_none_or(|expected| published >= expected)
}

/// Returns the fields of a device, which `v1beta1` nests in `basic`.
fn basic(device: &Value) -> &Value {
    if device["basic"].is_object() {
        &device["basic"]
    } else {
        device
    }
}

fn amounts(counters: &Value) -> BTreeMap<String, i128> {
    let counters = counters.as_object().into_iter().flatten();
    let amount = |counter: &Value| quantity::milli(counter["value"].as_str()?);
    counters
        .map(|(name, counter)| (name.clone(), amount(counter).unwrap_or(0)))
        .collect()
}

/// Reads the counters that devices of the slice's pool share.
fn counter_sets(slice: &Value) -> CounterSets {
    list(slice, "/spec/sharedCounters")
        .map(|set| (text(set, "/name"), amounts(&set["counters"])))
        .collect()
}

/// Describes a device without its node, and as if no claim held it.
fn offered_device(device: &Value, key: DeviceKey, rules: &[Value]) -> OfferedDevice {
    let fields = basic(device);
    // A name without a domain belongs to the driver's domain (`QualifiedName` in resource.k8s.io).
    let qualified = |name: &String| match name.contains('/') {
        true => name.clone(),
        false => format!("{}/{name}", key.driver),
    };
    let attributes = fields["attributes"].as_object().into_iter().flatten();
    let capacity = fields["capacity"].as_object().into_iter().flatten();
    // `v1beta1` and later versions wrap the quantity in an object.
    let amount = |value: &Value| text(value, "/value");
    let counters = list(fields, "/consumesCounters").map(|used| CounterUse {
        set: text(used, "/counterSet"),
        amounts: amounts(&used["counters"]),
    });
    let set_by_rules = rules
        .iter()
        .filter(|rule| applies(rule, &key))
        .map(|rule| &rule["spec"]["taint"]);
    let taints = list(fields, "/taints")
        .chain(set_by_rules)
        .map(|taint| Taint {
            key: text(taint, "/key"),
            value: taint["value"].as_str().map(ToOwned::to_owned),
            effect: text(taint, "/effect"),
        });
    OfferedDevice {
        // A device that several claims share has no number of free devices.
        is_countable: fields["allowMultipleAllocations"] != true
            && !rules.iter().any(is_beyond_names),
        node: String::new(),
        attributes: attributes
            .map(|(name, value)| (qualified(name), attribute(value)))
            .collect(),
        capacity: capacity
            .map(|(name, value)| (qualified(name), amount(value)))
            .collect(),
        counters: counters.collect(),
        taints: taints.collect(),
        is_held: false,
        is_pool_usable: true,
        key,
    }
}

fn attribute(value: &Value) -> AttributeValue {
    if let Some(text) = value["string"].as_str() {
        AttributeValue::Text(text.to_owned())
    } else if let Some(number) = value["int"].as_i64() {
        AttributeValue::Int(number)
    } else if let Some(flag) = value["bool"].as_bool() {
        AttributeValue::Bool(flag)
    } else if let Some(version) = value["version"].as_str() {
        AttributeValue::Version(version.to_owned())
    } else {
        AttributeValue::Other
    }
}

/// Whether a rule taints this device.
fn applies(rule: &Value, key: &DeviceKey) -> bool {
    let selector = &rule["spec"]["deviceSelector"];
    // A rule without a selector matches no device.
    if !selector.is_object() {
        return false;
    }
    let matches = |field: &str, value: &str| {
        selector[field]
            .as_str()
            .is_none_or(|expected| expected == value)
    };
    matches("driver", &key.driver) && matches("pool", &key.pool) && matches("device", &key.name)
}

/// Whether a rule selects devices by properties other than their names, which early API versions
/// allow.
fn is_beyond_names(rule: &Value) -> bool {
    let selector = &rule["spec"]["deviceSelector"];
    selector["deviceClassName"].is_string()
        || selector["selectors"]
            .as_array()
            .is_some_and(|selectors| !selectors.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn slices_are_read_from_all_versions_in_the_order_of_the_scheduler() {
        let slice = |name: &str, generation: u64, fields: Value| {
            let mut slice = json!({"metadata": {"name": name}, "spec": {"driver": "gpu.nvidia.com",
                "pool": {"name": "n", "generation": generation, "resourceSliceCount": 2}}});
            slice["spec"]
                .as_object_mut()
                .unwrap()
                .extend(fields.as_object().unwrap().clone());
            slice
        };
        let attributes = json!({"type": {"string": "gpu"}, "index": {"int": 1},
            "mig": {"bool": true}, "driver": {"version": "1.2.3"}});
        let counters = json!([{"counterSet": "board", "counters": {"memory": {"value": "80Gi"}}}]);
        let devices = json!({"nodeName": "n", "devices": [
            {"name": "a", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}},
                "consumesCounters": counters},
            {"name": "b", "basic": {"attributes": attributes, "consumesCounters": counters}},
            {"name": "c", "consumesCounters": [{"counterSet": "missing", "counters": {}}]},
        ]});
        let sets = json!({"nodeName": "n",
            "sharedCounters": [{"name": "board", "counters": {"memory": {"value": "80Gi"}}}]});
        let old = json!({"nodeName": "n", "devices": [{"name": "old"}]});
        let slices = [
            slice("2", 2, devices),
            slice("1", 2, sets),
            slice("0", 1, old),
        ];
        let rule = json!({"spec": {"deviceSelector": {"driver": "gpu.nvidia.com", "device": "b"},
            "taint": {"key": "example.com/broken", "effect": "NoExecute"}}});
        let claim = json!({"status": {"allocation": {"devices": {"results": [
            {"driver": "gpu.nvidia.com", "pool": "n", "device": "a"},
            {"driver": "gpu.nvidia.com", "pool": "n", "device": "b", "adminAccess": true}]}}}});
        let supply = supply(&slices, &[claim], &[rule]);
        let read = |device: &OfferedDevice| {
            let taint = device.repelling_taint().map(|taint| taint.key.clone());
            (device.is_held, device.is_pool_usable, taint)
        };
        let names = supply.devices.iter().map(|device| device.key.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["a", "b", "c"]);
        let taint = Some("example.com/broken".to_owned());
        assert_eq!(
            supply.devices.iter().map(read).collect::<Vec<_>>(),
            [
                (true, true, None),
                (false, true, taint),
                (false, false, None)
            ]
        );
        let (a, b) = (&supply.devices[0], &supply.devices[1]);
        assert_eq!((&a.attributes, &a.counters), (&b.attributes, &b.counters));
        assert_eq!(a.attributes["gpu.nvidia.com/index"], AttributeValue::Int(1));
        assert_eq!(a.capacity["gpu.nvidia.com/memory"], "80Gi");
        let pool = ("gpu.nvidia.com".to_owned(), "n".to_owned());
        assert_eq!(supply.counters[&pool]["board"]["memory"], (80 << 30) * 1000);
        // One of the two slices of the pool is missing.
        let partial = super::supply(&slices[..1], &[], &[]);
        assert!(partial.devices.iter().all(|device| !device.is_pool_usable));
    }
}
