//! Reads the devices of dynamic resource allocation from the slices that drivers publish, and their
//! holders from claims.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use super::device_slices::{allocated, supply, text};
use crate::transport::decode::ListPage;
use crate::{Failure, handles::DevicesApi};
use gpuctl_core::model::counting::device_boards::{DeviceHolders, listed_devices};
use gpuctl_core::model::counting::device_selector::DeviceSelectors;
use gpuctl_core::model::counting::device_supply::DeviceSupply;
use gpuctl_core::model::{ClaimableDevices, Device};

/// API versions that serve `DeviceTaintRule`, with which administrators taint devices.
const TAINT_RULES: [&str; 3] = ["v1", "v1beta2", "v1alpha3"];

/// Objects of one kind that belong to dynamic resource allocation.
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
    /// Lists the rules that taint devices; `None` if the user cannot list them.
    pub(super) async fn taint_rules(self) -> Result<Option<Vec<Value>>, Failure> {
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

    /// Whether the device class exists. Returns true if the class cannot be read.
    pub async fn has_device_class(self, api: &str, class: &str) -> bool {
        let collection = format!("/apis/resource.k8s.io/{api}/deviceclasses");
        let answer = self.0.find_in::<Value>(&collection, class).await;
        answer.map_or(true, |class| class.is_some())
    }
}

/// Counts, for each node, the whole devices that pods may claim. `classes` are the device classes,
/// which can also serve extended resources.
pub(crate) fn claimable(
    slices: &Claimed,
    classes: &[Value],
) -> HashMap<String, Vec<ClaimableDevices>> {
    let supply = supply(&slices.items, &[], &[]);
    let extended = served_resources(classes, &supply);
    let mut counts: BTreeMap<(String, String, Option<String>), u64> = BTreeMap::new();
    for device in listed_devices(&supply, None)
        .into_iter()
        .filter(|device| device.profile.is_none() && device.taint.is_none())
        .filter(|device| !device.is_passthrough)
    {
        *counts
            .entry((device.node, device.driver, device.product))
            .or_default() += 1;
    }
    let mut by_node: HashMap<String, Vec<ClaimableDevices>> = HashMap::new();
    for ((node, driver, product), count) in counts {
        let served = extended.get(&node).cloned().unwrap_or_default();
        by_node.entry(node).or_default().push(ClaimableDevices {
            driver,
            product,
            count,
            api: slices.api.to_owned(),
            extended: served.into_iter().collect(),
        });
    }
    by_node
}

/// Returns the extended resources that device classes serve on each node.
fn served_resources(classes: &[Value], supply: &DeviceSupply) -> HashMap<String, BTreeSet<String>> {
    let mut served: HashMap<String, BTreeSet<String>> = HashMap::new();
    for (resource, class) in extended_resources(classes) {
        let selectors = DeviceSelectors::compile(&selectors(&class["spec"]));
        let matching = supply
            .devices
            .iter()
            .filter(|device| selectors.select(device) == Some(true));
        for device in matching {
            let on_node = served.entry(device.node.clone()).or_default();
            on_node.insert(resource.clone());
        }
    }
    served
}

/// Maps each extended resource to the class that serves it. Of several classes, the scheduler
/// prefers the newest, and then the first by name.
pub(super) fn extended_resources(classes: &[Value]) -> BTreeMap<String, &Value> {
    let mut by_resource: BTreeMap<String, &Value> = BTreeMap::new();
    let age = |class: &Value| {
        let created = text(class, "/metadata/creationTimestamp");
        (created, std::cmp::Reverse(text(class, "/metadata/name")))
    };
    for class in classes {
        let Some(resource) = class["spec"]["extendedResourceName"].as_str() else {
            continue;
        };
        let newest = by_resource.entry(resource.to_owned()).or_insert(class);
        if age(class) > age(newest) {
            *newest = class;
        }
    }
    by_resource
}

/// Reads the CEL expressions of a device class or a request.
pub(super) fn selectors(owner: &Value) -> Vec<String> {
    let selectors = owner["selectors"].as_array().into_iter().flatten();
    // A selector without a CEL expression has an unknown form. The empty expression keeps it in the
    // list as one that cannot be evaluated.
    selectors
        .map(|selector| text(selector, "/cel/expression"))
        .collect()
}

/// Lists the boards and partitions in the slices of each node, with the claims that hold them.
pub(crate) fn devices(slices: &[Value], claims: Option<&[Value]>, rules: &[Value]) -> Vec<Device> {
    let supply = supply(slices, claims.unwrap_or_default(), rules);
    listed_devices(&supply, claims.map(holders).as_ref())
}

/// Maps each device to the pods that hold it, as (namespace, name).
fn holders(claims: &[Value]) -> DeviceHolders {
    let mut holders = DeviceHolders::new();
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
            let devices = devices(&[slice(device)], Some(&[]), &[]);
            assert_eq!(
                devices
                    .iter()
                    .map(|device| device.product.as_deref())
                    .collect::<Vec<_>>(),
                [Some("NVIDIA A100")]
            );
        }
    }

    #[test]
    fn the_newest_class_serves_an_extended_resource() {
        let class = |name: &str, created: &str, kind: &str| {
            let expression = format!("device.attributes['gpu.nvidia.com'].type == '{kind}'");
            let selectors = json!([{"cel": {"expression": expression}}]);
            json!({"metadata": {"name": name, "creationTimestamp": created},
                "spec": {"extendedResourceName": "nvidia.com/gpu", "selectors": selectors}})
        };
        let classes = [
            class("b", "2026-01-02T00:00:00Z", "gpu"),
            class("a", "2026-01-01T00:00:00Z", "mig"),
            class("c", "2026-01-02T00:00:00Z", "mig"),
        ];
        assert_eq!(
            extended_resources(&classes)["nvidia.com/gpu"]["metadata"]["name"],
            "b"
        );
        let device = json!({"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}});
        let slice = json!({"spec": {"driver": "gpu.nvidia.com", "nodeName": "n",
            "pool": {"name": "n", "generation": 1}, "devices": [device]}});
        let slices = Claimed {
            api: "v1",
            items: vec![slice],
        };
        let served = |classes: &[Value]| claimable(&slices, classes)["n"][0].extended.clone();
        assert_eq!(served(&classes), ["nvidia.com/gpu"]);
        assert!(served(&classes[1..]).is_empty());
    }
}
