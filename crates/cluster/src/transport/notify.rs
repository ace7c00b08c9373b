//! Notifies waiting commands when pods of a job, or nodes and pods of the cluster, change. Without
//! notifications, hundreds of waiting commands would overload the API server by polling. A
//! notification carries no data: the receiver reads again.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures::future::join;
use serde_json::Value;
use tokio::sync::Notify;

use super::http::with_query;
use crate::{Connection, Failure};
use gpuctl_core::model::contract::labels::JOB;

/// Minimum interval between two reads of a job, so that changes of many pods are handled together.
const STEP: Duration = Duration::from_millis(500);
/// Minimum interval for lists, which need several requests per read.
const LIST_STEP: Duration = Duration::from_secs(2);
/// Minimum interval for reads of the whole cluster.
const NODES_STEP: Duration = Duration::from_secs(5);
/// Minimum interval for events, which also report on objects of others.
const EVENTS_STEP: Duration = Duration::from_secs(4);
/// Further reads after a change: controllers update their own status shortly after that of the
/// pods.
const AFTER: [Duration; 3] = [
    Duration::from_millis(700),
    Duration::from_millis(1500),
    Duration::from_secs(3),
];
/// Maximum age of node and pod data without a notification.
const OLDEST: Duration = Duration::from_secs(120);
/// Maximum interval without a read: for changes that no pod shows, and for connections that died
/// unnoticed.
const QUIET: Duration = Duration::from_secs(20);
/// Maximum interval for lists, which also show metrics.
const LIST_QUIET: Duration = Duration::from_secs(15);
/// Polling interval without the right to watch.
const UNWATCHED: Duration = Duration::from_secs(4);
/// Polling interval for lists of the whole cluster.
const UNWATCHED_LIST: Duration = Duration::from_secs(10);
/// Delay before a watch is reopened: some proxies close every watch immediately.
const REST: Duration = Duration::from_secs(2);
/// Duration in seconds after which the server ends a watch, which is then reopened.
const LONGEST: &str = "300";

/// Waits for changes of one job, or of all visible objects.
pub struct Doorbell<'c> {
    step: Duration,
    quiet: Duration,
    ringing: Pin<Box<dyn Future<Output = Infallible> + 'c>>,
    rung: Rc<Notify>,
    /// Number of reads since the last change.
    looks: usize,
    /// Delays of the reads that follow a change.
    after: &'static [Duration],
    /// Time of the last notification.
    told: Instant,
}

