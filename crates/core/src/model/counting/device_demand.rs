//! Compares a pod's claims for dynamic resource allocation (DRA) with the devices that nodes offer.
//! Each claim becomes a request for a synthetic resource, so that it is handled like an extended
//! resource.
//!
//! CEL expressions select the devices. This module evaluates only comparisons of the driver and of
//! string attributes, joined by `&&`, and reports all others as not evaluated.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use super::candidates::ClusterCapacity;
use super::capacity::Amounts;
use crate::model::Taint;
use crate::model::facts::node::Node;

/// Prefix of the extended resources that represent device classes (Kubernetes, KEP-5004).
const CLASS_RESOURCE: &str = "deviceclass.resource.kubernetes.io/";

/// Returns the device class that an extended resource represents.
pub fn device_class(resource: &str) -> Option<&str> {
    resource.strip_prefix(CLASS_RESOURCE)
}

/// Number of devices of one class that each pod claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceDemand {
    pub class: String,
    pub count: u64,
    /// CEL expressions of the class and the request. A device must satisfy all of them.
    pub selectors: Vec<String>,
    pub tolerations: Vec<DeviceToleration>,
}

/// A toleration of device taints. Source: resource.k8s.io/v1 (DeviceToleration).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceToleration {
    /// Key of the tolerated taints; empty matches every key.
    pub key: String,
    /// Value of the tolerated taints; `None` matches every value (`operator: Exists`).
    pub value: Option<String>,
    /// Effect of the tolerated taints; empty matches every effect.
    pub effect: String,
}

/// A device that a driver publishes for a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfferedDevice {
    pub node: String,
    pub driver: String,
    /// String attributes by name, including the domain: `gpu.nvidia.com/type`.
    pub attributes: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    /// True if a claim holds the device.
    pub is_held: bool,
    /// False for a device that several nodes can reach or several claims can share, because
    /// counting cannot show whether it can serve another claim.
    pub is_countable: bool,
}

/// Number of devices of one class on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassCapacity {
    /// Devices that a new claim can get.
    pub free: u64,
    /// Free devices with a taint that is not tolerated, and the key of the first such taint.
    pub tainted: u64,
    pub taint: Option<String>,
    /// All devices, including held and tainted ones.
    pub all: u64,
}

/// Result of comparing a pod's claims with the offered devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceClaims {
    None,
    ClassMissing(String),
    /// The named ResourceClaimTemplate does not exist.
    TemplateMissing(String),
    /// The claims could not be compared, for this reason.
    NotEvaluated(String),
    /// Each demand, and the matching devices by node.
    Compared(Vec<(DeviceDemand, BTreeMap<String, ClassCapacity>)>),
}

impl DeviceClaims {
    /// Compares the demands of a pod with the offered devices.
    pub fn compared(demands: Vec<DeviceDemand>, devices: &[OfferedDevice]) -> Self {
        if demands.is_empty() {
            return Self::None;
        }
        let mut pairs: Vec<(DeviceDemand, BTreeMap<String, ClassCapacity>)> = Vec::new();
        for demand in demands {
            // Two demands for the same device compete for it, so counting each alone would be
            // wrong.
            let meets_both = |device: &OfferedDevice| {
                demand.is_met_by(device) && pairs.iter().any(|(other, _)| other.is_met_by(device))
            };
            if pairs.iter().any(|(other, _)| other.class == demand.class)
                || devices.iter().any(meets_both)
            {
                return Self::NotEvaluated(format!(
                    "several claims for the same devices (class {})",
                    demand.class
                ));
            }
            match demand.capacities(devices) {
                Some(capacities) => pairs.push((demand, capacities)),
                None => {
                    return Self::NotEvaluated(format!(
                        "devices of class {} (CEL expressions, or shared devices)",
                        demand.class
                    ));
                }
            }
        }
        Self::Compared(pairs)
    }

    /// Adds the claims to the pod's requests, and the matching devices to the nodes.
    pub fn add_to(
        &self,
        requests: &mut Amounts,
        nodes: &mut [Node],
        capacity: Option<&mut ClusterCapacity>,
    ) {
        let Self::Compared(claims) = self else { return };
        let mut free = capacity.map(|capacity| &mut capacity.free);
        for (demand, capacities) in claims {
            let resource = format!("{CLASS_RESOURCE}{}", demand.class);
            requests.insert(resource.clone(), i128::from(demand.count) * 1000);
            for node in &mut *nodes {
                let Some(offered) = capacities.get(&node.name) else {
                    continue;
                };
                // `allocatable` includes held devices, because it determines whether the pod could
                // ever fit. `free` determines whether the pod fits now.
                node.allocatable
                    .insert(resource.clone(), offered.all.to_string());
                if let Some(free) = free.as_mut().and_then(|free| free.get_mut(&node.name)) {
                    free.insert(resource.clone(), i128::from(offered.free) * 1000);
                }
            }
        }
    }

