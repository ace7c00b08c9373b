//! Renders `describe job`.

use std::collections::BTreeSet;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::values::quantity;
use gpuctl_core::model::{
    Autoscaler, Endpoint, Event, Figures, Job, Pod, Point, QueuePosition, Readings, State,
};
use gpuctl_core::model::{GpuCount, Percent, Watts};
use gpuctl_manifest::spec::masked;

use super::events;
use super::events::{EventDocument, recent};
use super::pods;
use super::pods::PodDocument;
use crate::TextStyle;
use crate::format::chart::{ChartFrame, chart};
use crate::format::coverage;
use crate::format::coverage::{Coverage, memory_of, rounded};
use crate::format::text::{
    age, bar, clean, count, paint, span, state, status_color, status_line, wrapped,
};

/// What is known of a job.
#[derive(Clone, Debug)]
pub struct Description {
    pub job: Job,
    pub state: State,
    /// Percent.
    pub progress: Option<Percent>,
    /// Oldest first.
    pub events: Vec<Event>,
    /// Objects of the job besides its pods, as `kind/name`.
    pub objects: Vec<String>,
    /// Where it answers.
    pub addresses: Vec<Endpoint>,
    pub autoscaler: Option<Autoscaler>,
    /// What it says of its own speed: `245 tokens/sec`.
    pub throughput: Option<String>,
    /// What its devices do; `None` without metrics.
    pub work: Option<JobWork>,
    /// Of the pod that failed first; none of a job that did not fail.
    pub last_lines: Vec<String>,
}

/// What a job's devices do, now and in the last hour.
#[derive(Clone, Debug)]
pub struct JobWork {
    pub readings: Readings,
    pub figures: Figures,
    /// Mean utilization of its devices in percent.
    pub curve: Vec<Point>,
    /// Unix milliseconds.
    pub from: i64,
    pub to: i64,
    /// What the devices' figures suggest.
    pub note: Option<String>,
}

/// The answer of `describe job`. `resources.gpu` is per pod, `gpuTotal` the product with the pods.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobDescription<'a> {
    job_id: &'a str,
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
    kind: &'static str,
    version: &'a str,
    /// `job.description`.
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
    resources: JobResourceItem<'a>,
    gpu_held: GpuCount,
    progress: Option<u8>,
    metrics: MeasuredValues,
    created_at: Option<Timestamp>,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    k8s_resources: KubernetesResources<'a>,
    addresses: Vec<AddressDocument<'a>>,
    autoscaling: Option<AutoscalingDocument<'a>>,
    pods: Vec<PodDocument<'a>>,
    conditions: Vec<ConditionDocument<'a>>,
    events: Vec<EventDocument<'a>>,
    /// Of the pod that failed first; only of a failed job.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    last_lines: &'a [String],
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct JobResourceItem<'a> {
    gpu: GpuCount,
    gpu_total: GpuCount,
    gpu_type: Option<&'a str>,
    /// Whole or part of CPUs.
    cpu: Option<f64>,
    memory: Option<&'a str>,
    node_count: u32,
}

/// Measured values; unknown without a metrics source.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct MeasuredValues {
    gpu_utilization: Option<Percent>,
    memory_usage: Option<String>,
    /// No exporter tells it.
    network_latency: Option<String>,
    throughput: Option<String>,
    /// The lowest of its devices in percent.
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

/// A way to the job; without a URL it is still being made.
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
    /// In the unit of the metric: percent, or requests.
    current: Option<f64>,
    target: Option<f64>,
    /// The same where it is percent.
    current_percent: Option<f64>,
    target_percent: Option<f64>,
}

#[derive(JsonSchema, Serialize)]
struct ConditionDocument<'a> {
    r#type: &'a str,
    reason: &'a str,
    message: &'a str,
}