impl Connection {
    /// Subscribes to changes of the job's pods.
    pub fn doorbell<'c>(&'c self, namespace: &str, job: &str) -> Doorbell<'c> {
        self.bell(Some(namespace), &format!("{JOB}={job}"), STEP, QUIET)
    }

    /// Subscribes to changes of the pods of any job, for one namespace or for all.
    pub fn doorbell_of_jobs(&self, namespace: Option<&str>) -> Doorbell<'_> {
        self.bell(namespace, JOB, LIST_STEP, LIST_QUIET)
    }

    fn bell(
        &self,
        namespace: Option<&str>,
        selector: &str,
        step: Duration,
        quiet: Duration,
    ) -> Doorbell<'_> {
        let query = [
            ("watch", "1"),
            ("labelSelector", selector),
            ("timeoutSeconds", LONGEST),
        ];
        let path_of =
            |namespace: &str| with_query(&format!("/api/v1/namespaces/{namespace}/pods"), &query);
        // Without the right to watch all namespaces, watch the current one.
        let paths = match namespace {
            Some(namespace) => vec![path_of(namespace)],
            None => vec![with_query("/api/v1/pods", &query), path_of(&self.namespace)],
        };
        let notify = Rc::new(Notify::new());
        let watching = Box::pin(self.ring(paths, Rc::clone(&notify)));
        Doorbell {
            step,
            quiet,
            ringing: watching,
            rung: notify,
            looks: 0,
            after: &AFTER,
            told: Instant::now(),
        }
    }

    /// Subscribes to changes of nodes and pods in fields that inventories show.
    pub fn doorbell_of_nodes(&self, quiet: Duration) -> Doorbell<'_> {
        let notify = Rc::new(Notify::new());
        let (nodes, pods) = (
            self.hear("/api/v1/nodes", Rc::clone(&notify)),
            self.hear("/api/v1/pods", Rc::clone(&notify)),
        );
        let watching = Box::pin(async move { join(nodes, pods).await.0 });
        Doorbell {
            step: NODES_STEP.min(quiet),
            quiet,
            ringing: watching,
            rung: notify,
            looks: 0,
            after: &[],
            told: Instant::now(),
        }
    }

    /// Subscribes to changes of the job's pods and to events in its namespace.
    pub fn doorbell_of_events<'c>(&'c self, namespace: &str, job: &str) -> Doorbell<'c> {
        let Doorbell { ringing, rung, .. } = self.doorbell(namespace, job);
        let event_changed = Rc::clone(&rung);
        let collection = format!("/api/v1/namespaces/{namespace}/events");
        let ringing =
            Box::pin(async move { join(ringing, self.hear(&collection, event_changed)).await.0 });
        Doorbell {
            step: EVENTS_STEP,
            quiet: QUIET,
            ringing,
            rung,
            looks: 0,
            after: &[],
            told: Instant::now(),
        }
    }

    /// Watches a collection from its current version, so that existing objects cause no
    /// notification.
    async fn hear(&self, collection: &str, notify: Rc<Notify>) -> Infallible {
        let mut changes = HeardChanges::default();
        loop {
            if changes.version.is_none() {
                match self.begin(collection, &mut changes).await {
                    // Without the right to list, notify at fixed intervals.
                    Err(failure) if !failure.is_transient() => {
                        match ring_by_the_clock(&notify, UNWATCHED_LIST).await {}
                    }
                    Err(_) => {}
                    // Changes between the caller's last read and this version are unknown.
                    Ok(()) => notify.notify_one(),
                }
            }
            let Some(version) = changes.version.clone() else {
                tokio::time::sleep(REST).await;
                continue;
            };
            // Bookmarks keep the version recent while nothing changes. Without them a quiet watch
            // reopens with a version that etcd has compacted, which fails with 410.
            let query = [
                ("watch", "1"),
                ("resourceVersion", &version),
                ("allowWatchBookmarks", "true"),
                ("timeoutSeconds", LONGEST),
            ];
            let path = with_query(collection, &query);
            let watch = self.stream(&path, false, |line| {
                if changes.is_news(line) {
                    notify.notify_one();
                }
            });
            match watch.await {
                // The version was compacted: list again.
                Err(failure) if failure.code() == Some(410) => changes.version = None,
                Err(failure) if !failure.is_transient() => {
                    match ring_by_the_clock(&notify, UNWATCHED_LIST).await {}
                }
                _ => {}
            }
            tokio::time::sleep(REST).await;
        }
    }

    /// Determines the version at which a watch begins. Lists nodes completely: kubelets update them
    /// every few minutes, and only a comparison with the earlier state shows whether a field
    /// changed. Pods are updated only on changes.
    async fn begin(&self, collection: &str, changes: &mut HeardChanges) -> Result<(), Failure> {
        let mut version = None;
        let mut visit = |page: &Value| {
            version = page
                .pointer("/metadata/resourceVersion")
                .and_then(Value::as_str)
                .map(ToOwned::to_owned);
            for object in page["items"].as_array().into_iter().flatten() {
                let uid = object
                    .pointer("/metadata/uid")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                changes.seen.insert(uid.to_owned(), shown(object));
            }
        };
        if collection.ends_with("/nodes") {
            self.list_whole(collection, &[], |page| {
                visit(&page.decode()?);
                Ok(())
            })
            .await?;
        } else {
            // One object is enough: the page carries the `resourceVersion` of the whole collection.
            visit(&self.get(&with_query(collection, &[("limit", "1")])).await?);
        }
        changes.version = version;
        Ok(())
    }

    /// Watches the first of the paths that the user may watch, and reopens the watch when it ends.
    async fn ring(&self, paths: Vec<String>, notify: Rc<Notify>) -> Infallible {
        for path in paths {
            // Without `resourceVersion` a watch begins with a synthetic ADDED event for each
            // existing pod. They cost at most one extra read, because `notify_one` coalesces them.
            while self
                .stream(&path, false, |_| notify.notify_one())
                .await
                .map_or_else(|failure| failure.is_transient(), |()| true)
            {
                tokio::time::sleep(REST).await;
            }
        }
        ring_by_the_clock(&notify, UNWATCHED).await
    }
}

/// Notifies at fixed intervals, for users without the right to watch.
async fn ring_by_the_clock(notify: &Notify, step: Duration) -> Infallible {
    loop {
        tokio::time::sleep(step).await;
        notify.notify_one();
    }
}

