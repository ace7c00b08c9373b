//! Reads when jobs that hold GPUs must end, and by when that makes room for another one.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join;
use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use serde_json::Value;

use super::owner::OwnerKind;
use crate::handles::JobsApi;
use gpuctl_core::model::contract::labels::{MANAGED_BY, MANAGED_BY_US};
use gpuctl_core::model::counting::capacity::Amounts;
use gpuctl_core::model::counting::start::room_by;
use gpuctl_core::model::counting::victims::NodeLoad;

/// Holders that are asked, those with most devices first, and how many of them at the same time.
const ASKED: usize = 32;
const AT_ONCE: usize = 8;

impl JobsApi<'_> {
    /// Returns when deadlines of those that run make room for so many pods on these nodes at the
    /// latest; `None` where they do not.
    pub async fn room_by(
        self,
        requests: &Amounts,
        pods: u64,
        nodes: &BTreeMap<String, NodeLoad>,
    ) -> Option<Timestamp> {
        let mut devices: BTreeMap<&str, u64> = BTreeMap::new();
        for pod in nodes.values().flat_map(|(_, placed)| placed) {
            *devices.entry(&pod.holder).or_default() += pod.devices;
        }
        let mut holders: Vec<(&str, u64)> = devices
            .into_iter()
            .filter(|(_, devices)| *devices > 0)
            .collect();
        holders.sort_by_key(|(_, devices)| std::cmp::Reverse(*devices));
        let names: BTreeSet<&str> = holders
            .into_iter()
            .take(ASKED)
            .map(|(name, _)| name)
            .collect();
        let asked = names.into_iter().map(|holder| async move {
            let (namespace, name) = holder.split_once('/')?;
            let pods = nodes
                .values()
                .flat_map(|(_, placed)| placed)
                .filter(|pod| pod.holder == holder);
            let placed_at = pods.filter_map(|pod| pod.started_at).max();
            let life = self.life(namespace, name, placed_at).await;
            Some((holder.to_owned(), life.ends_by.filter(|_| life.is_bound)?))
        });
        let ends: BTreeMap<String, Timestamp> = stream::iter(asked)
            .buffered(AT_ONCE)
            .filter_map(async |one| one)
            .collect()
            .await;
        room_by(requests, pods, nodes, &ends)
    }

    /// Reads when a Job began, and when its deadline ends it; of other holders only the pod tells.
    /// `placed_at` is when the last of its pods got its node: limits of pods count from there, and
    /// that of the Job itself from its begin.
    pub async fn life(
        self,
        namespace: &str,
        name: &str,
        placed_at: Option<Timestamp>,
    ) -> HolderLife {
        let (jobs, pods) = (
            OwnerKind::Job.collection(Some(namespace)),
            format!("/api/v1/namespaces/{namespace}/pods"),
        );
        let (job, pod) = join(
            self.0.find_in::<Value>(&jobs, name),
            self.0.find_in::<Value>(&pods, name),
        )
        .await;
        let found = job
            .ok()
            .flatten()
            .or(pod.ok().flatten())
            .unwrap_or_default();
        let since = found
            .pointer("/status/startTime")
            .and_then(Value::as_str)
            .and_then(|text| text.parse::<Timestamp>().ok());
        let after = |from: Option<Timestamp>, seconds: Option<i64>| {
            from.zip(seconds).and_then(|(from, seconds)| {
                Timestamp::from_second(from.as_second().checked_add(seconds)?).ok()
            })
        };
        let of_whole = after(
            since,
            found
                .pointer("/spec/activeDeadlineSeconds")
                .and_then(Value::as_i64),
        );
        let of_pods = after(placed_at, of_one_try(&found));
        // Our supervisor counts from the moment when all ranks are there, which is later than their
        // nodes.
        let supervised = after(placed_at, supervised(&found));
        let is_bound = of_whole.is_some() || of_pods.is_some();
        HolderLife {
            since,
            ends_by: of_whole.or(of_pods).or(supervised),
            is_bound,
        }
    }
}

/// When a holder of GPUs began and ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct HolderLife {
    pub since: Option<Timestamp>,
    /// When a limit ends it.
    pub ends_by: Option<Timestamp>,
    /// True when it cannot last longer than that.
    pub is_bound: bool,
}

/// Returns the seconds that each pod of a Job may run, where none is tried again and all run at
/// once.
fn of_one_try(job: &Value) -> Option<i64> {
    let number = |pointer: &str| job.pointer(pointer).and_then(Value::as_i64);
    let retries = number("/spec/backoffLimitPerIndex").or_else(|| number("/spec/backoffLimit"))?;
    let at_once =
        number("/spec/parallelism").unwrap_or(1) >= number("/spec/completions").unwrap_or(1);
    number("/spec/template/spec/activeDeadlineSeconds").filter(|_| retries == 0 && at_once)
}

/// Returns the seconds that our supervisor of ranks gives a job.
fn supervised(job: &Value) -> Option<i64> {
    if job["metadata"]["labels"][MANAGED_BY] != MANAGED_BY_US {
        return None;
    }
    let words = job
        .pointer("/spec/template/spec/containers/0/command")?
        .as_array()?;
    let at = words.iter().position(|word| word == "--max-runtime")?;
    let seconds: f64 = words.get(at + 1)?.as_str()?.parse().ok()?;
    (0.0..1e9)
        .contains(&seconds)
        .then_some(seconds.round() as i64)
}
