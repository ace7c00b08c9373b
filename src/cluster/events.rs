//! What the cluster reported about an object, newest last.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Deserialize;

use crate::model::Event;

use super::decode::{Metadata, Page};
use super::request::with_query;
use super::{Connection, Failure};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireEvent<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    reason: Cow<'a, str>,
    #[serde(borrow, default)]
    message: Cow<'a, str>,
    #[serde(borrow, default)]
    involved_object: Involved<'a>,
    last_timestamp: Option<Timestamp>,
    event_time: Option<Timestamp>,
    #[serde(default)]
    count: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Involved<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
}

impl Connection {
    /// Events about the object with this UID.
    pub async fn events(&self, namespace: &str, uid: &str) -> Result<Vec<Event>, Failure> {
        let field = format!("involvedObject.uid={uid}");
        let path = with_query(&format!("/api/v1/namespaces/{namespace}/events"), &[]);
        let mut events = Vec::new();
        self.list(&path, &[("fieldSelector", &field)], |page| {
            let page: Page<WireEvent<'_>> = serde_json::from_slice(page)?;
            events.extend(page.items.iter().map(WireEvent::event));
            Ok(())
        })
        .await?;
        events.sort_by(|a, b| (a.at, &a.message).cmp(&(b.at, &b.message)));
        Ok(events)
    }
}

impl WireEvent<'_> {
    fn event(&self) -> Event {
        Event {
            at: self.last_timestamp.or(self.event_time).or(self.metadata.creation_timestamp),
            warning: self.kind == "Warning",
            reason: self.reason.to_string(),
            message: self.message.to_string(),
            object: format!("{}/{}", self.involved_object.kind, self.involved_object.name),
            count: self.count.unwrap_or(1),
        }
    }
}
