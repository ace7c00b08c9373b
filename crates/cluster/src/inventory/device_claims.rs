//! Reads a pod's device claims (dynamic resource allocation) and the devices that drivers offer.
//! Claims that cannot be expressed as a number of devices on one node are reported as not
//! evaluated.

use std::collections::{BTreeSet, HashSet};

use futures::future::{join, join_all};
use serde_json::Value;

use super::device_slices::{DeviceKey, allocated, current, devices_of, generation, pool, text};
use super::devices::Claimed;
use crate::{Failure, handles::DevicesApi};
use gpuctl_core::model::Taint;
use gpuctl_core::model::counting::device_demand::{
    DeviceClaims, DeviceDemand, DeviceToleration, OfferedDevice,
};
use gpuctl_core::model::values::units::MOST_PER_NODE;

/// Versions of resource.k8s.io that may serve `DeviceTaintRule`, with which administrators taint
/// devices.
const TAINT_RULES: [&str; 3] = ["v1", "v1beta2", "v1alpha3"];

impl DevicesApi<'_> {
    /// Compares a pod's claims with the offered devices. Claim templates are looked up in
    /// `rendered` first, because they may not exist in the cluster yet.
    pub async fn device_claims(
        self,
        namespace: &str,
        spec: &Value,
        rendered: &[&Value],
    ) -> Result<DeviceClaims, Failure> {
        let claims = spec["resourceClaims"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        if claims.is_empty() {
            return Ok(DeviceClaims::None);
        }
        let (slices, existing_claims) = join(
            self.optional("resourceslices"),
            self.optional("resourceclaims"),
        )
        .await;
        let (Some(slices), Some(existing_claims)) = (slices?, existing_claims?) else {
            return Ok(not_evaluated(
                "device claims: you are not allowed to list device slices and claims",
            ));
        };
        let api = format!("/apis/resource.k8s.io/{}", slices.api);
        let mut demands = Vec::new();
        for claim in claims {
            match self.demands_of(claim, &api, namespace, rendered).await? {
                Ok(requests) => demands.extend(requests),
                Err(outcome) => return Ok(outcome),
            }
        }
        let names: BTreeSet<String> = demands.iter().map(|demand| demand.class.clone()).collect();
        let class_reads = names.into_iter().map(|name| async {
            let class = self
                .0
                .find_in::<Value>(&format!("{api}/deviceclasses"), &name)
                .await;
            (name, class)
        });
        let (classes, rules) = join(join_all(class_reads), self.taint_rules()).await;
        if let Some(outcome) = add_selectors(&mut demands, classes)? {
            return Ok(outcome);
        }
        let Some(rules) = rules? else {
            return Ok(not_evaluated(
                "device taints, which you are not allowed to list",
            ));
        };
        Ok(DeviceClaims::compared(
            demands,
            &offered(&slices, &existing_claims, &rules),
        ))
    }

    /// Reads the devices that one claim requests, or returns the final outcome if they cannot be
    /// counted.
    async fn demands_of(
        self,
        claim: &Value,
        api: &str,
        namespace: &str,
        rendered: &[&Value],
    ) -> Result<Result<Vec<DeviceDemand>, DeviceClaims>, Failure> {
        let Some(name) = claim["resourceClaimTemplateName"].as_str() else {
            return Ok(Err(not_evaluated("device claims shared by pods")));
        };
        let is_template = |object: &&&Value| {
            object["kind"] == "ResourceClaimTemplate" && object["metadata"]["name"] == name
        };
        let collection = format!("{api}/namespaces/{namespace}/resourceclaimtemplates");
        let template = match rendered.iter().find(is_template) {
            Some(template) => (*template).clone(),
            None => match self.0.find_in(&collection, name).await {
                Ok(Some(template)) => template,
                Ok(None) => return Ok(Err(DeviceClaims::TemplateMissing(name.to_owned()))),
                Err(failure) if failure.is_forbidden() => {
                    return Ok(Err(not_evaluated(
                        "device claims whose template you are not allowed to read",
                    )));
                }
                Err(failure) => return Err(failure),
            },
        };
        Ok(requested(&template["spec"]["spec"]["devices"]).map_err(not_evaluated))
    }

    /// Lists the rules that taint devices. Returns `None` if the user cannot list them.
    async fn taint_rules(self) -> Result<Option<Vec<Value>>, Failure> {
        for version in TAINT_RULES {
            match self
                .optional_of(&format!("/apis/resource.k8s.io/{version}/devicetaintrules"))
                .await
            {
                Err(failure) if failure.is_not_found() => {}
                other => return other,
            }
        }
        Ok(Some(Vec::new()))
    }
}

