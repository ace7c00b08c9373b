//! Reads the deadlines of jobs that hold GPUs, and predicts when they free enough capacity for
//! another job.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join;
use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use serde_json::Value;

use super::owner::OwnerKind;
use crate::handles::JobsApi;
use gpuctl_core::model::contract::labels::{MANAGED_BY, MANAGED_BY_US};
use gpuctl_core::model::counting::capacity::Amounts;
use gpuctl_core::model::counting::start::free_by;
use gpuctl_core::model::counting::victims::NodeLoad;
use gpuctl_core::model::values::whole;

/// Maximum number of holders to query, starting with those that hold the most devices.
const ASKED: usize = 32;
const AT_ONCE: usize = 8;

impl JobsApi<'_> {
    /// Returns the time at which deadlines will have freed enough capacity for `pods` pods on these
    /// nodes. Returns `None` if the deadlines of running jobs do not free enough.
    pub async fn capacity_by(
        self,
        requests: &Amounts,
        pods: u64,
        nodes: &BTreeMap<String, NodeLoad>,
    ) -> Option<Timestamp> {
        let mut devices: BTreeMap<&str, u64> = BTreeMap::new();
        for pod in nodes.values().flat_map(|(_, pods)| pods) {
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
        let lookups = names.into_iter().map(|holder| async move {
            let (namespace, name) = holder.split_once('/')?;
            let pods = nodes
                .values()
                .flat_map(|(_, pods)| pods)
                .filter(|pod| pod.holder == holder);
            let placed_at = pods.filter_map(|pod| pod.started_at).max();
            let lifetime = self.lifetime(namespace, name, placed_at).await;
            Some((
                holder.to_owned(),
                lifetime.ends_by.filter(|_| lifetime.is_bound)?,
            ))
        });
        let ends: BTreeMap<String, Timestamp> = stream::iter(lookups)
            .buffered(AT_ONCE)
            .filter_map(async |end| end)
            .collect()
            .await;
        free_by(requests, pods, nodes, &ends)
    }

    /// Reads when a Job started and when its deadline ends it. For other holders, reads the times
    /// from a pod. `placed_at` is when the last pod was placed: time limits of pods count from
    /// then, while the Job's own limit counts from its start.
    pub async fn lifetime(
        self,
        namespace: &str,
        name: &str,
        placed_at: Option<Timestamp>,
    ) -> HolderLifetime {
        let (jobs, pods) = (
            OwnerKind::Job.collection(Some(namespace)),
            format!("/api/v1/namespaces/{namespace}/pods"),
        );
        let (job, pod) = join(
            self.0.find_in::<Value>(&jobs, name),
            self.0.find_in::<Value>(&pods, name),
        )
        .await;
        let job_object = job
            .ok()
            .flatten()
            .or(pod.ok().flatten())
            .unwrap_or_default();
        let since = job_object
            .pointer("/status/startTime")
            .and_then(Value::as_str)
            .and_then(|text| text.parse::<Timestamp>().ok());
        let deadline = |start: Option<Timestamp>, seconds: Option<i64>| {
            start.zip(seconds).and_then(|(start, seconds)| {
                Timestamp::from_second(start.as_second().checked_add(seconds)?).ok()
            })
        };
        let job_deadline = deadline(
            since,
            job_object
                .pointer("/spec/activeDeadlineSeconds")
                .and_then(Value::as_i64),
        );
        let pod_deadline = deadline(placed_at, pod_limit(&job_object));
        // gpuctl's supervisor counts from when all ranks are present, which is some time after they
        // were placed. The result is therefore an estimate, not a bound.
        let supervised = deadline(placed_at, supervisor_limit(&job_object));
        let is_bound = job_deadline.is_some() || pod_deadline.is_some();
        HolderLifetime {
            since,
            ends_by: job_deadline.or(pod_deadline).or(supervised),
            is_bound,
        }
    }
}

/// When a holder of GPUs started and when it must end.
#[derive(Clone, Copy, Debug, Default)]
pub struct HolderLifetime {
    pub since: Option<Timestamp>,
    /// Time at which a time limit ends the holder.
    pub ends_by: Option<Timestamp>,
    /// Whether the holder cannot run beyond `ends_by`.
    pub is_bound: bool,
}

/// Returns the time limit of each pod of a Job in seconds. Returns `None` unless all pods run at
/// the same time and none is retried, because only then the limit also applies to the Job.
fn pod_limit(job: &Value) -> Option<i64> {
    let number = |pointer: &str| job.pointer(pointer).and_then(Value::as_i64);
    let retries = number("/spec/backoffLimitPerIndex").or_else(|| number("/spec/backoffLimit"))?;
    // If pods start one after the other, their time limit does not limit the duration of the Job.
    let starts_together =
        number("/spec/parallelism").unwrap_or(1) >= number("/spec/completions").unwrap_or(1);
    number("/spec/template/spec/activeDeadlineSeconds").filter(|_| retries == 0 && starts_together)
}

/// Returns the time limit in seconds that gpuctl's rank supervisor enforces.
fn supervisor_limit(job: &Value) -> Option<i64> {
    if job["metadata"]["labels"][MANAGED_BY] != MANAGED_BY_US {
        return None;
    }
    let command = job
        .pointer("/spec/template/spec/containers/0/command")?
        .as_array()?;
    // The limit is an argument of the supervisor.
    let index = command
        .iter()
        .position(|argument| argument == "--max-runtime")?;
    let seconds: f64 = command.get(index + 1)?.as_str()?.parse().ok()?;
    // The range also excludes NaN and infinity, which `parse` accepts.
    (0.0..1e9)
        .contains(&seconds)
        .then(|| whole::to_i64(seconds.round()))
}
