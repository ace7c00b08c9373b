//! Notifies waiting commands when pods of a job, or nodes and pods of the cluster, change. Without
//! notifications, hundreds of waiting commands would overload the API server by polling. A
//! notification carries no data, so the receiver reads again.

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
/// Minimum interval between reads of lists, which need several requests per read.
const LIST_MIN_INTERVAL: Duration = Duration::from_secs(2);
/// Minimum interval between reads of the entire cluster.
const NODES_MIN_INTERVAL: Duration = Duration::from_secs(5);
/// Minimum interval for events, which may also be about objects of other users.
const EVENTS_MIN_INTERVAL: Duration = Duration::from_secs(4);
/// Delays of further reads after a change, because controllers update their own status shortly
/// after that of the pods.
const FOLLOW_UPS: [Duration; 3] = [
    Duration::from_millis(700),
    Duration::from_millis(1500),
    Duration::from_secs(3),
];
/// Maximum age of node and pod data if no notification arrives.
const MAX_AGE: Duration = Duration::from_secs(120);
/// Maximum interval between two reads. It covers changes that no pod shows, and connections that
/// died unnoticed.
const MAX_INTERVAL: Duration = Duration::from_secs(20);
/// Maximum interval for lists, which also show metrics.
const LIST_MAX_INTERVAL: Duration = Duration::from_secs(15);
/// Polling interval if the user has no permission to watch.
const POLL_INTERVAL: Duration = Duration::from_secs(4);
/// Polling interval for lists of the entire cluster.
const LIST_POLL_INTERVAL: Duration = Duration::from_secs(10);
/// Delay before a watch is reopened. It is needed because some proxies close every watch
/// immediately.
const REOPEN_DELAY: Duration = Duration::from_secs(2);
/// Number of seconds after which the server ends a watch. The watch is then reopened.
const WATCH_SECONDS: &str = "300";

/// Waits for changes to one job, or to all visible objects.
pub struct ChangeWatch<'c> {
    min_interval: Duration,
    max_interval: Duration,
    watching: Pin<Box<dyn Future<Output = Infallible> + 'c>>,
    notify: Rc<Notify>,
    /// Number of reads since the last change.
    reads: usize,
    /// Delays of the reads that follow a change.
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

    /// Subscribes to changes to the pods of all jobs, in one namespace or in all.
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
        // If the user cannot watch all namespaces, watch the current one.
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

    /// Watches a collection from its current version, so that existing objects cause no
    /// notification.
    async fn watch_collection(&self, collection: &str, notify: Rc<Notify>) -> Infallible {
        let mut changes = WatchedCollection::default();
        loop {
            if changes.version.is_none() {
                match self.start_version(collection, &mut changes).await {
                    // If the user cannot list the collection, notify at fixed intervals.
                    Err(failure) if !failure.is_transient() => {
                        match notify_periodically(&notify, LIST_POLL_INTERVAL).await {}
                    }
                    Err(_) => {}
                    // There may have been changes between the caller's last read and this version.
                    Ok(()) => notify.notify_one(),
                }
            }
            let Some(version) = changes.version.clone() else {
                tokio::time::sleep(REOPEN_DELAY).await;
                continue;
            };
            // Bookmarks keep the version recent while nothing changes. Without them a quiet watch
            // reopens with a version that etcd has compacted, which fails with 410.
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
                // The version was compacted, so list again.
                Err(failure) if failure.code() == Some(410) => changes.version = None,
                Err(failure) if !failure.is_transient() => {
                    match notify_periodically(&notify, LIST_POLL_INTERVAL).await {}
                }
                _ => {}
            }
            tokio::time::sleep(REOPEN_DELAY).await;
        }
    }

    /// Determines the version at which a watch begins. Nodes are listed completely, because
    /// kubelets update them every few minutes. Only a comparison with the earlier state shows
    /// whether a field changed. Pods are updated only if something changes.
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
            // One object is enough, because the page carries the `resourceVersion` of the entire
            // collection.
            visit(&self.get(&with_query(collection, &[("limit", "1")])).await?);
        }
        changes.version = version;
        Ok(())
    }

    /// Watches the first of the paths that the user may watch, and reopens the watch when it ends.
    async fn watch_first(&self, paths: Vec<String>, notify: Rc<Notify>) -> Infallible {
        for path in paths {
            // Without `resourceVersion` a watch begins with a synthetic ADDED event for each
            // existing pod. These events cause at most one extra read, because `notify_one`
            // coalesces them.
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

/// Notifies at fixed intervals, for users without permission to watch.
async fn notify_periodically(notify: &Notify, min_interval: Duration) -> Infallible {
    loop {
        tokio::time::sleep(min_interval).await;
        notify.notify_one();
    }
}

impl ChangeWatch<'_> {
    /// Waits until it is time to read again, but no longer than until `deadline`. Returns true if
    /// the data must be read again because it changed or is stale.
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

/// The state of a watched collection.
#[derive(Default)]
pub(crate) struct WatchedCollection {
    /// Version at which the next watch continues; `None` if it is unknown.
    version: Option<String>,
    /// A hash of the fields that inventories show, by the UID of the object.
    seen: HashMap<String, u64>,
}

impl WatchedCollection {
    /// Whether an event changes a field that inventories show. Kubelets update their nodes every
    /// few minutes, but the new update times do not count as a change.
    pub(crate) fn is_change(&mut self, line: &[u8]) -> bool {
        // A line that was truncated because of its length is still an event about some object.
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
                let hash = shown_fields_hash(object);
                self.seen.insert(uid.to_owned(), hash) != Some(hash)
            }
        }
    }
}

/// Hashes the fields of a node, pod or event that inventories show.
fn shown_fields_hash(object: &Value) -> u64 {
    const FIELDS: [&str; 10] = [
        // Only events have this field.
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