fn not_evaluated(reason: &str) -> DeviceClaims {
    DeviceClaims::NotEvaluated(reason.to_owned())
}

/// Adds the selectors of each device class to its demands. Returns the outcome if a class is
/// missing or cannot be read.
fn add_selectors(
    demands: &mut [DeviceDemand],
    classes: Vec<(String, Result<Option<Value>, Failure>)>,
) -> Result<Option<DeviceClaims>, Failure> {
    for (name, class) in classes {
        let class = match class {
            Ok(Some(class)) => class,
            Ok(None) => return Ok(Some(DeviceClaims::ClassMissing(name))),
            Err(failure) if failure.is_forbidden() => {
                return Ok(Some(not_evaluated(
                    "device classes, which you are not allowed to read",
                )));
            }
            Err(failure) => return Err(failure),
        };
        // The scheduler evaluates the selectors of the class first. A device that fails them never
        // reaches the claim's selectors, which gpuctl may not be able to evaluate.
        let class_selectors = selectors(&class["spec"]);
        for demand in demands.iter_mut().filter(|demand| demand.class == name) {
            demand
                .selectors
                .splice(0..0, class_selectors.iter().cloned());
        }
    }
    Ok(None)
}

/// Reads the device counts that a claim requests, or returns why the claim cannot be counted.
fn requested(devices: &Value) -> Result<Vec<DeviceDemand>, &'static str> {
    let mut demands = Vec::new();
    for request in devices["requests"].as_array().into_iter().flatten() {
        // `v1beta1` has no `exactly` level; its fields are directly in the request.
        let details = if request["exactly"].is_object() {
            &request["exactly"]
        } else {
            request
        };
        let Some(class) = details["deviceClassName"].as_str() else {
            return Err("lists of alternative devices");
        };
        if details["allocationMode"] == "All"
            || details["adminAccess"] == true
            || details["capacity"].is_object()
        {
            return Err("claims for all devices, with admin access, or for part of a device");
        }
        let tolerations =
            details["tolerations"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|toleration| {
                    let text =
                        |field: &str| toleration[field].as_str().unwrap_or_default().to_owned();
                    // `Exists` tolerates every value; the default operator is `Equal`.
                    let value = (toleration["operator"] != "Exists").then(|| text("value"));
                    DeviceToleration {
                        key: text("key"),
                        value,
                        effect: text("effect"),
                    }
                });
        demands.push(DeviceDemand {
            class: class.to_owned(),
            // Clamp absurd counts: no node has this many devices, so the exact number does not
            // matter.
            count: details["count"]
                .as_u64()
                .unwrap_or(1)
                .min(MOST_PER_NODE + 1),
            selectors: selectors(details),
            tolerations: tolerations.collect(),
        });
    }
    // A constraint compares the devices of a claim with each other, so it never rules out a device
    // on its own.
    let constraints = devices["constraints"]
        .as_array()
        .is_some_and(|constraints| !constraints.is_empty());
    if constraints && demands.iter().map(|demand| demand.count).sum::<u64>() > 1 {
        return Err("constraints between devices");
    }
    Ok(demands)
}

