//! Reads what a pod claims of dynamic resource allocation, and which devices drivers offer to it.
//! What of a claim decides more than a count of devices on one node is told as «not evaluated».

use std::collections::{BTreeMap, BTreeSet, HashSet};

use futures::future::{join, join_all};
use serde_json::Value;

use super::devices::Claimed;
use crate::{Connection, Failure};
use gpuctl_core::model::Taint;
use gpuctl_core::model::counting::device_demand::{
    DeviceClaims, DeviceDemand, DeviceToleration, OfferedDevice,
};
use gpuctl_core::model::values::units::MOST_PER_NODE;

/// Versions that serve taints of devices which an administrator sets.
const TAINT_RULES: [&str; 3] = ["v1", "v1beta2", "v1alpha3"];

impl Connection {
    /// Compares what a pod claims with what is offered. `own` are objects that are not created yet:
    /// templates of claims are looked for there first.
    pub async fn device_claims(
        &self,
        namespace: &str,
        spec: &Value,
        own: &[&Value],
    ) -> Result<DeviceClaims, Failure> {
        let claims = spec["resourceClaims"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        if claims.is_empty() {
            return Ok(DeviceClaims::None);
        }
        let not_evaluated = |why: &str| Ok(DeviceClaims::NotEvaluated(why.to_owned()));
        let (slices, held) = join(
            self.optional("resourceslices"),
            self.optional("resourceclaims"),
        )
        .await;
        let (Some(slices), Some(held)) = (slices?, held?) else {
            return not_evaluated("device claims: you may not list devices and claims");
        };
        let api = format!("/apis/resource.k8s.io/{}", slices.api);
        let mut demands = Vec::new();
        for claim in claims {
            let Some(name) = claim["resourceClaimTemplateName"].as_str() else {
                return not_evaluated("claims of devices that pods share");
            };
            let is_own = |object: &&&Value| {
                object["kind"] == "ResourceClaimTemplate" && object["metadata"]["name"] == name
            };
            let template = match own.iter().find(is_own) {
                Some(template) => (*template).clone(),
                None => match self
                    .find_in(
                        &format!("{api}/namespaces/{namespace}/resourceclaimtemplates"),
                        name,
                    )
                    .await
                {
                    Ok(Some(template)) => template,
                    Ok(None) => return Ok(DeviceClaims::TemplateMissing(name.to_owned())),
                    Err(failure) if failure.is_forbidden() => {
                        return not_evaluated("claims whose template you may not read");
                    }
                    Err(failure) => return Err(failure),
                },
            };
            match requested(&template["spec"]["spec"]["devices"]) {
                Ok(requests) => demands.extend(requests),
                Err(why) => return not_evaluated(why),
            }
        }
        let names: BTreeSet<String> = demands.iter().map(|demand| demand.class.clone()).collect();
        let read = names.into_iter().map(|name| async {
            let class = self
                .find_in::<Value>(&format!("{api}/deviceclasses"), &name)
                .await;
            (name, class)
        });
        let (classes, rules) = join(join_all(read), self.taint_rules()).await;
        for (name, class) in classes {
            let class = match class {
                Ok(Some(class)) => class,
                Ok(None) => return Ok(DeviceClaims::ClassMissing(name)),
                Err(failure) if failure.is_forbidden() => {
                    return not_evaluated("classes of devices, which you may not read");
                }
                Err(failure) => return Err(failure),
            };
            // The scheduler asks the class first: what it rules out, no selector of the claim has
            // to understand.
            let of_class = selectors(&class["spec"]);
            for demand in demands.iter_mut().filter(|demand| demand.class == name) {
                demand.selectors.splice(0..0, of_class.iter().cloned());
            }
        }
        let Some(rules) = rules? else {
            return not_evaluated("taints of devices, which you may not list");
        };
        Ok(DeviceClaims::compared(
            demands,
            &offered(&slices, &held, &rules),
        ))
    }

    /// Returns the rules that taint devices; `None` where they may not be listed.
    async fn taint_rules(&self) -> Result<Option<Vec<Value>>, Failure> {
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

/// Returns what the requests of a claim ask for, or what of it is not a count of devices.
fn requested(devices: &Value) -> Result<Vec<DeviceDemand>, &'static str> {
    let mut demands = Vec::new();
    for request in devices["requests"].as_array().into_iter().flatten() {
        // The first beta version has no level of its own for it.
        let exactly = if request["exactly"].is_object() {
            &request["exactly"]
        } else {
            request
        };
        let Some(class) = exactly["deviceClassName"].as_str() else {
            return Err("alternatives among devices");
        };
        if exactly["allocationMode"] == "All"
            || exactly["adminAccess"] == true
            || exactly["capacity"].is_object()
        {
            return Err("claims of all devices, of an administrator, or of a part of a device");
        }
        let tolerations = exactly["tolerations"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| {
                let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
                let value = (one["operator"] != "Exists").then(|| text("value"));
                DeviceToleration {
                    key: text("key"),
                    value,
                    effect: text("effect"),
                }
            });
        demands.push(DeviceDemand {
            class: class.to_owned(),
            // No node has this many devices, so the exact number does not matter.
            count: exactly["count"]
                .as_u64()
                .unwrap_or(1)
                .min(MOST_PER_NODE + 1),
            selectors: selectors(exactly),
            tolerations: tolerations.collect(),
        });
    }
    let constraints = devices["constraints"]
        .as_array()
        .is_some_and(|constraints| !constraints.is_empty());
    if constraints && demands.iter().map(|demand| demand.count).sum::<u64>() > 1 {
        return Err("constraints between devices");
    }
    Ok(demands)
}

fn selectors(of: &Value) -> Vec<String> {
    let selectors = of["selectors"].as_array().into_iter().flatten();
    // A selector without an expression of CEL is of a kind that is not known; it is kept and not
    // understood.
    selectors
        .map(|one| {
            one["cel"]["expression"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
        .collect()
}

/// Returns the devices of all slices that are current.
fn offered(slices: &Claimed, held: &Claimed, rules: &[Value]) -> Vec<OfferedDevice> {
    let text = |value: &Value, pointer: &str| {
        value
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let allocated = |claim: &Value| {
        let results = claim
            .pointer("/status/allocation/devices/results")
            .and_then(Value::as_array)
            .cloned();
        results
            .unwrap_or_default()
            .into_iter()
            .filter(|result| result["adminAccess"] != true)
    };
    let key = |result: Value| {
        (
            text(&result, "/driver"),
            text(&result, "/pool"),
            text(&result, "/device"),
        )
    };
    let taken: HashSet<(String, String, String)> =
        held.items.iter().flat_map(allocated).map(key).collect();
    let pool = |slice: &Value| (text(slice, "/spec/driver"), text(slice, "/spec/pool/name"));
    let generation = |slice: &Value| {
        slice
            .pointer("/spec/pool/generation")
            .and_then(Value::as_i64)
            .unwrap_or(0)
    };
    let mut newest: BTreeMap<(String, String), i64> = BTreeMap::new();
    for slice in &slices.items {
        let known = newest.entry(pool(slice)).or_insert(0);
        *known = (*known).max(generation(slice));
    }
    let is_whole = |slice: &Value| {
        let own = slices
            .items
            .iter()
            .filter(|other| pool(other) == pool(slice) && generation(other) == generation(slice))
            .count();
        slice
            .pointer("/spec/pool/resourceSliceCount")
            .and_then(Value::as_u64)
            .is_none_or(|count| own as u64 >= count)
    };
    let mut found = Vec::new();
    for slice in slices
        .items
        .iter()
        .filter(|slice| newest[&pool(slice)] == generation(slice))
    {
        let is_whole = is_whole(slice);
        let ((driver, pool), node) = (pool(slice), text(slice, "/spec/nodeName"));
        for device in slice
            .pointer("/spec/devices")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let basic = if device["basic"].is_object() {
                &device["basic"]
            } else {
                device
            };
            let name = text(device, "/name");
            let qualified = |(name, value): (&String, &Value)| {
                let name = if name.contains('/') {
                    name.clone()
                } else {
                    format!("{driver}/{name}")
                };
                Some((name, value["string"].as_str()?.to_owned()))
            };
            let set = rules
                .iter()
                .filter(|rule| applies(rule, &driver, &pool, &name))
                .map(|rule| &rule["spec"]["taint"]);
            let taints = basic["taints"]
                .as_array()
                .into_iter()
                .flatten()
                .chain(set)
                .map(|taint| Taint {
                    key: text(taint, "/key"),
                    value: taint["value"].as_str().map(ToOwned::to_owned),
                    effect: text(taint, "/effect"),
                });
            let shares =
                basic["consumesCounters"].is_array() || basic["allowMultipleAllocations"] == true;
            found.push(OfferedDevice {
                is_countable: !node.is_empty()
                    && is_whole
                    && !shares
                    && !rules.iter().any(is_beyond_names),
                node: node.clone(),
                attributes: basic["attributes"]
                    .as_object()
                    .into_iter()
                    .flatten()
                    .filter_map(qualified)
                    .collect(),
                taints: taints.collect(),
                is_held: taken.contains(&(driver.clone(), pool.clone(), name)),
                driver: driver.clone(),
            });
        }
    }
    found
}

/// Returns whether a rule taints this device.
fn applies(rule: &Value, driver: &str, pool: &str, device: &str) -> bool {
    let selector = &rule["spec"]["deviceSelector"];
    // Without a selector no device is meant.
    if !selector.is_object() {
        return false;
    }
    let same = |field: &str, value: &str| {
        selector[field]
            .as_str()
            .is_none_or(|wanted| wanted == value)
    };
    same("driver", driver) && same("pool", pool) && same("device", device)
}

/// Returns true for a rule that selects devices by more than their names, as early versions could.
fn is_beyond_names(rule: &Value) -> bool {
    let selector = &rule["spec"]["deviceSelector"];
    selector["deviceClassName"].is_string()
        || selector["selectors"]
            .as_array()
            .is_some_and(|selectors| !selectors.is_empty())
}
