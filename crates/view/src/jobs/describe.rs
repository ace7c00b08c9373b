//! Renders `describe job` as text.

use std::collections::BTreeSet;

use jiff::Timestamp;

use gpuctl_core::model::{Autoscaler, GpuCount, Job, JobKind, Pod, QueuePosition, Status};
use gpuctl_manifest::spec::masked;

use super::description::{Description, pod_figures};
use super::events::recent;
use super::pods;
use super::remaining::RemainingTime;
use super::startup;
use crate::TextStyle;
use crate::format::chart::{ChartFrame, chart};
use crate::format::coverage;
use crate::format::named_lines::NamedLines;
use crate::format::text::{age, bar, clean, count, paint, span, status_color};

/// Renders a summary of the job, followed by the details.
pub fn text(description: &Description, style: TextStyle, now: Timestamp) -> String {
    let job = &description.job;
    let mut lines = NamedLines::below(heading(description, style, now), style);
    add_trouble(&mut lines, description);
    add_request(&mut lines, job);
    add_work(&mut lines, description, style);
    add_access(&mut lines, description);
    add_times(&mut lines, job, now);
    lines.add_known("start-up", startup::text(&description.startup));
    add_conditions(&mut lines, job);
    lines.add("objects", description.objects.join(", "));
    let mut text = lines.into_text();
    text.push_str(&utilization_chart(description, style));
    if !description.last_lines.is_empty() {
        let last_lines = description.last_lines.iter().map(String::as_str);
        text.push_str(&indented("LAST LINES", last_lines));
    }
    let figures = |pod: &Pod| pod_figures(description, pod);
    text.push_str(&pods::table(job, style, now, figures));
    text.push_str(&recent(&description.events, style, now));
    if let Some(source) = &job.source {
        text.push_str(&indented("SUBMITTED", masked(source).lines()));
    }
    text
}

fn heading(description: &Description, style: TextStyle, now: Timestamp) -> String {
    let Description { job, state, .. } = description;
    let status = paint(&state.to_string(), status_color(state.status), style);
    let since = job
        .started_at()
        .filter(|_| !state.status.is_final())
        .map_or(String::new(), |time| {
            format!(" for {}", age(Some(time), now))
        });
    let pool = job
        .pool
        .as_deref()
        .map_or(String::new(), |pool| format!(" / {}", clean(pool)));
    format!(
        "{}   {}   {status}{since}   {}{pool}\n",
        job.name, job.kind, job.namespace
    )
}

/// Adds the reason of the job's status, and advice.
fn add_trouble(lines: &mut NamedLines, description: &Description) {
    let Description { job, state, .. } = description;
    lines.add_known("why", state.message.as_deref().map(clean));
    if state.reason.as_deref() == Some("OOMKilled") {
        let limit = job
            .memory
            .as_deref()
            .map_or(String::new(), |memory| format!("{} of ", clean(memory)));
        lines.add(
            "advice",
            format!(
                "{limit}host memory was not enough (this is not GPU memory): \
                 raise `resources.memory`"
            ),
        );
    }
}

/// Adds the requested resources and the held GPUs.
fn add_request(lines: &mut NamedLines, job: &Job) {
    let kind = job
        .gpu_type
        .as_deref()
        .map_or("GPU".to_owned(), |kind| clean(kind).into_owned());
    let pods_wanted = count(job.pods_wanted.into(), "pod");
    lines.add(
        "GPUs",
        match job.gpus_per_pod {
            GpuCount::ZERO => format!("none, in {pods_wanted}"),
            each => format!(
                "{} × {kind} in {pods_wanted} ({each} each){}",
                job.gpus(),
                held_on_nodes(job)
            ),
        },
    );
    let cpu = job.cpu.as_deref().unwrap_or("-");
    lines.add(
        "per pod",
        format!("{cpu} CPU, memory {}", job.memory.as_deref().unwrap_or("-")),
    );
}

fn held_on_nodes(job: &Job) -> String {
    let nodes: BTreeSet<&str> = job
        .pods
        .iter()
        .filter(|pod| pod.holds())
        .filter_map(|pod| pod.node.as_deref())
        .collect();
    match nodes.len() {
        0 => String::new(),
        _ => format!(
            "; holds {} on {}",
            job.gpus_held(),
            nodes.into_iter().collect::<Vec<_>>().join(", ")
        ),
    }
}

