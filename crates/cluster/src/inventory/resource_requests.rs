//! Computes the requests of a pod as the scheduler does, including sidecars, init containers,
//! runtime overhead and pod-level requests.

use std::collections::BTreeMap;

use gpuctl_core::model::contract::labels::CLAIMED_GPUS;
use gpuctl_core::model::facts::resource::is_device;
use gpuctl_core::model::values::quantity;
use gpuctl_core::model::values::units::MOST_PER_NODE;

use crate::transport::decode::{ContainerResources, PodSpec, WireContainer};

impl WireContainer<'_> {
    /// Whether the container requests devices of a device plugin.
    pub(crate) fn has_devices(&self) -> bool {
        let ContainerResources { limits, requests } = &self.resources;
        limits
            .keys()
            .chain(requests.keys())
            .any(|resource| is_device(resource))
    }
}

impl PodSpec<'_> {
    /// Returns the number of units of `resource` that the scheduler reserves for the pod.
    pub(crate) fn requested(&self, resource: &str) -> u64 {
        self.sum(|container| container.requested(resource))
    }

    /// Returns the highest amount that the pod needs at any time. Sidecars keep running with the
    /// containers. Any other init container runs before the containers, together with the sidecars
    /// started earlier (KEP-753).
    fn sum(&self, amount: impl Fn(&WireContainer<'_>) -> u64) -> u64 {
        let (mut sidecars, mut starting) = (0, 0);
        for init in &self.init_containers {
            let total = u64::saturating_add(sidecars, amount(init));
            // The restart policy `Always` makes an init container a sidecar.
            if init.restart_policy == "Always" {
                sidecars = total;
            }
            starting = starting.max(total);
        }
        let running = self
            .containers
            .iter()
            .map(amount)
            .fold(sidecars, u64::saturating_add);
        starting.max(running)
    }

    /// Returns the container that requests devices, or the first container if none does.
    pub(crate) fn main_container(&self) -> &str {
        let requests_devices = |container: &&WireContainer<'_>| {
            container
                .resources
                .limits
                .keys()
                .chain(container.resources.requests.keys())
                .any(|name| is_device(name))
        };
        let container = self
            .containers
            .iter()
            .find(requests_devices)
            .or_else(|| self.containers.first());
        container.map_or("", |container| container.name.as_ref())
    }

    /// Returns true if the pod requests an extended resource or claims devices.
    pub(crate) fn asks_for_devices(&self) -> bool {
        let extended = |container: &WireContainer<'_>| {
            container
                .resources
                .limits
                .keys()
                .chain(container.resources.requests.keys())
                .any(|name| name.contains('/'))
        };
        !self.resource_claims.is_empty()
            || self
                .containers
                .iter()
                .chain(&self.init_containers)
                .any(extended)
    }

    /// Counts the devices, whole or partial, in the pod's requests and gpuctl's claims. Returns 0
    /// if the sum is more than any node can have.
    pub(crate) fn devices(&self) -> u64 {
        Some(self.all_devices())
            .filter(|devices| *devices <= MOST_PER_NODE)
            .unwrap_or(0)
    }

    /// Returns true if the pod requests more devices than any node can have.
    pub(crate) fn is_absurd(&self) -> bool {
        self.all_devices() > MOST_PER_NODE
    }

    fn all_devices(&self) -> u64 {
        let names = |container: &WireContainer<'_>| {
            container
                .resources
                .limits
                .keys()
                .chain(container.resources.requests.keys())
                .cloned()
                .collect::<Vec<_>>()
        };
        let mut resources: Vec<String> = self
            .containers
            .iter()
            .chain(&self.init_containers)
            .flat_map(names)
            .collect();
        resources.retain(|resource| is_device(resource));
        // Several containers can request the same resource, for which `requested` already returns
        // the total.
        resources.sort_unstable();
        resources.dedup();
        resources
            .iter()
            .map(|resource| self.requested(resource))
            .chain(self.claimed())
            .fold(0, u64::saturating_add)
    }

    /// Reads the device counts in the names of gpuctl's claims.
    fn claimed(&self) -> impl Iterator<Item = u64> {
        self.resource_claims
            .iter()
            .filter_map(|claim| claim.name.strip_prefix(CLAIMED_GPUS)?.parse().ok())
    }
}

/// Upper limit for a pod's request of a resource that is not a device.
const MOST_OF_OTHERS: u64 = 1 << 40;

/// A pod's total requests.
#[derive(Debug, Default)]
pub(crate) struct Total {
    pub extended: BTreeMap<String, u64>,
    pub cpu_milli: u64,
    pub memory_bytes: u64,
    /// Whether the pod requests more devices than a node can have. If so, they are missing in
    /// `extended`.
    pub is_absurd: bool,
}