    /// Returns the devices of a class on a node, or `None` if claims were not compared.
    pub fn on_node(&self, class: &str, node: &str) -> Option<ClassCapacity> {
        let Self::Compared(claims) = self else {
            return None;
        };
        let (_, capacities) = claims.iter().find(|(demand, _)| demand.class == class)?;
        Some(capacities.get(node).cloned().unwrap_or_default())
    }
}

impl DeviceDemand {
    /// Returns true if a device satisfies all selectors, and false if it does not or a selector
    /// cannot be evaluated.
    fn is_met_by(&self, device: &OfferedDevice) -> bool {
        let terms: Option<Vec<Vec<Term>>> = self.selectors.iter().map(|text| terms(text)).collect();
        terms.is_some_and(|terms| meets(&terms.concat(), device) == Some(true))
    }

    /// Counts the matching devices by node. Returns `None` if a selector cannot be evaluated or a
    /// device is not countable.
    fn capacities(&self, devices: &[OfferedDevice]) -> Option<BTreeMap<String, ClassCapacity>> {
        let terms: Vec<Term> = self
            .selectors
            .iter()
            .map(|text| terms(text))
            .collect::<Option<Vec<_>>>()?
            .concat();
        let mut by_node: BTreeMap<String, ClassCapacity> = BTreeMap::new();
        for device in devices {
            if !meets(&terms, device)? {
                continue;
            }
            if !device.is_countable {
                return None;
            }
            let capacity = by_node.entry(device.node.clone()).or_default();
            capacity.all += 1;
            if device.is_held {
                continue;
            }
            match device.taints.iter().find(|taint| self.rejects(taint)) {
                None => capacity.free += 1,
                Some(taint) => {
                    capacity.tainted += 1;
                    capacity.taint.get_or_insert_with(|| taint.key.clone());
                }
            }
        }
        Some(by_node)
    }

    fn rejects(&self, taint: &Taint) -> bool {
        let tolerates = |toleration: &DeviceToleration| {
            (toleration.key.is_empty() || toleration.key == taint.key)
                && (toleration.effect.is_empty() || toleration.effect == taint.effect)
                && toleration
                    .value
                    .as_ref()
                    .is_none_or(|value| *value == taint.value.clone().unwrap_or_default())
        };
        // Other effects, such as `None`, do not prevent allocation.
        matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
            && !self.tolerations.iter().any(tolerates)
    }
}

/// One comparison of a CEL selector.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Term {
    Driver(String),
    /// The device's attribute, with its domain, has one of the values.
    Attribute(String, Vec<String>),
}

/// Returns true if a device satisfies all terms, or `None` if the scheduler would fail to evaluate
/// them.
fn meets(terms: &[Term], device: &OfferedDevice) -> Option<bool> {
    for term in terms {
        let holds = match term {
            Term::Driver(driver) => device.driver == *driver,
            // In CEL, a missing attribute is an error, and the scheduler then rejects the claim.
            Term::Attribute(name, values) => values.contains(device.attributes.get(name)?),
        };
        if !holds {
            return Some(false);
        }
    }
    Some(true)
}

/// Parses an expression into its comparisons, or returns `None` if it contains anything else.
fn terms(expression: &str) -> Option<Vec<Term>> {
    // A string literal without escapes. Expressions with escapes are not evaluated.
    const TEXT: &str = r#"(?:"[^"\\]*"|'[^'\\]*')"#;
    static DRIVER: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(&format!(r"^device\.driver\s*==\s*({TEXT})$")).expect("the pattern is valid")
    });
    static ATTRIBUTE: LazyLock<Regex> = LazyLock::new(|| {
        let values = format!(r"==\s*({TEXT})|in\s*\[\s*({TEXT}(?:\s*,\s*{TEXT})*)\s*\]");
        Regex::new(&format!(
            r"^device\.attributes\[({TEXT})\]\.([A-Za-z_]\w*)\s*(?:{values})$"
        ))
        .expect("the pattern is valid")
    });
    static VALUE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(TEXT).expect("the pattern is valid"));
    let bare = |text: &str| text[1..text.len() - 1].to_owned();
    let term = |part: &str| {
        let part = part.trim();
        if let Some(captures) = DRIVER.captures(part) {
            return Some(Term::Driver(bare(&captures[1])));
        }
        let captures = ATTRIBUTE.captures(part)?;
        let values = captures.get(3).or_else(|| captures.get(4))?.as_str();
        let values = VALUE
            .find_iter(values)
            .map(|value| bare(value.as_str()))
            .collect();
        Some(Term::Attribute(
            format!("{}/{}", bare(&captures[1]), &captures[2]),
            values,
        ))
    };
    // Splitting at a `&&` inside a string literal leaves parts that match no pattern, so such an
    // expression is not evaluated.
    expression.split("&&").map(term).collect()
}

#[cfg(test)]
mod tests;