fn selectors(owner: &Value) -> Vec<String> {
    let selectors = owner["selectors"].as_array().into_iter().flatten();
    // Map a selector without a CEL expression, whose form is unknown, to the empty expression. It
    // then counts as a selector that cannot be evaluated.
    selectors
        .map(|selector| {
            selector["cel"]["expression"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
        .collect()
}

/// Lists the devices of all current slices.
fn offered(slices: &Claimed, claims: &Claimed, rules: &[Value]) -> Vec<OfferedDevice> {
    let allocated_keys: HashSet<DeviceKey> = claims.items.iter().flat_map(allocated).collect();
    let mut devices = Vec::new();
    for slice in current(&slices.items) {
        let is_complete = is_complete(slice, &slices.items);
        let (driver, pool) = pool(slice);
        for device in devices_of(slice) {
            let key = (driver.clone(), pool.clone(), text(device, "/name"));
            let mut offered = offered_device(device, &key, rules);
            // A slice whose devices several nodes can use has `nodeSelector` or `allNodes` instead
            // of `nodeName`.
            offered.node = text(slice, "/spec/nodeName");
            offered.is_countable &= !offered.node.is_empty() && is_complete;
            offered.is_held = allocated_keys.contains(&key);
            devices.push(offered);
        }
    }
    devices
}

/// Returns true if all slices of the pool's current generation are listed.
fn is_complete(slice: &Value, slices: &[Value]) -> bool {
    // A driver publishes the slices of a pool one after the other. `resourceSliceCount` is the
    // total number in the generation (`ResourcePool`).
    let published = slices
        .iter()
        .filter(|other| pool(other) == pool(slice) && generation(other) == generation(slice))
        .count();
    slice
        .pointer("/spec/pool/resourceSliceCount")
        .and_then(Value::as_u64)
        .is_none_or(|count| published as u64 >= count)
}

/// Converts a device. The caller sets the node and whether a claim holds the device.
fn offered_device(device: &Value, key: &DeviceKey, rules: &[Value]) -> OfferedDevice {
    let (driver, pool, name) = key;
    // `v1beta1` nests the fields in `basic`.
    let basic = if device["basic"].is_object() {
        &device["basic"]
    } else {
        device
    };
    // An attribute without a domain belongs to the driver's domain (`QualifiedName` in
    // resource.k8s.io).
    let qualified = |(name, value): (&String, &Value)| {
        let name = if name.contains('/') {
            name.clone()
        } else {
            format!("{driver}/{name}")
        };
        Some((name, value["string"].as_str()?.to_owned()))
    };
    let set_by_rules = rules
        .iter()
        .filter(|rule| applies(rule, driver, pool, name))
        .map(|rule| &rule["spec"]["taint"]);
    let taints = basic["taints"]
        .as_array()
        .into_iter()
        .flatten()
        .chain(set_by_rules)
        .map(|taint| Taint {
            key: text(taint, "/key"),
            value: taint["value"].as_str().map(ToOwned::to_owned),
            effect: text(taint, "/effect"),
        });
    // Devices that share counters or allow several allocations cannot be counted as capacity.
    let is_shared =
        basic["consumesCounters"].is_array() || basic["allowMultipleAllocations"] == true;
    OfferedDevice {
        is_countable: !is_shared && !rules.iter().any(is_beyond_names),
        node: String::new(),
        attributes: basic["attributes"]
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(qualified)
            .collect(),
        taints: taints.collect(),
        is_held: false,
        driver: driver.clone(),
    }
}

/// Returns true if the rule taints this device.
fn applies(rule: &Value, driver: &str, pool: &str, device: &str) -> bool {
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
    matches("driver", driver) && matches("pool", pool) && matches("device", device)
}

/// Returns true if the rule selects devices by more than their names, as early API versions allow.
fn is_beyond_names(rule: &Value) -> bool {
    let selector = &rule["spec"]["deviceSelector"];
    selector["deviceClassName"].is_string()
        || selector["selectors"]
            .as_array()
            .is_some_and(|selectors| !selectors.is_empty())
}