impl PodSpec<'_> {
    pub(crate) fn total(&self) -> Total {
        let mut extended = BTreeMap::new();
        for container in self.containers.iter().chain(&self.init_containers) {
            for name in container
                .resources
                .limits
                .keys()
                .chain(container.resources.requests.keys())
                .filter(|name| name.contains('/'))
            {
                extended
                    .entry(name.clone())
                    .or_insert_with(|| self.requested(name));
            }
        }
        let devices = extended
            .iter()
            .filter(|(resource, _): &(&String, _)| is_device(resource))
            .map(|(_, amount)| *amount);
        let is_absurd = devices.chain(self.claimed()).fold(0, u64::saturating_add) > MOST_PER_NODE;
        if is_absurd {
            extended.retain(|resource, _| !is_device(resource));
        }
        // Clamp the units of other plugins' resources, so that sums over all pods cannot overflow.
        extended
            .values_mut()
            .for_each(|amount| *amount = (*amount).min(MOST_OF_OTHERS));
        Total {
            extended,
            cpu_milli: self.of_node("cpu"),
            // Kubernetes accepts fractions of a byte, such as `100m`, so round up.
            memory_bytes: self.of_node("memory").div_ceil(1000),
            is_absurd,
        }
    }

    /// Returns the CPU or memory request in thousandths. A pod-level request replaces the sum over
    /// the containers, and the overhead of the runtime class is added.
    pub(crate) fn of_node(&self, resource: &str) -> u64 {
        let milli = |text: &String| {
            quantity::milli(text)
                .and_then(|milli| u64::try_from(milli).ok())
                .unwrap_or(0)
        };
        let pod_level = self
            .resources
            .requests
            .get(resource)
            .or_else(|| self.resources.limits.get(resource))
            .map(milli);
        let overhead = self.overhead.get(resource).map_or(0, milli);
        pod_level
            .unwrap_or_else(|| self.sum(|container| container.milli(resource)))
            .saturating_add(overhead)
    }
}

impl WireContainer<'_> {
    fn milli(&self, resource: &str) -> u64 {
        let text = self
            .resources
            .requests
            .get(resource)
            .or_else(|| self.resources.limits.get(resource));
        text.and_then(|text| quantity::milli(text))
            .and_then(|milli| u64::try_from(milli).ok())
            .unwrap_or(0)
    }

    fn requested(&self, resource: &str) -> u64 {
        // The API server copies a missing request from the limit, but only in pods and not in pod
        // templates (`SetDefaults_Pod` in pkg/apis/core/v1/defaults.go).
        let text = self
            .resources
            .requests
            .get(resource)
            .or_else(|| self.resources.limits.get(resource));
        text.and_then(|text| quantity::whole(text)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> PodSpec<'_> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn requests_as_the_scheduler_counts_them() {
        let gpu = "nvidia.com/gpu";
        let container = |count: u32| {
            format!(r#"{{"name":"c","resources":{{"limits":{{"{gpu}":"{count}"}}}}}}"#)
        };
        let sidecar = |count: u32| {
            format!(
                r#"{{"name":"s","restartPolicy":"Always","resources":{{"limits":{{"{gpu}":"{count}"}}}}}}"#
            )
        };
        for (init, main, expected) in [
            (vec![], vec![container(2), container(1)], 3),
            (vec![container(4)], vec![container(2)], 4),
            (vec![sidecar(1)], vec![container(2)], 3),
            (vec![sidecar(1), container(4)], vec![container(2)], 5),
            (vec![container(4), sidecar(1)], vec![container(2)], 4),
        ] {
            let text = format!(
                r#"{{"initContainers":[{}],"containers":[{}]}}"#,
                init.join(","),
                main.join(",")
            );
            assert_eq!(spec(&text).requested(gpu), expected, "{text}");
            assert_eq!(spec(&text).devices(), expected);
        }
    }

    #[test]
    fn an_impossible_request_counts_as_none_and_no_sum_overflows() {
        let request = |resource: &str, amount: &str| {
            format!(
                r#"{{"name":"c","resources":{{"limits":{{"{resource}":"{amount}","cpu":"1","memory":"1Gi"}}}}}}"#
            )
        };
        for amount in [
            "9223372036854775807",
            "10001",
            "9223372036854775807k",
            "-3",
            "1e30",
            "x",
        ] {
            let containers = format!(
                "{},{}",
                request("nvidia.com/gpu", amount),
                request("amd.com/gpu", amount)
            );
            let text = format!(
                r#"{{"initContainers":[{containers}],"containers":[{containers}],"resourceClaims":[{{"name":"gpus-{}"}}]}}"#,
                u64::MAX
            );
            let (pod, total) = (spec(&text), spec(&text).total());
            assert_eq!(
                (pod.devices(), pod.is_absurd(), total.cpu_milli),
                (0, true, 2000),
                "{amount}"
            );
            assert!(total.extended.is_empty(), "{amount}: {:?}", total.extended);
        }
        let text = format!(
            r#"{{"containers":[{}]}}"#,
            request("nvidia.com/gpu", "10000")
        );
        assert_eq!(
            (spec(&text).devices(), spec(&text).is_absurd()),
            (10_000, false)
        );
        let text = format!(
            r#"{{"containers":[{}]}}"#,
            request("example.com/thing", "9223372036854775807")
        );
        assert_eq!(
            spec(&text).total().extended["example.com/thing"],
            MOST_OF_OTHERS
        );
    }

    #[test]
    fn pod_level_requests_replace_those_of_containers_and_overhead_is_added() {
        let text = r#"{"overhead":{"cpu":"250m","memory":"100Mi"},"resources":{"requests":{"cpu":"2"}},"containers":[
            {"name":"a","resources":{"requests":{"cpu":"1","memory":"1Gi"},"limits":{"nvidia.com/gpu":"2"}}},
            {"name":"b","resources":{"limits":{"memory":"512Mi"}}}]}"#;
        let total = spec(text).total();
        // The CPU total is 2000 + 250. The memory total is 1024 + 512 + 100 MiB.
        assert_eq!((total.cpu_milli, total.memory_bytes), (2250, 1636 << 20));
        assert_eq!(
            total.extended,
            BTreeMap::from([("nvidia.com/gpu".to_owned(), 2)])
        );
    }
}
