//! Reads the device claims of a pod (dynamic resource allocation), and the extended resources that
//! device classes serve. Claims that cannot be compared with the devices of one node are reported
//! as not evaluated.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::{join, join_all};
use serde_json::Value;

use super::capacity::requests;
use super::device_slices::{supply, text};
use super::devices::{extended_resources, selectors};
use crate::{Failure, handles::DevicesApi};
use gpuctl_core::model::Node;
use gpuctl_core::model::counting::device_claims::{DeviceClaims, device_class};
use gpuctl_core::model::counting::device_demand::{
    ClaimDemand, DeviceConstraint, DeviceDemand, DeviceToleration, PodDevices, RequestDemand,
};
use gpuctl_core::model::values::units::MOST_PER_NODE;

/// Why claims are not evaluated for users without rights on device classes.
const CLASSES_UNREADABLE: &str = "device classes, which you are not allowed to read";

/// Device classes by name.
type DeviceClasses = BTreeMap<String, Value>;

impl DevicesApi<'_> {
    /// Compares the claims of a pod with the offered devices. `rendered` holds objects that do not
    /// exist yet, so claim templates are looked up there first. `nodes` are all nodes.
    pub async fn device_claims(
        self,
        namespace: &str,
        spec: &Value,
        rendered: &[&Value],
        nodes: &[Node],
    ) -> Result<DeviceClaims, Failure> {
        let claims = spec["resourceClaims"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let extended = servable_resources(spec, nodes);
        if claims.is_empty() && extended.is_empty() {
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
        // Without drivers, no class serves an extended resource.
        if claims.is_empty() && slices.items.is_empty() {
            return Ok(DeviceClaims::None);
        }
        let api = format!("/apis/resource.k8s.io/{}", slices.api);
        let mut pod = PodDevices::default();
        for claim in claims {
            match self.demand_of(claim, &api, namespace, rendered).await? {
                Ok(demand) => pod.claims.push(demand),
                Err(outcome) => return Ok(outcome),
            }
        }
        let (classes, rules) = join(
            self.classes(&api, &pod, !extended.is_empty()),
            self.taint_rules(),
        )
        .await;
        let classes = match classes? {
            Ok(classes) => classes,
            Err(outcome) => return Ok(outcome),
        };
        add_classes(&mut pod, &classes, extended);
        let Some(rules) = rules? else {
            return Ok(not_evaluated(
                "device taints, which you are not allowed to list",
            ));
        };
        let supply = supply(&slices.items, &existing_claims.items, &rules);
        let has_plugin = |node: &str, resource: &str| {
            let node = nodes.iter().find(|other| other.name == node);
            node.is_some_and(|node| node.allocatable(resource) > 0)
        };
        Ok(DeviceClaims::compared(&pod, &supply, has_plugin))
    }

    /// Reads the devices that one claim requests. Returns the outcome if they cannot be counted.
    async fn demand_of(
        self,
        claim: &Value,
        api: &str,
        namespace: &str,
        rendered: &[&Value],
    ) -> Result<Result<ClaimDemand, DeviceClaims>, Failure> {
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

    /// Reads the classes of a pod's claims, or `all` classes. Returns the outcome if a class is
    /// missing or cannot be read.
    async fn classes(
        self,
        api: &str,
        pod: &PodDevices,
        all: bool,
    ) -> Result<Result<DeviceClasses, DeviceClaims>, Failure> {
        let names: BTreeSet<&str> = demands(pod).map(|demand| demand.class.as_str()).collect();
        let mut classes = DeviceClasses::new();
        if all {
            let Some(listed) = self.optional("deviceclasses").await? else {
                return Ok(Err(not_evaluated(CLASSES_UNREADABLE)));
            };
            let named = listed.items.into_iter();
            classes.extend(named.map(|class| (text(&class, "/metadata/name"), class)));
        } else {
            let collection = format!("{api}/deviceclasses");
            let reads = names
                .iter()
                .map(|name| self.0.find_in::<Value>(&collection, name));
            for (name, class) in names.iter().zip(join_all(reads).await) {
                match class {
                    Ok(class) => classes.extend(class.map(|class| ((*name).to_owned(), class))),
                    Err(failure) if failure.is_forbidden() => {
                        return Ok(Err(not_evaluated(CLASSES_UNREADABLE)));
                    }
                    Err(failure) => return Err(failure),
                }
            }
        }
        let missing = names.iter().find(|name| !classes.contains_key(**name));
        Ok(match missing {
            Some(name) => Err(DeviceClaims::ClassMissing((*name).to_owned())),
            None => Ok(classes),
        })
    }
}

fn not_evaluated(reason: &str) -> DeviceClaims {
    DeviceClaims::NotEvaluated(reason.to_owned())
}

fn demands(pod: &PodDevices) -> impl Iterator<Item = &DeviceDemand> {
    let requests = pod.claims.iter().flat_map(|claim| &claim.requests);
    requests.flat_map(|request| &request.alternatives)
}

/// Returns the extended resources that a pod requests and that DRA may serve, with their amounts:
/// those that no node offers, or that a node without them may serve.
fn servable_resources(spec: &Value, nodes: &[Node]) -> BTreeMap<String, u64> {
    let requests = requests(&serde_json::json!({"spec": spec}));
    let is_servable = |resource: &str| {
        let is_missing = nodes.iter().all(|node| node.allocatable(resource) == 0);
        resource.contains('/')
            && (is_missing || nodes.iter().any(|node| node.served_by_claims(resource) > 0))
    };
    requests
        .into_iter()
        .filter(|(resource, _)| is_servable(resource))
        .filter_map(|(resource, milli)| Some((resource, u64::try_from(milli / 1000).ok()?)))
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// Adds the selectors of each class to its demands, and a demand for each extended resource that a
/// class serves.
fn add_classes(pod: &mut PodDevices, classes: &DeviceClasses, extended: BTreeMap<String, u64>) {
    let requests = pod.claims.iter_mut().flat_map(|claim| &mut claim.requests);
    for demand in requests.flat_map(|request| &mut request.alternatives) {
        // The scheduler evaluates the selectors of the class first. A device that fails them never
        // reaches the claim's selectors, which gpuctl may not be able to evaluate.
        let of_class = classes
            .get(&demand.class)
            .map(|class| selectors(&class["spec"]));
        demand.selectors.splice(0..0, of_class.unwrap_or_default());
    }
    let all: Vec<Value> = classes.values().cloned().collect();
    let serving = extended_resources(&all);
    for (resource, count) in extended {
        let implicit = device_class(&resource).and_then(|name| classes.get(name));
        if let Some(class) = serving.get(&resource).copied().or(implicit) {
            let demand = DeviceDemand {
                class: text(class, "/metadata/name"),
                count: count.min(MOST_PER_NODE + 1),
                selectors: selectors(&class["spec"]),
                ..DeviceDemand::default()
            };
            pod.extended.insert(resource, demand);
        }
    }
}

/// Reads the devices that a claim requests, or explains why they cannot be compared.
fn requested(devices: &Value) -> Result<ClaimDemand, &'static str> {
    let mut claim = ClaimDemand::default();
    for request in devices["requests"].as_array().into_iter().flatten() {
        let alternatives: Result<Vec<DeviceDemand>, &'static str> =
            match request["firstAvailable"].as_array() {
                Some(alternatives) => alternatives
                    .iter()
                    .map(|details| {
                        let name = text(details, "/name");
                        Ok(DeviceDemand {
                            name,
                            ..demand(details)?
                        })
                    })
                    .collect(),
                // `v1beta1` has no `exactly` level. Its fields are directly in the request.
                None if request["exactly"].is_object() => {
                    demand(&request["exactly"]).map(|demand| vec![demand])
                }
                None => demand(request).map(|demand| vec![demand]),
            };
        claim.requests.push(RequestDemand {
            name: text(request, "/name"),
            alternatives: alternatives?,
        });
    }
    for constraint in devices["constraints"].as_array().into_iter().flatten() {
        claim.constraints.push(device_constraint(constraint)?);
    }
    Ok(claim)
}

fn device_constraint(constraint: &Value) -> Result<DeviceConstraint, &'static str> {
    let (equal, distinct) = (
        constraint["matchAttribute"].as_str(),
        constraint["distinctAttribute"].as_str(),
    );
    let attribute = equal.or(distinct).ok_or("constraints between devices")?;
    let requests = constraint["requests"].as_array().into_iter().flatten();
    Ok(DeviceConstraint {
        requests: requests
            .filter_map(|name| name.as_str().map(ToOwned::to_owned))
            .collect(),
        attribute: attribute.to_owned(),
        is_distinct: equal.is_none(),
    })
}

fn demand(details: &Value) -> Result<DeviceDemand, &'static str> {
    let Some(class) = details["deviceClassName"].as_str() else {
        return Err("device requests of an unknown kind");
    };
    if details["capacity"].is_object() {
        return Err("claims for part of a device");
    }
    let all = match details["allocationMode"].as_str() {
        None | Some("ExactCount") => false,
        Some("All") => true,
        Some(_) => return Err("device requests of an unknown kind"),
    };
    let tolerations = details["tolerations"].as_array().into_iter().flatten();
    let toleration = |toleration: &Value| {
        let text = |field: &str| toleration[field].as_str().unwrap_or_default().to_owned();
        // `Exists` tolerates every value; the default operator is `Equal`.
        let value = (toleration["operator"] != "Exists").then(|| text("value"));
        DeviceToleration {
            key: text("key"),
            value,
            effect: text("effect"),
        }
    };
    Ok(DeviceDemand {
        name: String::new(),
        class: class.to_owned(),
        // No node has this many devices, so the exact number does not matter.
        count: details["count"]
            .as_u64()
            .unwrap_or(1)
            .min(MOST_PER_NODE + 1),
        all,
        is_admin: details["adminAccess"] == true,
        selectors: selectors(details),
        tolerations: tolerations.map(toleration).collect(),
    })
}

