//! Collects facts about one job for `describe job`, and renders them as JSON.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::facts::startup::Startup;
use gpuctl_core::model::values::quantity;
use gpuctl_core::model::{Autoscaler, Endpoint, Event, Figures, Job, Pod, Point, Readings, State};
use gpuctl_core::model::{GpuCount, Percent, Watts};
use gpuctl_core::stats::logs::remaining::Remaining;

use super::events;
use super::events::EventDocument;
use super::pods;
use super::pods::PodDocument;
use super::remaining::RemainingTime;
use super::startup::StartupItem;
use crate::format::coverage::{Coverage, memory_of, rounded};

/// The facts about a job that `describe job` shows.
#[derive(Clone, Debug)]
pub struct Description {
    pub job: Job,
    pub state: State,
    /// In percent.
    pub progress: Option<Percent>,
    pub remaining: Option<Remaining>,
    pub startup: Startup,
    /// Oldest first.
    pub events: Vec<Event>,
    /// KIND/NAME of the job's objects except its pods.
    pub objects: Vec<String>,
    pub addresses: Vec<Endpoint>,
    pub autoscaler: Option<Autoscaler>,
    /// Speed according to the job's log, such as `245 tokens/sec`.
    pub throughput: Option<String>,
    /// Use of the job's devices, or `None` without metrics.
    pub work: Option<JobWork>,
    /// Last log lines of the pod that failed first. Empty unless the job failed.
    pub last_lines: Vec<String>,
}

/// Use of a job's devices now and in the last hour.
#[derive(Clone, Debug)]
pub struct JobWork {
    pub readings: Readings,
    pub figures: Figures,
    /// Mean utilization of the devices in percent.
    pub curve: Vec<Point>,
    /// Start of the curve in Unix milliseconds.
    pub from: i64,
    pub to: i64,
    /// A finding from the metrics of the devices.
    pub note: Option<String>,
}

/// The JSON output of `describe job`. `resources.gpu` is per pod; `gpuTotal` is for all pods.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobDescription<'a> {
    job_id: &'a str,
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
    kind: &'static str,
    version: &'a str,
    /// `job.description` of the job file.
    description: Option<&'a str>,
    yaml_content: Option<&'a str>,
    status: &'static str,
    reason: Option<&'a str>,
    message: Option<&'a str>,
    pool: Option<&'a str>,
    user: Option<&'a str>,
    queue: Option<&'a str>,
    queue_reason: Option<&'a str>,
    queue_position: Option<u64>,
    cluster_queue_position: Option<u64>,
    /// Kueue's WorkloadPriorityClass; `null` if the job names none.
    queue_priority: Option<&'a str>,
    /// The cluster that MultiKueue chose for the job; `null` if this cluster runs it.
    remote_cluster: Option<&'a str>,
    resources: JobResourceItem<'a>,
    gpu_held: GpuCount,
    progress: Option<u8>,
    /// Estimated time until a running training ends; `null` if its progress shows no rate.
    remaining: Option<RemainingTime>,
    metrics: MeasuredValues,
    created_at: Option<Timestamp>,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    startup: StartupItem,
    k8s_resources: KubernetesResources<'a>,
    addresses: Vec<AddressDocument<'a>>,
    autoscaling: Option<AutoscalingDocument<'a>>,
    pods: Vec<PodDocument<'a>>,
    conditions: Vec<ConditionDocument<'a>>,
    events: Vec<EventDocument<'a>>,
    /// Last lines of the pod that failed first; only for failed jobs.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    last_lines: &'a [String],
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct JobResourceItem<'a> {
    gpu: GpuCount,
    gpu_total: GpuCount,
    gpu_type: Option<&'a str>,
    /// Number of CPUs, which can be a fraction.
    cpu: Option<f64>,
    memory: Option<&'a str>,
    node_count: u32,
}

/// Measured values; `null` without a metrics source.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct MeasuredValues {
    gpu_utilization: Option<Percent>,
    memory_usage: Option<String>,
    /// Always `null`: no exporter measures it.
    network_latency: Option<String>,
    throughput: Option<String>,
    /// The lowest utilization among its devices, in percent.
    gpu_utilization_lowest: Option<Percent>,
    power_watts: Option<Watts>,
    gpu_sampled: Option<u64>,
    note: Option<String>,
    coverage: Option<Coverage>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct KubernetesResources<'a> {
    job_name: &'a str,
    pods: Vec<&'a str>,
    objects: &'a [String],
}

/// An address of the job. Its URL is `null` while the address is pending.
#[derive(JsonSchema, Serialize)]
struct AddressDocument<'a> {
    r#type: &'static str,
    url: Option<&'a str>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct AutoscalingDocument<'a> {
    min_replicas: u32,
    max_replicas: u32,
    desired_replicas: Option<u32>,
    metrics: Vec<ScalingDocument<'a>>,
    problem: Option<&'a str>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct ScalingDocument<'a> {
    metric: &'a str,
    /// In the unit of the metric, which is either percent or requests.
    current: Option<f64>,
    target: Option<f64>,
    /// The value of `current` if the metric is a percentage.
    current_percent: Option<f64>,
    target_percent: Option<f64>,
}

#[derive(JsonSchema, Serialize)]
struct ConditionDocument<'a> {
    r#type: &'a str,
    reason: &'a str,
    message: &'a str,
}

