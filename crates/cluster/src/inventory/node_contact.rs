//! Reads from the `Ready` condition whether a node's kubelet reports to the API server.

use std::borrow::Cow;

use serde::Deserialize;

use crate::transport::decode::ListPage;
use crate::{Failure, handles::NodesApi};
use gpuctl_core::model::counting::release::NodeContact;

#[derive(Deserialize)]
struct ContactNode<'a> {
    #[serde(borrow, default)]
    status: ContactStatus<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ContactStatus<'a> {
    #[serde(borrow)]
    conditions: Vec<ContactCondition<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ContactCondition<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    status: Cow<'a, str>,
    #[serde(borrow)]
    reason: Cow<'a, str>,
}

impl NodesApi<'_> {
    /// Reads the `Ready` condition of a node. Returns [`NodeContact::Hidden`] if the user cannot
    /// read it.
    pub async fn contact(self, name: &str) -> NodeContact {
        // Use a list with a field selector, because roles that allow `list` may not allow `get`.
        let selector = format!("metadata.name={name}");
        let mut contact = NodeContact::Removed;
        let listed: Result<(), Failure> = self
            .0
            .list("/api/v1/nodes", &[("fieldSelector", &selector)], |page| {
                let page: ListPage<ContactNode<'_>> = page.objects()?;
                if let Some(node) = page.items.first() {
                    contact = node.contact();
                }
                Ok(())
            })
            .await;
        match listed {
            Ok(()) => contact,
            Err(_) => NodeContact::Hidden,
        }
    }
}

impl ContactNode<'_> {
    fn contact(&self) -> NodeContact {
        let mut conditions = self.status.conditions.iter();
        match conditions.find(|condition| condition.kind == "Ready") {
            Some(ready) if ready.status == "True" => NodeContact::Ready,
            Some(ready) if !ready.reason.is_empty() => {
                NodeContact::NotReady(ready.reason.to_string())
            }
            // A kubelet that has never reported leaves the condition unset.
            _ => NodeContact::NotReady("NotReady".to_owned()),
        }
    }
}
