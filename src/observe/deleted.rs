//! Reads the series of kube-state-metrics about a deleted job or pod, for `why`. Without such
//! series, or if they are unreadable, `why` reports that the name does not exist.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join;
use jiff::Timestamp;

use crate::context::Context;
use crate::lookup;
use crate::observe::metrics::{self, StoreUse};
use crate::observe::why::DiagnosedJob;
use gpuctl_cluster::{Connection, unless_forbidden};
use gpuctl_core::model::facts::job_pod::OWN_CONTAINER;
use gpuctl_core::model::values::whole;
use gpuctl_core::model::{Job, Pod, PodPhase, Series, UnixSeconds};
use gpuctl_core::stats::exporters::kube_state;
use gpuctl_diagnosis::{Memory, Subject, remembered};
use gpuctl_prometheus::Prometheus;

/// Range of history to search, in seconds.
const HISTORY_SECONDS: i64 = 7 * 86_400;
/// Short, because most names without an object are typing errors.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Explains why a deleted job or pod ended. Returns `None` if Prometheus has no series about it.
pub(crate) async fn diagnose_deleted(
    context: &Context,
    connection: &Connection,
    text: &str,
) -> Option<DiagnosedJob> {
    let (namespace, name) = lookup::split(text).ok()?;
    let namespace = namespace.unwrap_or(&connection.namespace);
    let timeout = TIMEOUT.min(context.access.request_timeout);
    let search = async {
        let prometheus = metrics::find(
            context,
            connection,
            timeout,
            StoreUse::Sums {
                since: UnixSeconds::from(context.now()) - HISTORY_SECONDS,
            },
        )
        .await
        .ok()?;
        read(&prometheus, namespace, name).await
    };
    let (mut memory, is_job) = tokio::time::timeout(timeout, search).await.ok()??;
    memory.events = unless_forbidden(connection.events().for_job(&memory.job).await)
        .ok()
        .flatten();
    let answer = remembered(&memory, context.now());
    let kind = if is_job { "job" } else { "pod" };
    Some(DiagnosedJob {
        subject: Subject {
            kind: kind.to_owned(),
            is_managed: false,
        },
        job: memory.job,
        answer,
    })
}

/// Reads the pods of a Job, or a single pod. The flag is true if `name` is the name of a Job.
async fn read(prometheus: &Prometheus<'_>, namespace: &str, name: &str) -> Option<(Memory, bool)> {
    let owners = prometheus
        .now(&kube_state::owned(name, HISTORY_SECONDS))
        .await
        .ok()?;
    let is_in_namespace =
        |series: &&Series| kube_state::label(series, "namespace") == Some(namespace);
    let names: BTreeSet<&str> = owners
        .iter()
        .filter(is_in_namespace)
        .filter_map(|series| kube_state::label(series, "pod"))
        .collect();
    if names.is_empty() {
        return None;
    }
    let is_job = owners
        .iter()
        .filter(is_in_namespace)
        .any(|series| series.label("owner_name") == Some(name));
    let pod_names: Vec<&str> = names.iter().copied().collect();
    let ends = kube_state::ends(
        &pod_names,
        &kube_state::label_name(&owners, "pod"),
        HISTORY_SECONDS,
    );
    let job_ends = kube_state::job_ends(name, HISTORY_SECONDS);
    let (ends, job_ends) = join(prometheus.now(&ends), prometheus.now(&job_ends)).await;
    let (ends, job_ends) = (ends.ok()?, job_ends.ok()?);
    let mut memory = Memory {
        job: Job {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..Job::default()
        },
        ..Memory::default()
    };
    // If `name` is a pod, a Job of the same name is unrelated.
    for series in job_ends.iter().filter(is_in_namespace).filter(|_| is_job) {
        add_to_job(&mut memory, series);
    }
    let mut pods: BTreeMap<&str, Pod> = BTreeMap::new();
    for series in ends.iter().filter(is_in_namespace) {
        let Some(pod) = kube_state::label(series, "pod").filter(|pod| names.contains(pod)) else {
            continue;
        };
        let entry = pods.entry(pod).or_insert_with(|| Pod {
            name: pod.to_owned(),
            rank: rank(name, pod),
            ..Pod::default()
        });
        add_to_pod(entry, &mut memory.ends, series);
    }
    // Drop pods of an earlier, deleted Job with the same name.
    let start = memory.job.created_at;
    memory.job.pods = pods
        .into_values()
        .filter(|pod| start.is_none() || pod.created_at >= start)
        .collect();
    (!memory.job.pods.is_empty()).then_some((memory, is_job))
}

/// Returns the value of a label. An empty value counts as missing.
fn label(series: &Series, name: &str) -> Option<String> {
    series
        .label(name)
        .filter(|text| !text.is_empty())
        .map(ToOwned::to_owned)
}

/// Adds the condition, start or end from one series to the Job.
fn add_to_job(memory: &mut Memory, series: &Series) {
    let is_true = series.label("condition") == Some("true");
    match series.name() {
        "kube_job_created" => memory.job.created_at = seconds(series),
        "kube_job_complete" => memory.succeeded |= is_true,
        "kube_job_failed" => memory.failed |= is_true,
        "kube_job_status_failed" => memory.reason = label(series, "reason"),
        _ => {}
    }
}

/// Adds the facts from one series to a pod. `ends` receives the reason why the pod terminated,
/// preferably the reason of the job's own container.
fn add_to_pod(pod: &mut Pod, ends: &mut BTreeMap<String, String>, series: &Series) {
    pod.uid = label(series, "uid").unwrap_or_else(|| pod.uid.clone());
    match series.name() {
        "kube_pod_created" => pod.created_at = seconds(series),
        "kube_pod_completion_time" => pod.ended_at = seconds(series),
        "kube_pod_info" => pod.node = label(series, "node"),
        "kube_pod_status_phase" => {
            pod.phase = phase(series.label("phase").unwrap_or_default());
        }
        "kube_pod_status_reason" => pod.reason = label(series, "reason"),
        "kube_pod_container_status_terminated_reason" => {
            // For exit code 0, the kubelet reports `Completed`, which does not explain a failure.
            let Some(reason) = label(series, "reason").filter(|reason| reason != "Completed")
            else {
                return;
            };
            let name = pod.name.clone();
            if series.label("container") == Some(OWN_CONTAINER) {
                ends.insert(name, reason);
            } else {
                ends.entry(name).or_insert(reason);
            }
        }
        _ => {}
    }
}

fn seconds(series: &Series) -> Option<Timestamp> {
    // kube-state-metrics exports times as Unix seconds.
    Timestamp::from_second(whole::to_i64(series.points.last()?.value)).ok()
}

fn phase(phase_name: &str) -> PodPhase {
    match phase_name {
        "Pending" => PodPhase::Pending,
        "Running" => PodPhase::Running,
        "Succeeded" => PodPhase::Succeeded,
        "Failed" => PodPhase::Failed,
        _ => PodPhase::default(),
    }
}

/// Parses the rank from a pod name of an Indexed Job, `JOB-RANK-abcde`.
fn rank(job: &str, pod: &str) -> Option<u32> {
    let (rank, _) = pod.strip_prefix(job)?.strip_prefix('-')?.split_once('-')?;
    rank.parse().ok()
}
