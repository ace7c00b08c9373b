//! Claims GPUs on nodes whose driver offers them only through dynamic resource allocation: builds a
//! ResourceClaimTemplate and the references in the pod. Fields follow resource.k8s.io v1, or
//! v1beta1 if the cluster serves nothing newer.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PodResourceClaim, ResourceClaim};
use serde_json::{Value, json};

use super::labels::metadata;
use super::{Object, Target};
use crate::spec::{JobDocument, JobResources};
use gpuctl_core::model::contract::labels::CLAIMED_GPUS;
use gpuctl_core::model::values::fingerprint::fnv;
use gpuctl_core::model::{GpuType, Node};

/// Devices that each pod of a job claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceClaim {
    /// The DeviceClass, which is named after the driver.
    pub class: String,
    /// Devices per pod.
    pub count: u32,
    /// Acceptable products, as the driver names them; empty accepts any product.
    pub products: Vec<String>,
    /// The API version, such as `v1`.
    pub api: String,
}

/// Builds a claim for nodes without a device plugin, and lists those nodes. If there are several
/// drivers, chooses the one with the most nodes.
pub(super) fn claim_from_nodes<'n>(
    requested: &JobResources,
    nodes: &[&'n Node],
) -> Option<(DeviceClaim, Vec<&'n Node>)> {
    let fits = |product: Option<&str>| match &requested.gpu_type {
        None => true,
        Some(kind) => product
            .and_then(GpuType::parse)
            .is_some_and(|offered| offered.matches(&kind.value.kind)),
    };
    let mut drivers: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
    let (mut products, mut api) = (BTreeMap::<&str, BTreeSet<&str>>::new(), "");
    for node in nodes {
        for devices in node
            .claimable
            .iter()
            .filter(|devices| fits(devices.product.as_deref()))
        {
            let serving = drivers.entry(&devices.driver).or_default();
            if !serving.iter().any(|other| other.name == node.name) {
                serving.push(node);
            }
            products
                .entry(&devices.driver)
                .or_default()
                .extend(devices.product.as_deref());
            api = &devices.api;
        }
    }
    let (driver, serving) = drivers
        .into_iter()
        .max_by_key(|(_, serving)| serving.len())?;
    let products = products
        .remove(driver)
        .filter(|_| requested.gpu_type.is_some())
        .unwrap_or_default();
    let claim = DeviceClaim {
        class: driver.to_owned(),
        count: requested.gpu,
        products: products.into_iter().map(ToOwned::to_owned).collect(),
        api: api.to_owned(),
    };
    Some((claim, serving))
}

impl DeviceClaim {
    /// Derives the template's name from its contents. Templates are immutable, so a changed claim
    /// needs a new one.
    fn template_name(&self, job: &JobDocument) -> String {
        let description = self
            .products
            .iter()
            .fold(self.class.clone(), |description, product| {
                format!("{description}/{product}")
            });
        format!(
            "{}-{}-gpus-{:04x}",
            job.id(),
            self.count,
            fnv(&description) & 0xffff
        )
    }

    /// Builds the template. Kubernetes creates one claim per pod from it.
    pub(super) fn template(
        &self,
        job: &JobDocument,
        target: &Target,
        labels: &BTreeMap<String, String>,
    ) -> Object {
        let mut exact = json!({"deviceClassName": self.class, "allocationMode": "ExactCount", "count": self.count});
        if !self.products.is_empty() {
            let names: Vec<String> = self
                .products
                .iter()
                .map(|name| Value::from(name.as_str()).to_string())
                .collect();
            let expression = format!(
                "device.attributes[\"{}\"].productName in [{}]",
                self.class,
                names.join(", ")
            );
            exact["selectors"] = json!([{"cel": {"expression": expression}}]);
        }
        // In v1beta1, the request itself has the fields that v1 moved to `exactly`.
        let request = if self.api == "v1beta1" {
            exact["name"] = "gpus".into();
            exact
        } else {
            json!({"name": "gpus", "exactly": exact})
        };
        let metadata = metadata(job, target, &self.template_name(job), labels);
        let body = json!({
            "apiVersion": format!("resource.k8s.io/{}", self.api), "kind": "ResourceClaimTemplate", "metadata": metadata,
            "spec": {"spec": {"devices": {"requests": [request]}}},
        });
        Object {
            body,
            plural: "resourceclaimtemplates",
            shared: false,
            kept: false,
        }
    }

    fn name(&self) -> String {
        format!("{CLAIMED_GPUS}{}", self.count)
    }

    /// Builds the pod's reference to the template.
    pub(super) fn pod_claim(&self, job: &JobDocument) -> PodResourceClaim {
        let template = Some(self.template_name(job));
        PodResourceClaim {
            name: self.name(),
            resource_claim_name: None,
            resource_claim_template_name: template,
        }
    }

    /// Builds the container's reference to the claim.
    pub(super) fn container_claim(&self) -> ResourceClaim {
        ResourceClaim {
            name: self.name(),
            request: None,
        }
    }
}
