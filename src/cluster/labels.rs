//! Writes labels of nodes by merge patch against the version that was read, so that two writers at once lose nothing.
//!
//! Note: a server-side apply of one label would remove the other labels of its manager.

use serde_json::{Value, json};

use super::{Connection, Failure};

/// What became of one label on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Labelling {
    Done,
    /// It was so already.
    Unchanged,
    NoNode,
    /// There is another value, or none, and that was not to be written over.
    Conflict(Option<String>),
    /// There is none to take away.
    NoLabel,
}

/// What may be written over.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LabelOverwrite<'a> {
    Anything,
    /// Only what was seen there.
    Only(Option<&'a str>),
}

/// How often a write that somebody else got in front of is tried.
const TRIES: u32 = 8;

impl Connection {
    /// Sets a label to `value`, or takes it away.
    pub(crate) async fn set_label(
        &self,
        node: &str,
        key: &str,
        value: Option<&str>,
        over: LabelOverwrite<'_>,
    ) -> Result<Labelling, Failure> {
        for _ in 0..TRIES {
            let Some((host, version)) = self.host(node).await? else { return Ok(Labelling::NoNode) };
            let there = host.node.labels.get(key).map(String::as_str);
            match (there, value) {
                (None, None) => return Ok(Labelling::NoLabel),
                (Some(there), Some(value)) if there == value => return Ok(Labelling::Unchanged),
                _ => {}
            }
            if matches!(over, LabelOverwrite::Only(expected) if expected != there) {
                return Ok(Labelling::Conflict(there.map(ToOwned::to_owned)));
            }
            match self.patch_labels(node, &version, &[(key, value)]).await {
                Err(failure) if failure.code() == Some(409) => {}
                other => return other.map(|()| Labelling::Done),
            }
        }
        let message = format!("node {node} is written to by others all the time");
        Err(Failure::conflict("Conflict", message))
    }

    /// Writes labels of a node as it was at `version`; a 409 says that it has changed since.
    pub(crate) async fn patch_labels(&self, node: &str, version: &str, labels: &[(&str, Option<&str>)]) -> Result<(), Failure> {
        let labels: Value =
            labels.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect::<serde_json::Map<_, _>>().into();
        let patch = json!({"metadata": {"resourceVersion": version, "labels": labels}});
        self.merge_patch(&format!("/api/v1/nodes/{node}"), &patch).await.map(|_| ())
    }
}
