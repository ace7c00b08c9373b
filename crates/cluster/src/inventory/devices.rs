//! Reads the devices of dynamic resource allocation from the slices that drivers publish, and their
//! holders from claims.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::device_slices::{DeviceKey, allocated, current, devices_of, pool, text};
use crate::transport::decode::ListPage;
use crate::{Failure, handles::DevicesApi};
use gpuctl_core::model::{ClaimableDevices, Device};

/// A list of `resource.k8s.io` objects.
#[derive(Default)]
pub(crate) struct Claimed {
    /// API version of the objects, or an empty string if the cluster serves none.
    pub api: &'static str,
    pub items: Vec<Value>,
}

impl DevicesApi<'_> {
    /// Lists `resource.k8s.io` objects. The list is empty if the API is not served, and `None` if
    /// the user cannot read the objects. Servers before Kubernetes 1.34 serve only beta versions.
    pub(crate) async fn optional(self, plural: &str) -> Result<Option<Claimed>, Failure> {
        for version in ["v1", "v1beta2", "v1beta1"] {
            match self
                .optional_of(&format!("/apis/resource.k8s.io/{version}/{plural}"))
                .await
            {
                Err(failure) if failure.is_not_found() => {}
                other => {
                    return Ok(other?.map(|items| Claimed {
                        api: version,
                        items,
                    }));
                }
            }
        }
        Ok(Some(Claimed::default()))
    }

    pub(crate) async fn optional_of(self, path: &str) -> Result<Option<Vec<Value>>, Failure> {
        let mut items = Vec::new();
        let result = self
            .0
            .list(path, &[], |page| {
                let page: ListPage<Value> = page.objects()?;
                items.extend(page.items);
                Ok(())
            })
            .await;
        match result {
            Ok(()) => Ok(Some(items)),
            Err(failure) if failure.is_forbidden() => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}

impl DevicesApi<'_> {
    /// Returns true if the device class exists or cannot be read.
    pub async fn has_device_class(self, api: &str, class: &str) -> bool {
        let collection = format!("/apis/resource.k8s.io/{api}/deviceclasses");
        let answer = self.0.find_in::<Value>(&collection, class).await;
        answer.map_or(true, |class| class.is_some())
    }
}

/// Counts, for each node, the whole devices that pods may claim.
pub(crate) fn claimable(slices: &Claimed) -> HashMap<String, Vec<ClaimableDevices>> {
    let mut counts: BTreeMap<(String, String, Option<String>), u64> = BTreeMap::new();
    for device in devices(&slices.items, None)
        .into_iter()
        .filter(|device| device.profile.is_none() && device.taint.is_none())
    {
        *counts
            .entry((device.node, device.driver, device.product))
            .or_default() += 1;
    }
    let mut by_node: HashMap<String, Vec<ClaimableDevices>> = HashMap::new();
    for ((node, driver, product), count) in counts {
        by_node.entry(node).or_default().push(ClaimableDevices {
            driver,
            product,
            count,
            api: slices.api.to_owned(),
        });
    }
    by_node
}

/// Lists the devices in the slices of each node, with the claims that hold them.
pub(crate) fn devices(slices: &[Value], claims: Option<&[Value]>) -> Vec<Device> {
    let holders_by_device = holders(claims.unwrap_or_default());
    let mut devices = Vec::new();
    for slice in current(slices) {
        let (driver, pool) = pool(slice);
        let node = text(slice, "/spec/nodeName");
        // Skip the devices of other drivers: only `gpu.nvidia.com` and `gpu.amd.com` publish GPUs.
        if !driver.starts_with("gpu.") || node.is_empty() {
            continue;
        }
        for device in devices_of(slice) {
            let attribute = |name: &str| attribute(device, &driver, name);
            let key = (driver.clone(), pool.clone(), text(device, "/name"));
            devices.push(Device {
                node: node.clone(),
                driver: driver.clone(),
                taint: repelling_taint(device),
                profile: attribute("profile")
                    .filter(|_| attribute("type").as_deref() == Some("mig")),
                product: attribute("productName"),
                held_by: holders_by_device.get(&key).cloned(),
                claims_readable: claims.is_some(),
            });
        }
    }
    devices
}

/// Maps each device to the (namespace, name) pairs of the pods that hold it.
fn holders(claims: &[Value]) -> HashMap<DeviceKey, Vec<(String, String)>> {
    let mut holders: HashMap<DeviceKey, Vec<(String, String)>> = HashMap::new();
    for claim in claims {
        let namespace = text(claim, "/metadata/namespace");
        let users = claim
            .pointer("/status/reservedFor")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let pods: Vec<(String, String)> = users
            .filter(|user| user["resource"] == "pods")
            .map(|user| (namespace.clone(), text(user, "/name")))
            .collect();
        for key in allocated(claim) {
            holders.entry(key).or_default().extend(pods.clone());
        }
    }
    holders
}

/// Reads an attribute of a device, whose key may be prefixed with the driver's name.
fn attribute(device: &Value, driver: &str, name: &str) -> Option<String> {
    // `v1beta1` nests the attributes in `basic`.
    let attributes = device["attributes"]
        .as_object()
        .or_else(|| device["basic"]["attributes"].as_object())?;
    let value = attributes
        .get(name)
        .or_else(|| attributes.get(&format!("{driver}/{name}")))?;
    value["string"].as_str().map(ToOwned::to_owned)
}

/// Returns the key of the first taint that keeps pods off the device.
fn repelling_taint(device: &Value) -> Option<String> {
    let taints = device["taints"]
        .as_array()
        .or_else(|| device["basic"]["taints"].as_array());
    taints
        .into_iter()
        .flatten()
        .find(|taint| taint["effect"] == "NoSchedule" || taint["effect"] == "NoExecute")
        .map(|taint| text(taint, "/key"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn devices_are_read_from_the_first_beta_version_too() {
        let attributes =
            json!({"type": {"string": "gpu"}, "productName": {"string": "NVIDIA A100"}});
        let slice = |device: Value| json!({"spec": {"driver": "gpu.nvidia.com", "nodeName": "n", "pool": {"name": "n", "generation": 1}, "devices": [device]}});
        for device in [
            json!({"name": "gpu-0", "attributes": attributes}),
            json!({"name": "gpu-0", "basic": {"attributes": attributes}}),
        ] {
            let devices = devices(&[slice(device)], Some(&[]));
            assert_eq!(
                devices
                    .iter()
                    .map(|device| device.product.as_deref())
                    .collect::<Vec<_>>(),
                [Some("NVIDIA A100")]
            );
        }
    }
}
