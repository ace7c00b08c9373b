//! Notifies waiting commands when pods of a job, or nodes and pods of the cluster, change. If
//! hundreds of waiting commands polled instead, they would overload the API server. A notification
//! carries no data, so the receiver reads again.

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

/// Minimum interval between two reads of a job, so that changes to many pods are handled together.
const MIN_INTERVAL: Duration = Duration::from_millis(500);
/// Minimum interval between reads of lists, which need several requests each.
const LIST_MIN_INTERVAL: Duration = Duration::from_secs(2);
/// Minimum interval between reads of the entire cluster.
const NODES_MIN_INTERVAL: Duration = Duration::from_secs(5);
/// Minimum interval between reads of events, which may be about other users' objects.
const EVENTS_MIN_INTERVAL: Duration = Duration::from_secs(4);
/// Delays of further reads after a change. Controllers update their own status shortly after their
/// pods change.
const FOLLOW_UPS: [Duration; 3] = [
    Duration::from_millis(700),
    Duration::from_millis(1500),
    Duration::from_secs(3),
];
/// Age at which nodes and pods are read again without a notification.
const MAX_AGE: Duration = Duration::from_secs(120);
/// Maximum interval between two reads. Some changes do not affect pods, and a watch can die
/// unnoticed.
const MAX_INTERVAL: Duration = Duration::from_secs(20);
/// Maximum interval between reads of lists, which also show metrics.
const LIST_MAX_INTERVAL: Duration = Duration::from_secs(15);
/// Polling interval for users without permission to watch.
const POLL_INTERVAL: Duration = Duration::from_secs(4);
/// Polling interval for lists of the entire cluster.
const LIST_POLL_INTERVAL: Duration = Duration::from_secs(10);
/// Delay before a watch is reopened, because some proxies close every watch immediately.
const REOPEN_DELAY: Duration = Duration::from_secs(2);
/// Seconds after which the server ends a watch, which gpuctl then reopens.
const WATCH_SECONDS: &str = "300";

/// A subscription to changes of one job, or of all visible objects.
pub struct ChangeWatch<'c> {
    min_interval: Duration,
    max_interval: Duration,
    watching: Pin<Box<dyn Future<Output = Infallible> + 'c>>,
    notify: Rc<Notify>,
    /// Number of reads since the last change.
    reads: usize,
    /// Delays of the reads after a change.
    follow_ups: &'static [Duration],
    /// Time of the last notification.
    last_notified: Instant,
}