/// Returns the job as JSON.
pub fn document(description: &Description) -> JobDescription<'_> {
    let Description {
        job,
        state,
        progress,
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
        description: job.description.as_deref(),
        resources: JobResourceItem {
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
        },
        gpu_held: job.gpus_held(),
        progress: progress.map(super::list::whole_percent),
        metrics: metrics(description),
        created_at: job.created_at,
        started_at: job.started_at(),
        finished_at: job.ended_at(),
        k8s_resources: KubernetesResources {
            job_name: &job.name,
            pods: job
                .current_pods()
                .into_iter()
                .map(|pod| pod.name.as_str())
                .collect(),
            objects,
        },
        addresses: addresses
            .iter()
            .map(|way| AddressDocument {
                r#type: way.kind,
                url: way.url.as_deref(),
            })
            .collect(),
        autoscaling: autoscaler.as_ref().map(autoscaling),
        pods: job
            .current_pods()
            .into_iter()
            .map(|pod| pods::pod_document(pod, of_pod(description, pod)))
            .collect(),
        conditions: job
            .conditions
            .iter()
            .map(|(kind, (reason, message))| ConditionDocument {
                r#type: kind,
                reason,
                message,
            })
            .collect(),
        events: events.iter().map(events::event_document).collect(),
        last_lines: &description.last_lines,
    }
}

