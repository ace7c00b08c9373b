//! Decodes the conditions of nodes.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Deserialize;

use crate::transport::lenient;
use gpuctl_core::model::HostCondition;

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WireCondition<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    status: Cow<'a, str>,
    #[serde(borrow)]
    reason: Cow<'a, str>,
    #[serde(borrow)]
    message: Cow<'a, str>,
    #[serde(deserialize_with = "lenient::time")]
    last_heartbeat_time: Option<Timestamp>,
    #[serde(deserialize_with = "lenient::time")]
    last_transition_time: Option<Timestamp>,
}

impl WireCondition<'_> {
    pub(crate) fn condition(&self) -> HostCondition {
        HostCondition {
            kind: self.kind.to_string(),
            status: self.status.to_string(),
            reason: self.reason.to_string(),
            message: self.message.to_string(),
            heartbeat_at: self.last_heartbeat_time,
            changed_at: self.last_transition_time,
        }
    }
}