/// Adds the job's progress and speed.
fn add_work(lines: &mut NamedLines, description: &Description, style: TextStyle) {
    let progress = description.progress.map(|percent| bar(percent, 20, style));
    lines.add_known("progress", progress);
    if description.job.kind == JobKind::Training && description.state.status == Status::Running {
        let remaining = description.remaining.map(RemainingTime::from);
        lines.add(
            "remaining",
            remaining.map_or_else(|| "-".to_owned(), RemainingTime::text),
        );
    }
    lines.add_known("throughput", description.throughput.as_deref().map(clean));
    if let Some(work) = &description.work {
        let held = description.job.gpus_held();
        lines.add(
            "GPU use",
            coverage::usage(&work.figures, held.0).unwrap_or_else(|| "-".to_owned()),
        );
        if let Some(note) = &work.note {
            lines.add("note", paint(note, Some(colored::Color::Yellow), style));
        }
    }
}

/// Adds the job's description, addresses, autoscaler, user and queue.
fn add_access(lines: &mut NamedLines, description: &Description) {
    let job = &description.job;
    lines.add_known("description", job.description.as_deref().map(clean));
    for address in &description.addresses {
        lines.add(
            address.kind,
            clean(address.url.as_deref().unwrap_or("pending")),
        );
    }
    let autoscaler = description.autoscaler.as_ref().map(autoscaler_text);
    lines.add_known("autoscaler", autoscaler);
    lines.add_known("user", job.user.as_deref().map(clean));
    if let Some(queue) = &job.queue {
        let position = job.queue_position.map_or(String::new(), queue_position);
        lines.add("queue", format!("{}{position}", clean(queue)));
    }
    lines.add_known("queue priority", job.queue_priority.as_deref().map(clean));
    let remote = job
        .remote
        .as_ref()
        .map(|remote| clean(&remote.to_string()).into_owned());
    lines.add_known("runs elsewhere", remote);
}

fn add_times(lines: &mut NamedLines, job: &Job, now: Timestamp) {
    lines.add("created", format!("{} ago", age(job.created_at, now)));
    if let Some(ended_at) = job.ended_at() {
        let ran = job.started_at().map_or(String::new(), |started_at| {
            format!(", after {}", span(ended_at.duration_since(started_at)))
        });
        lines.add("finished", format!("{} ago{ran}", age(Some(ended_at), now)));
    }
}

fn add_conditions(lines: &mut NamedLines, job: &Job) {
    let conditions: Vec<String> = job
        .conditions
        .iter()
        .map(|(kind, (reason, _))| format!("{} ({})", clean(kind), clean(reason)))
        .collect();
    lines.add_list("conditions", &conditions);
}

/// Draws the utilization of the last hour if the output is a terminal.
fn utilization_chart(description: &Description, style: TextStyle) -> String {
    let measured = description
        .work
        .as_ref()
        .filter(|work| !work.curve.is_empty());
    let Some((work, width)) = measured.zip(style.width) else {
        return String::new();
    };
    let frame = ChartFrame {
        from: work.from,
        to: work.to,
        top: 100.0,
        height: 5,
        width: width.min(100),
    };
    let sampled = format!(
        "GPU utilization, {} of {} sampled",
        work.figures.sampled,
        count(description.job.gpus_held().0, "GPU")
    );
    chart(&work.curve, frame, &sampled, style)
}

/// Indents lines of external text below a heading.
fn indented<'a>(heading: &str, lines: impl Iterator<Item = &'a str>) -> String {
    let mut text = format!("{heading}\n");
    for line in lines {
        text.push_str(format!("  {}", clean(line)).trim_end());
        text.push('\n');
    }
    text
}

/// Formats an autoscaler, such as `1 to 10 replicas; gpu_utilization 45% of 70%`.
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

/// Formats the position of a job in its queue, for printing after the queue's name.
fn queue_position(position: QueuePosition) -> String {
    let queue_length = position
        .waiting
        .map_or(String::new(), |waiting| format!(" of {waiting}"));
    format!(
        ": position {}{queue_length}, position {} in the cluster queue",
        position.in_queue, position.in_cluster_queue
    )
}