fn metrics(description: &Description) -> MeasuredValues {
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

/// Means over the devices of one pod.
fn of_pod(description: &Description, pod: &Pod) -> Option<Figures> {
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

/// Returns the job for people: the answer first, the detail after.
pub fn text(description: &Description, look: TextStyle, now: Timestamp) -> String {
    let Description {
        job,
        state: found,
        progress,
        events,
        objects,
        addresses,
        autoscaler,
        ..
    } = description;
    let status = paint(&state(found), status_color(found.status), look);
    let since = job
        .started_at()
        .filter(|_| !found.status.is_final())
        .map_or(String::new(), |at| format!(" for {}", age(Some(at), now)));
    let pool = job
        .pool
        .as_deref()
        .map_or(String::new(), |pool| format!(" / {}", clean(pool)));
    let mut text = format!(
        "{}   {}   {status}{since}   {}{pool}\n",
        job.name, job.kind, job.namespace
    );
    let mut line =
        |name: &str, value: String| text.push_str(&status_line(name, &wrapped(&value, 15, look)));
    if let Some(message) = &found.message {
        line("why", clean(message).into_owned());
    }
    if found.reason.as_deref() == Some("OOMKilled") {
        let limit = job
            .memory
            .as_deref()
            .map_or(String::new(), |memory| format!("{} of ", clean(memory)));
        line(
            "advice",
            format!(
                "{limit}host memory were not enough, GPU memory is another matter: raise `resources.memory`"
            ),
        );
    }
    let kind = job
        .gpu_type
        .as_deref()
        .map_or("GPU".to_owned(), |kind| clean(kind).into_owned());
    let nodes: BTreeSet<&str> = job
        .pods
        .iter()
        .filter(|pod| pod.holds())
        .filter_map(|pod| pod.node.as_deref())
        .collect();
    let held = match nodes.len() {
        0 => String::new(),
        _ => format!(
            "; holds {} on {}",
            job.gpus_held(),
            nodes.into_iter().collect::<Vec<_>>().join(", ")
        ),
    };
    let pods_wanted = count(job.pods_wanted.into(), "pod");
    line(
        "GPUs",
        match job.gpus_per_pod {
            GpuCount::ZERO => format!("none, in {pods_wanted}"),
            each => format!(
                "{} × {kind} in {pods_wanted} ({each} each){held}",
                job.gpus()
            ),
        },
    );
    let cpu = job.cpu.as_deref().unwrap_or("-");
    line(
        "per pod",
        format!("{cpu} CPU, memory {}", job.memory.as_deref().unwrap_or("-")),
    );
    if let Some(percent) = progress {
        line("progress", bar(*percent, 20, look));
    }
    if let Some(throughput) = &description.throughput {
        line("throughput", clean(throughput).into_owned());
    }
    if let Some(work) = &description.work {
        line(
            "GPU use",
            coverage::use_of(&work.figures, job.gpus_held().0).unwrap_or_else(|| "-".to_owned()),
        );
        if let Some(note) = &work.note {
            line("note", paint(note, Some(colored::Color::Yellow), look));
        }
    }
    if let Some(description) = &job.description {
        line("description", clean(description).into_owned());
    }
    for way in addresses {
        let url = way.url.as_deref().map_or("pending", |url| url);
        line(way.kind, clean(url).into_owned());
    }
    if let Some(autoscaler) = autoscaler {
        line("autoscaler", autoscaler_text(autoscaler));
    }
    if let Some(user) = &job.user {
        line("user", clean(user).into_owned());
    }
    if let Some(queue) = &job.queue {
        line(
            "queue",
            format!(
                "{}{}",
                clean(queue),
                job.queue_position.map_or(String::new(), queue_place)
            ),
        );
    }
    line("created", format!("{} ago", age(job.created_at, now)));
    if let Some(at) = job.ended_at() {
        let ran = job.started_at().map_or(String::new(), |from| {
            format!(", after {}", span(at.duration_since(from)))
        });
        line("finished", format!("{} ago{ran}", age(Some(at), now)));
    }
    if !job.conditions.is_empty() {
        let condition = |(kind, (reason, _)): (&String, &(String, String))| {
            format!("{} ({})", clean(kind), clean(reason))
        };
        line(
            "conditions",
            job.conditions
                .iter()
                .map(condition)
                .collect::<Vec<_>>()
                .join(", "),
        );
    }
    line("objects", objects.join(", "));
    if let Some(work) = description
        .work
        .as_ref()
        .filter(|work| look.width.is_some() && !work.curve.is_empty())
    {
        let width = look.width.map_or(80, |width| width.min(100));
        let frame = ChartFrame {
            from: work.from,
            to: work.to,
            top: 100.0,
            height: 5,
            width,
        };
        let sampled = format!(
            "GPU utilization, {} of {} GPUs sampled",
            work.figures.sampled,
            job.gpus_held()
        );
        text.push_str(&chart(&work.curve, frame, &sampled, look));
    }
    if !description.last_lines.is_empty() {
        text.push_str("LAST LINES\n");
        for line in &description.last_lines {
            text.push_str(format!("  {}", clean(line)).trim_end());
            text.push('\n');
        }
    }
    let figures = |pod: &Pod| of_pod(description, pod);
    text.push_str(&pods::table(job, look, now, figures));
    text.push_str(&recent(events, look, now));
    if let Some(source) = &job.source {
        text.push_str("SUBMITTED\n");
        for line in masked(source).lines() {
            text.push_str(format!("  {}", clean(line)).trim_end());
            text.push('\n');
        }
    }
    text
}

/// Formats as `1 to 10 replicas; gpu_utilization 45% of 70%`.
fn autoscaler_text(autoscaler: &Autoscaler) -> String {
    let mut text = format!(
        "{} to {} replicas",
        autoscaler.min_replicas, autoscaler.max_replicas
    );
    for scaling in &autoscaler.metrics {
        let unit = if scaling.is_percent() { "%" } else { "" };
        let figure = |value: Option<f64>| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.0}{unit}"))
        };
        text.push_str(&format!(
            "; {} {} of {}",
            clean(&scaling.metric),
            figure(scaling.current),
            figure(scaling.target)
        ));
    }
    if let Some(problem) = &autoscaler.problem {
        text.push_str(&format!("; does not scale: {}", clean(problem)));
    }
    text
}

/// Returns where a job stands, to follow the name of its queue.
fn queue_place(position: QueuePosition) -> String {
    let of = position
        .waiting
        .map_or(String::new(), |waiting| format!(" of {waiting}"));
    format!(
        ": place {}{of} in it, place {} in its cluster queue",
        position.in_queue, position.in_cluster_queue
    )
}
