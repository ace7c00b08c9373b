//! Lists the pods that a drain of a node would evict.

use jiff::Timestamp;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::transport::decode::{ListPage, WirePod};
use crate::{Failure, handles::NodesApi, requests};
use gpuctl_core::model::counting::capacity::Amounts;
use gpuctl_core::model::values::omissions;
use gpuctl_core::model::values::omissions::Omission;

/// A pod that a drain of its node would evict.
pub struct PodOnNode {
    pub namespace: String,
    pub name: String,
    pub gpus: u64,
    pub since: Option<Timestamp>,
    pub spec: Value,
    pub requests: Amounts,
}

impl NodesApi<'_> {
    /// Lists the running and pending pods of a node, except DaemonSet pods and static pods.
    pub async fn pods_on(self, node: &str) -> Result<Vec<PodOnNode>, Failure> {
        let selector = format!("spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed");
        let mut pods = Vec::new();
        self.0
            .list_whole("/api/v1/pods", &[("fieldSelector", &selector)], |page| {
                let page: ListPage<&RawValue> = page.decode()?;
                for item in page.items {
                    let decoded = serde_json::from_str::<WirePod<'_>>(item.get())
                        .ok()
                        .zip(serde_json::from_str(item.get()).ok());
                    let Some((pod, mut object)): Option<(_, Value)> = decoded else {
                        omissions::note(Omission::Unreadable, format!("a pod on node {node}"));
                        continue;
                    };
                    // The controller of a mirror pod, which represents a static pod of the kubelet,
                    // is its Node.
                    let is_daemon = pod
                        .metadata
                        .controller()
                        .is_some_and(|owner| matches!(owner.kind.as_str(), "DaemonSet" | "Node"));
                    if !is_daemon {
                        pods.push(PodOnNode {
                            namespace: pod.metadata.namespace.to_string(),
                            name: pod.metadata.name.to_string(),
                            gpus: pod.spec.devices(),
                            since: pod.status.start_time,
                            requests: requests(&object),
                            spec: object["spec"].take(),
                        });
                    }
                }
                Ok(())
            })
            .await?;
        Ok(pods)
    }
}