impl Connection {
    /// Subscribes to changes to the job's pods.
    pub fn watch_job<'c>(&'c self, namespace: &str, job: &str) -> ChangeWatch<'c> {
        self.watch_pods(
            Some(namespace),
            &format!("{JOB}={job}"),
            MIN_INTERVAL,
            MAX_INTERVAL,
        )
    }

    /// Subscribes to changes to the pods of all jobs in one namespace or in every namespace.
    pub fn watch_jobs(&self, namespace: Option<&str>) -> ChangeWatch<'_> {
        self.watch_pods(namespace, JOB, LIST_MIN_INTERVAL, LIST_MAX_INTERVAL)
    }

    fn watch_pods(
        &self,
        namespace: Option<&str>,
        selector: &str,
        min_interval: Duration,
        max_interval: Duration,
    ) -> ChangeWatch<'_> {
        let query = [
            ("watch", "1"),
            ("labelSelector", selector),
            ("timeoutSeconds", WATCH_SECONDS),
        ];
        let path_of =
            |namespace: &str| with_query(&format!("/api/v1/namespaces/{namespace}/pods"), &query);
        // Watch the current namespace if the user cannot watch all namespaces.
        let paths = match namespace {
            Some(namespace) => vec![path_of(namespace)],
            None => vec![with_query("/api/v1/pods", &query), path_of(&self.namespace)],
        };
        let notify = Rc::new(Notify::new());
        let watching = Box::pin(self.watch_first(paths, Rc::clone(&notify)));
        ChangeWatch {
            min_interval,
            max_interval,
            watching,
            notify,
            reads: 0,
            follow_ups: &FOLLOW_UPS,
            last_notified: Instant::now(),
        }
    }

    /// Subscribes to changes to nodes and pods in the fields that inventories show.
    pub fn watch_nodes(&self, max_interval: Duration) -> ChangeWatch<'_> {
        let notify = Rc::new(Notify::new());
        let (nodes, pods) = (
            self.watch_collection("/api/v1/nodes", Rc::clone(&notify)),
            self.watch_collection("/api/v1/pods", Rc::clone(&notify)),
        );
        let watching = Box::pin(async move { join(nodes, pods).await.0 });
        ChangeWatch {
            min_interval: NODES_MIN_INTERVAL.min(max_interval),
            max_interval,
            watching,
            notify,
            reads: 0,
            follow_ups: &[],
            last_notified: Instant::now(),
        }
    }

    /// Subscribes to changes to the job's pods and to events in its namespace.
    pub fn watch_events<'c>(&'c self, namespace: &str, job: &str) -> ChangeWatch<'c> {
        let ChangeWatch {
            watching, notify, ..
        } = self.watch_job(namespace, job);
        let event_changed = Rc::clone(&notify);
        let collection = format!("/api/v1/namespaces/{namespace}/events");
        let watching = Box::pin(async move {
            join(watching, self.watch_collection(&collection, event_changed))
                .await
                .0
        });
        ChangeWatch {
            min_interval: EVENTS_MIN_INTERVAL,
            max_interval: MAX_INTERVAL,
            watching,
            notify,
            reads: 0,
            follow_ups: &[],
            last_notified: Instant::now(),
        }
    }

    /// Watches a collection from its current version, so that the existing objects cause no
    /// notification.
    async fn watch_collection(&self, collection: &str, notify: Rc<Notify>) -> Infallible {
        let mut changes = WatchedCollection::default();
        loop {
            if changes.version.is_none() {
                match self.start_version(collection, &mut changes).await {
                    // The user cannot list the collection, so notify at fixed intervals.
                    Err(failure) if !failure.is_transient() => {
                        match notify_periodically(&notify, LIST_POLL_INTERVAL).await {}
                    }
                    Err(_) => {}
                    // Notify, because objects may have changed between the caller's last read and
                    // this version.
                    Ok(()) => notify.notify_one(),
                }
            }
            let Some(version) = changes.version.clone() else {
                tokio::time::sleep(REOPEN_DELAY).await;
                continue;
            };
            // Request bookmarks, which keep the version recent while nothing changes. Otherwise a
            // quiet watch is reopened with a version that etcd has compacted, which fails with 410.
            let query = [
                ("watch", "1"),
                ("resourceVersion", &version),
                ("allowWatchBookmarks", "true"),
                ("timeoutSeconds", WATCH_SECONDS),
            ];
            let path = with_query(collection, &query);
            let watch = self.stream(&path, false, |line| {
                if changes.is_change(line) {
                    notify.notify_one();
                }
            });
            match watch.await {
                // The version was compacted, so list again to get a new one.
                Err(failure) if failure.code() == Some(410) => changes.version = None,
                Err(failure) if !failure.is_transient() => {
                    match notify_periodically(&notify, LIST_POLL_INTERVAL).await {}
                }
                _ => {}
            }
            tokio::time::sleep(REOPEN_DELAY).await;
        }
    }

    /// Reads the version at which a watch begins. Lists all nodes, because kubelets update their
    /// nodes every few minutes, and only a comparison shows whether a displayed field changed. Pods
    /// are updated only for a change.
    async fn start_version(
        &self,
        collection: &str,
        changes: &mut WatchedCollection,
    ) -> Result<(), Failure> {
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
                changes
                    .seen
                    .insert(uid.to_owned(), shown_fields_hash(object));
            }
        };
        if collection.ends_with("/nodes") {
            self.list_whole(collection, &[], |page| {
                visit(&page.decode()?);
                Ok(())
            })
            .await?;
        } else {
            // Request one object: its page has the `resourceVersion` of the entire collection.
            visit(&self.get(&with_query(collection, &[("limit", "1")])).await?);
        }
        changes.version = version;
        Ok(())
    }

    /// Watches the first path that the user has permission to watch, and reopens the watch when it
    /// ends.
    async fn watch_first(&self, paths: Vec<String>, notify: Rc<Notify>) -> Infallible {
        for path in paths {
            // Without `resourceVersion`, a watch begins with a synthetic ADDED event for each
            // existing pod. `notify_one` coalesces these events into at most one extra read.
            while self
                .stream(&path, false, |_| notify.notify_one())
                .await
                .map_or_else(|failure| failure.is_transient(), |()| true)
            {
                tokio::time::sleep(REOPEN_DELAY).await;
            }
        }
        notify_periodically(&notify, POLL_INTERVAL).await
    }
}

