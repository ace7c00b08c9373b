//! Reads the node labels that Kueue uses to place a job's pods close together: the levels of the
//! Topology that a flavor names. The levels are unknown if the user lacks permission to read these
//! objects, as ordinary users of Kueue may.

use std::collections::BTreeSet;

use futures::future::try_join_all;
use serde_json::Value;

use crate::{Failure, handles::QueuesApi};

impl QueuesApi<'_> {
    /// Returns the labels that are levels of the Topology in every GPU flavor of a LocalQueue.
    /// Returns none if a flavor has no Topology or the user cannot read it. Source:
    /// kueue.x-k8s.io/v1beta2 (ClusterQueue, ResourceFlavor, Topology).
    pub async fn topology_levels(
        self,
        version: &str,
        namespace: &str,
        queue: &str,
    ) -> Result<BTreeSet<String>, Failure> {
        match self.levels(version, namespace, queue).await {
            Err(failure) if failure.is_forbidden() || failure.is_not_found() => Ok(BTreeSet::new()),
            other => other,
        }
    }

    async fn levels(
        self,
        version: &str,
        namespace: &str,
        queue: &str,
    ) -> Result<BTreeSet<String>, Failure> {
        let base = format!("/apis/{version}");
        let local_queue = self
            .0
            .get::<Value>(&format!(
                "{base}/namespaces/{namespace}/localqueues/{queue}"
            ))
            .await?;
        let Some(cluster_queue) = local_queue["spec"]["clusterQueue"].as_str() else {
            return Ok(BTreeSet::new());
        };
        let cluster_queue_object = self
            .0
            .get::<Value>(&format!("{base}/clusterqueues/{cluster_queue}"))
            .await?;
        let levels = try_join_all(
            flavors(&cluster_queue_object)
                .into_iter()
                .map(|flavor| self.levels_of_flavor(&base, flavor)),
        )
        .await?;
        Ok(levels
            .into_iter()
            .reduce(|common, levels| &common & &levels)
            .unwrap_or_default())
    }

    async fn levels_of_flavor(
        self,
        base: &str,
        flavor: String,
    ) -> Result<BTreeSet<String>, Failure> {
        let flavor = self
            .0
            .get::<Value>(&format!("{base}/resourceflavors/{flavor}"))
            .await?;
        let Some(topology) = flavor["spec"]["topologyName"].as_str() else {
            return Ok(BTreeSet::new());
        };
        let topology = self
            .0
            .get::<Value>(&format!("{base}/topologies/{topology}"))
            .await?;
        let levels = topology["spec"]["levels"].as_array().into_iter().flatten();
        Ok(levels
            .filter_map(|level| level["nodeLabel"].as_str().map(ToOwned::to_owned))
            .collect())
    }
}

/// Lists the flavors of the resource groups that cover devices.
fn flavors(queue: &Value) -> BTreeSet<String> {
    let groups = queue["spec"]["resourceGroups"]
        .as_array()
        .into_iter()
        .flatten();
    let has_devices = |group: &&Value| {
        let mut resources = group["coveredResources"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        resources.any(gpuctl_core::model::facts::resource::is_device)
    };
    let flavors = groups
        .filter(has_devices)
        .flat_map(|group| group["flavors"].as_array().into_iter().flatten());
    flavors
        .filter_map(|flavor| flavor["name"].as_str().map(ToOwned::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_flavors_with_devices_count() {
        let group = |resource: &str, flavor: &str| json!({"coveredResources": [resource], "flavors": [{"name": flavor}]});
        let queue = json!({"spec": {"resourceGroups": [group("cpu", "plain"), group("nvidia.com/gpu", "gpus")]}});
        assert_eq!(flavors(&queue), BTreeSet::from(["gpus".to_owned()]));
        assert!(flavors(&json!({})).is_empty());
    }
}