#[cfg(test)]
mod tests {
    use gpuctl_core::model::ClaimableDevices;
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_of_claims_are_read_from_all_versions() {
        let cel = json!([{"cel": {"expression": "true"}}]);
        let claim = requested(&json!({
            "requests": [
                {"name": "a", "exactly": {"deviceClassName": "gpu", "count": 2, "selectors": cel}},
                {"name": "b", "deviceClassName": "gpu", "allocationMode": "All",
                    "adminAccess": true},
                {"name": "c", "firstAvailable": [
                    {"name": "big", "deviceClassName": "gpu"},
                    {"name": "small", "deviceClassName": "mig", "count": 3}]},
            ],
            "constraints": [
                {"matchAttribute": "gpu.nvidia.com/parentUUID", "requests": ["a", "c"]},
                {"distinctAttribute": "gpu.nvidia.com/index"}],
        }))
        .unwrap();
        let read = |demand: &DeviceDemand| {
            (
                demand.name.clone(),
                demand.count,
                demand.all,
                demand.is_admin,
            )
        };
        let demands: Vec<Vec<_>> = claim
            .requests
            .iter()
            .map(|request| request.alternatives.iter().map(read).collect())
            .collect();
        assert_eq!(
            demands,
            [
                vec![(String::new(), 2, false, false)],
                vec![(String::new(), 1, true, true)],
                vec![
                    ("big".to_owned(), 1, false, false),
                    ("small".to_owned(), 3, false, false)
                ],
            ]
        );
        let constraints: Vec<(usize, bool)> = claim
            .constraints
            .iter()
            .map(|constraint| (constraint.requests.len(), constraint.is_distinct))
            .collect();
        assert_eq!(constraints, [(2, false), (0, true)]);
        let part = json!({"requests": [{"name": "a", "exactly": {"deviceClassName": "gpu",
            "capacity": {"requests": {"memory": "10Gi"}}}}]});
        assert_eq!(requested(&part), Err("claims for part of a device"));
    }

    #[test]
    fn extended_resources_are_servable_where_no_device_plugin_offers_them() {
        let node = |name: &str, gpus: u64| Node {
            name: name.to_owned(),
            allocatable: [("nvidia.com/gpu".to_owned(), gpus.to_string())].into(),
            ..Node::default()
        };
        let limits = json!({"nvidia.com/gpu": "2", "example.com/thing": "1", "cpu": "1"});
        let spec = json!({"containers": [{"name": "a", "resources": {"limits": limits}}]});
        let names = |nodes: &[Node]| -> Vec<String> {
            servable_resources(&spec, nodes).into_keys().collect()
        };
        assert_eq!(names(&[node("a", 8)]), ["example.com/thing"]);
        assert_eq!(
            names(&[node("a", 0)]),
            ["example.com/thing", "nvidia.com/gpu"]
        );
        let mut claimable = node("b", 0);
        claimable.claimable = vec![ClaimableDevices {
            count: 4,
            extended: vec!["nvidia.com/gpu".to_owned()],
            ..ClaimableDevices::default()
        }];
        assert_eq!(
            names(&[node("a", 8), claimable]),
            ["example.com/thing", "nvidia.com/gpu"]
        );
    }
}