impl Doorbell<'_> {
    /// Waits until it is time to read again, at the latest at `deadline`. Returns true if the
    /// data must be read again because it changed or is stale.
    pub async fn news(&mut self, deadline: Option<Instant>) -> bool {
        let (step, quiet) = (self.step, self.quiet);
        let remaining = deadline.map_or(quiet, |deadline| {
            deadline.saturating_duration_since(Instant::now())
        });
        let timeout = self
            .after
            .get(self.looks)
            .copied()
            .unwrap_or(quiet)
            .min(remaining)
            .max(step);
        let notify = Rc::clone(&self.rung);
        let change = async {
            tokio::time::sleep(step).await;
            tokio::time::timeout(timeout.saturating_sub(step), notify.notified())
                .await
                .is_ok()
        };
        tokio::select! {
            changed = change => {
                self.looks = if changed { 0 } else { self.looks + 1 };
                let again = changed || self.looks <= self.after.len() || self.told.elapsed() >= OLDEST;
                if again {
                    self.told = Instant::now();
                }
                again
            }
            never = &mut self.ringing => match never {},
        }
    }
}

/// State of a watched collection.
#[derive(Default)]
pub(crate) struct HeardChanges {
    /// Version at which the next watch continues; `None` if it is unknown.
    version: Option<String>,
    /// Hash of the fields that inventories show, by the UID of the object.
    seen: HashMap<String, u64>,
}

impl HeardChanges {
    /// Whether an event changes a field that inventories show. Kubelets update their nodes every
    /// few minutes, and the times of these updates are not a change.
    pub(crate) fn is_news(&mut self, line: &[u8]) -> bool {
        // A line that was truncated for its length is still an event about some object.
        let Ok(event) = serde_json::from_slice::<Value>(line) else {
            return true;
        };
        let object = &event["object"];
        // The server reports errors within a watch as events, after a response status of 200. The
        // most common one is 410 for a compacted version.
        if event["type"] == "ERROR" {
            self.version = None;
            return true;
        }
        if let Some(version) = object
            .pointer("/metadata/resourceVersion")
            .and_then(Value::as_str)
        {
            self.version = Some(version.to_owned());
        }
        let uid = object
            .pointer("/metadata/uid")
            .and_then(Value::as_str)
            .unwrap_or_default();
        match event["type"].as_str() {
            // A bookmark carries only the new `resourceVersion`.
            Some("BOOKMARK") => false,
            Some("DELETED") => {
                self.seen.remove(uid);
                true
            }
            _ => {
                let hash = shown(object);
                self.seen.insert(uid.to_owned(), hash) != Some(hash)
            }
        }
    }
}

/// Hashes the fields of a node, pod or event that inventories show.
fn shown(object: &Value) -> u64 {
    const FIELDS: [&str; 10] = [
        // For events.
        "/count",
        "/series/count",
        "/metadata/labels",
        "/metadata/deletionTimestamp",
        "/spec/taints",
        "/spec/unschedulable",
        "/spec/nodeName",
        "/status/phase",
        "/status/allocatable",
        "/status/capacity",
    ];
    let mut hasher = DefaultHasher::new();
    for field in FIELDS {
        object
            .pointer(field)
            .map(Value::to_string)
            .hash(&mut hasher);
    }
    for condition in object
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        for key in ["type", "status", "reason"] {
            condition[key].as_str().hash(&mut hasher);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_is_no_news_and_a_lost_node_is() {
        let mut changes = HeardChanges::default();
        let mut event = |kind: &str, version: u32, ready: &str, heartbeat: &str| {
            let event = serde_json::json!({"type": kind, "object": {
                "metadata": {"uid": "u", "resourceVersion": version.to_string()},
                "status": {"conditions": [{"type": "Ready", "status": ready, "lastHeartbeatTime": heartbeat}]},
            }});
            (
                changes.is_news(event.to_string().as_bytes()),
                changes.version.clone(),
            )
        };
        let version_of = |version: u32| Some(version.to_string());
        assert_eq!(
            event("MODIFIED", 5, "True", "a"),
            (true, version_of(5)),
            "the earlier state is unknown"
        );
        assert_eq!(event("MODIFIED", 6, "True", "b"), (false, version_of(6)));
        assert_eq!(event("BOOKMARK", 9, "True", "b"), (false, version_of(9)));
        assert_eq!(
            event("MODIFIED", 10, "Unknown", "b"),
            (true, version_of(10))
        );
        assert_eq!(event("DELETED", 11, "Unknown", "b"), (true, version_of(11)));
        assert_eq!(
            event("ERROR", 0, "", ""),
            (true, None),
            "changes in between are unknown, so the state is read again"
        );
    }
}
