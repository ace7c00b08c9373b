//! Reads the UIDs of some pods, which identify the cluster in a Prometheus that stores metrics of
//! several clusters.

use serde_json::Value;

use crate::{Failure, handles::MetricsApi, unless_forbidden};

/// How many pods to read. Their UIDs are enough to identify a cluster.
const ENOUGH: &str = "40";

impl MetricsApi<'_> {
    /// Reads the UIDs of some pods in the cluster, or in the current namespace if the user cannot
    /// list all pods.
    pub async fn some_pods(self) -> Result<Vec<String>, Failure> {
        let all_namespaces = unless_forbidden(
            self.0
                .get::<Value>(&format!("/api/v1/pods?limit={ENOUGH}"))
                .await,
        )?;
        let list = match all_namespaces {
            Some(list) => list,
            None => {
                self.0
                    .get(&format!(
                        "/api/v1/namespaces/{}/pods?limit={ENOUGH}",
                        self.0.namespace
                    ))
                    .await?
            }
        };
        let uids = list["items"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|pod| pod["metadata"]["uid"].as_str());
        Ok(uids.map(ToOwned::to_owned).collect())
    }

    /// Reads the names and addresses of some nodes.
    pub async fn some_nodes(self) -> Result<Vec<(String, Vec<String>)>, Failure> {
        let list: Value = self.0.get(&format!("/api/v1/nodes?limit={ENOUGH}")).await?;
        let node = |node: &Value| {
            let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
            let addresses = addresses.filter_map(|address| address["address"].as_str());
            let name = node["metadata"]["name"].as_str()?.to_owned();
            Some((name, addresses.map(ToOwned::to_owned).collect()))
        };
        let items = list["items"].as_array().into_iter().flatten();
        Ok(items.filter_map(node).collect())
    }
}