pub fn document(description: &Description) -> JobDescription<'_> {
    let Description {
        job,
        state,
        progress,
        remaining,
        events,
        objects,
        addresses,
        autoscaler,
        ..
    } = description;
    JobDescription {
        job_id: &job.name,
        name: &job.display_name,
        namespace: &job.namespace,
        uid: &job.uid,
        kind: job.kind.word(),
        version: &job.version,
        yaml_content: job.source.as_deref(),
        status: state.status.word(),
        reason: state.reason.as_deref(),
        message: state.message.as_deref(),
        pool: job.pool.as_deref(),
        user: job.user.as_deref(),
        queue: job.queue.as_deref(),
        queue_reason: job
            .queue_verdict
            .as_ref()
            .map(|verdict| verdict.reason.as_str()),
        queue_position: job.queue_position.map(|position| position.in_queue),
        cluster_queue_position: job.queue_position.map(|position| position.in_cluster_queue),
        queue_priority: job.queue_priority.as_deref(),
        remote_cluster: job
            .remote
            .as_ref()
            .and_then(|remote| remote.cluster.as_deref()),
        description: job.description.as_deref(),
        resources: requested(job),
        gpu_held: job.gpus_held(),
        progress: progress.map(super::list::whole_percent),
        remaining: remaining.map(RemainingTime::from),
        metrics: measured(description),
        created_at: job.created_at,
        started_at: job.started_at(),
        finished_at: job.ended_at(),
        startup: StartupItem::from(&description.startup),
        k8s_resources: kubernetes_resources(job, objects),
        addresses: addresses.iter().map(address).collect(),
        autoscaling: autoscaler.as_ref().map(autoscaling),
        pods: job
            .current_pods()
            .into_iter()
            .map(|pod| pods::pod_document(pod, pod_figures(description, pod)))
            .collect(),
        conditions: conditions(job),
        events: events.iter().map(events::event_document).collect(),
        last_lines: &description.last_lines,
    }
}

fn requested(job: &Job) -> JobResourceItem<'_> {
    JobResourceItem {
        gpu: job.gpus_per_pod,
        gpu_total: job.gpus(),
        gpu_type: job.gpu_type.as_deref(),
        cpu: job
            .cpu
            .as_deref()
            .and_then(quantity::milli)
            .map(|milli| milli as f64 / 1000.0),
        memory: job.memory.as_deref(),
        node_count: job.pods_wanted,
    }
}

fn kubernetes_resources<'a>(job: &'a Job, objects: &'a [String]) -> KubernetesResources<'a> {
    KubernetesResources {
        job_name: &job.name,
        pods: job
            .current_pods()
            .into_iter()
            .map(|pod| pod.name.as_str())
            .collect(),
        objects,
    }
}

fn address(endpoint: &Endpoint) -> AddressDocument<'_> {
    AddressDocument {
        r#type: endpoint.kind,
        url: endpoint.url.as_deref(),
    }
}

fn conditions(job: &Job) -> Vec<ConditionDocument<'_>> {
    job.conditions
        .iter()
        .map(|(kind, (reason, message))| ConditionDocument {
            r#type: kind,
            reason,
            message,
        })
        .collect()
}

fn measured(description: &Description) -> MeasuredValues {
    let figures = description.work.as_ref().map(|work| work.figures);
    MeasuredValues {
        gpu_utilization: figures.and_then(|figures| figures.utilization).map(rounded),
        memory_usage: figures.as_ref().and_then(memory_of),
        network_latency: None,
        throughput: description.throughput.clone(),
        gpu_utilization_lowest: figures.and_then(|figures| figures.lowest).map(rounded),
        power_watts: figures.and_then(|figures| figures.power).map(rounded),
        gpu_sampled: figures.map(|figures| figures.sampled),
        note: description.work.as_ref().and_then(|work| work.note.clone()),
        coverage: description
            .work
            .as_ref()
            .map(|work| Coverage::from(&work.readings)),
    }
}

/// Returns the means of the metrics over the devices of one pod.
pub(super) fn pod_figures(description: &Description, pod: &Pod) -> Option<Figures> {
    let work = description.work.as_ref().filter(|_| pod.holds())?;
    Some(
        work.readings
            .figures_of(&description.job.namespace, &[pod.name.as_str()]),
    )
}

fn autoscaling(autoscaler: &Autoscaler) -> AutoscalingDocument<'_> {
    AutoscalingDocument {
        min_replicas: autoscaler.min_replicas,
        max_replicas: autoscaler.max_replicas,
        desired_replicas: autoscaler.desired_replicas,
        metrics: autoscaler
            .metrics
            .iter()
            .map(|scaling| ScalingDocument {
                metric: &scaling.metric,
                current: scaling.current,
                target: scaling.target,
                current_percent: scaling.current.filter(|_| scaling.is_percent()),
                target_percent: scaling.target.filter(|_| scaling.is_percent()),
            })
            .collect(),
        problem: autoscaler.problem.as_deref(),
    }
}
