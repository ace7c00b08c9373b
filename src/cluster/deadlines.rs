//! Reads when jobs that hold GPUs must end, and by when that makes room for another one.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join;
use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use serde_json::Value;

use super::Connection;
use super::owner::OwnerKind;
use crate::model::capacity::Amounts;
use crate::model::start::room_by;
use crate::model::victims::NodeLoad;

/// Holders that are asked, those with most devices first, and how many of them at the same time.
const ASKED: usize = 32;
const AT_ONCE: usize = 8;

impl Connection {
    /// Returns when deadlines of those that run make room for so many pods on these nodes at the latest; `None` where they do not.
    pub(crate) async fn room_by(&self, requests: &Amounts, pods: u64, nodes: &BTreeMap<String, NodeLoad>) -> Option<Timestamp> {
        let mut devices: BTreeMap<&str, u64> = BTreeMap::new();
        for pod in nodes.values().flat_map(|(_, placed)| placed) {
            *devices.entry(&pod.holder).or_default() += pod.devices;
        }
        let mut holders: Vec<(&str, u64)> = devices.into_iter().filter(|(_, devices)| *devices > 0).collect();
        holders.sort_by_key(|(_, devices)| std::cmp::Reverse(*devices));
        let names: BTreeSet<&str> = holders.into_iter().take(ASKED).map(|(name, _)| name).collect();
        let asked = names.into_iter().map(|holder| async move {
            let (namespace, name) = holder.split_once('/')?;
            let (_, ends_by) = self.begin_and_deadline(namespace, name).await;
            Some((holder.to_owned(), ends_by?))
        });
        let ends: BTreeMap<String, Timestamp> = stream::iter(asked).buffered(AT_ONCE).filter_map(async |one| one).collect().await;
        room_by(requests, pods, nodes, &ends)
    }

    /// Reads when a Job began, and when its deadline ends it; of other holders only the pod tells.
    pub(crate) async fn begin_and_deadline(&self, namespace: &str, name: &str) -> (Option<Timestamp>, Option<Timestamp>) {
        let (job, pod) = (OwnerKind::Job.path(namespace, name), format!("/api/v1/namespaces/{namespace}/pods/{name}"));
        let (job, pod) = join(self.find::<Value>(&job), self.find::<Value>(&pod)).await;
        let found = job.ok().flatten().or(pod.ok().flatten()).unwrap_or_default();
        let since = found.pointer("/status/startTime").and_then(Value::as_str).and_then(|text| text.parse::<Timestamp>().ok());
        let seconds = found.pointer("/spec/activeDeadlineSeconds").and_then(Value::as_i64);
        let seconds = seconds.or_else(|| of_all_tries(&found)).or_else(|| supervised(&found));
        let ends_by = since.zip(seconds).and_then(|(since, seconds)| Timestamp::from_second(since.as_second() + seconds).ok());
        (since, ends_by)
    }
}

/// Returns the seconds that all tries of a Job's pods may take together, where each try has a limit.
fn of_all_tries(job: &Value) -> Option<i64> {
    let retries =
        ["/spec/backoffLimitPerIndex", "/spec/backoffLimit"].iter().find_map(|pointer| job.pointer(pointer)?.as_i64())?;
    job.pointer("/spec/template/spec/activeDeadlineSeconds")?.as_i64()?.checked_mul(retries.saturating_add(1))
}

/// Returns the seconds that our supervisor of ranks gives a job.
fn supervised(job: &Value) -> Option<i64> {
    let words = job.pointer("/spec/template/spec/containers/0/command")?.as_array()?;
    let at = words.iter().position(|word| word == "--max-runtime")?;
    let seconds: f64 = words.get(at + 1)?.as_str()?.parse().ok()?;
    (0.0..1e9).contains(&seconds).then_some(seconds.round() as i64)
}