/// Notifies at fixed intervals, as a fallback for users without permission to watch.
async fn notify_periodically(notify: &Notify, min_interval: Duration) -> Infallible {
    loop {
        tokio::time::sleep(min_interval).await;
        notify.notify_one();
    }
}

impl ChangeWatch<'_> {
    /// Waits for the next time to read, at the latest until `deadline`. Returns true if the data
    /// changed or is stale.
    pub async fn changed(&mut self, deadline: Option<Instant>) -> bool {
        let (min_interval, max_interval) = (self.min_interval, self.max_interval);
        let remaining = deadline.map_or(max_interval, |deadline| {
            deadline.saturating_duration_since(Instant::now())
        });
        let timeout = self
            .follow_ups
            .get(self.reads)
            .copied()
            .unwrap_or(max_interval)
            .min(remaining)
            .max(min_interval);
        let notify = Rc::clone(&self.notify);
        let change = async {
            tokio::time::sleep(min_interval).await;
            tokio::time::timeout(timeout.saturating_sub(min_interval), notify.notified())
                .await
                .is_ok()
        };
        tokio::select! {
            changed = change => {
                self.reads = if changed { 0 } else { self.reads + 1 };
                let must_read = changed
                    || self.reads <= self.follow_ups.len()
                    || self.last_notified.elapsed() >= MAX_AGE;
                if must_read {
                    self.last_notified = Instant::now();
                }
                must_read
            }
            never = &mut self.watching => match never {},
        }
    }
}

/// The last known state of a watched collection.
#[derive(Default)]
pub(crate) struct WatchedCollection {
    /// Version at which the next watch continues, or `None` to list again.
    version: Option<String>,
    /// Hashes of the fields that inventories show, by the UID of the object.
    seen: HashMap<String, u64>,
}

impl WatchedCollection {
    /// Returns true if an event changes a field that inventories show. Ignores updates without such
    /// a change, because kubelets update their nodes every few minutes.
    pub(crate) fn is_change(&mut self, line: &[u8]) -> bool {
        // Count an event that cannot be parsed because it was truncated to the maximum line length.
        let Ok(event) = serde_json::from_slice::<Value>(line) else {
            return true;
        };
        let object = &event["object"];
        // Errors within a watch are events, because the response already has the status 200. The
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
            // A bookmark has only a new `resourceVersion`.
            Some("BOOKMARK") => false,
            Some("DELETED") => {
                self.seen.remove(uid);
                true
            }
            _ => {
                let hash = shown_fields_hash(object);
                self.seen.insert(uid.to_owned(), hash) != Some(hash)
            }
        }
    }
}

/// Hashes the fields of a node, pod or event that inventories show.
fn shown_fields_hash(object: &Value) -> u64 {
    const FIELDS: [&str; 10] = [
        // Fields of events.
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
mod tests;
