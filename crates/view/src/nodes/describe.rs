//! Renders `describe node` as text.

use jiff::Timestamp;

use gpuctl_core::model::facts::condition::REMEDIATION_LABEL;
use gpuctl_core::model::values::quantity;
use gpuctl_core::model::{Celsius, HostCondition, NodeHealth, NodeUsage, Watts};

use super::document::{GpuItem, gpus};
use super::numbers::numbers_text;
use crate::format::coverage;
use crate::format::named_lines::NamedLines;
use crate::format::table::{Cell, Table, left, percentages, right};
use crate::format::text::{age, clean, or_dash, paint};
use crate::{Format, TextStyle};

/// Renders a node with its state, resources, holders of devices, and labels.
pub fn text(host: &NodeUsage, style: TextStyle, now: Timestamp) -> String {
    let mut lines = NamedLines::below(heading(host, style), style);
    add_devices(&mut lines, host);
    add_requests(&mut lines, host);
    add_conditions(&mut lines, host);
    add_system(&mut lines, host);
    lines.add(
        "created",
        format!("{} ago", age(host.details.created_at, now)),
    );
    let mut text = lines.into_text();
    text.push_str(&holder_table(host, style));
    text.push_str(&device_table(host, style));
    text.push_str("LABELS\n");
    for (key, value) in &host.details.node.labels {
        text.push_str(&format!("  {}={}\n", clean(key), clean(value)));
    }
    text
}

fn heading(host: &NodeUsage, style: TextStyle) -> String {
    let node = &host.details.node;
    let color = match host.health {
        NodeHealth::Active => colored::Color::Green,
        NodeHealth::Maintaining => colored::Color::Yellow,
        NodeHealth::Faulty => colored::Color::Red,
        NodeHealth::Unknown => colored::Color::BrightBlack,
    };
    let reason = host
        .reason
        .as_deref()
        .map_or(String::new(), |reason| format!(" {}", clean(reason)));
    let status = paint(
        &format!("{}{reason}", host.health.word()),
        Some(color),
        style,
    );
    let pool = node.pool().map_or_else(
        || "no pool".to_owned(),
        |pool| format!("pool {}", clean(pool)),
    );
    format!("{}   {status}   {pool}\n", clean(&node.name))
}

/// Adds the GPUs and slices with their use.
fn add_devices(lines: &mut NamedLines, host: &NodeUsage) {
    let types: Vec<String> = host
        .types
        .iter()
        .map(|(kind, count)| format!("{count} × {}", clean(kind)))
        .collect();
    lines.add(
        "GPUs",
        match host.gpus.total {
            0 => "no whole GPUs".to_owned(),
            _ => format!("{}: {}", types.join(", "), numbers_text(host.gpus)),
        },
    );
    let usage = coverage::usage_of_nodes(std::iter::once(host));
    lines.add_known("GPU use", usage);
    for (name, count) in &host.slices {
        lines.add(
            "slices",
            format!(
                "{} × {}: {}",
                count.total,
                clean(name),
                numbers_text(*count)
            ),
        );
    }
}

/// Adds the CPU and memory that pods request.
fn add_requests(lines: &mut NamedLines, host: &NodeUsage) {
    let cpus =
        |milli: Option<i128>| or_dash(milli.map(|milli| format!("{:.1}", milli as f64 / 1000.0)));
    lines.add(
        "CPU",
        format!(
            "{} of {} requested",
            cpus(host.cpu_used_milli.map(i128::from)),
            cpus(host.capacity_milli("cpu"))
        ),
    );
    let gib = |bytes: Option<u64>| {
        or_dash(bytes.map(|bytes| format!("{:.1}", bytes as f64 / f64::from(1 << 30))))
    };
    let memory = host
        .details
        .capacity
        .get("memory")
        .and_then(|text| quantity::whole(text));
    lines.add(
        "memory",
        format!(
            "{} of {} GiB requested",
            gib(host.memory_used_bytes),
            gib(memory)
        ),
    );
}

/// Adds the taints, the conditions that report a fault, and the state of an automatic repair.
fn add_conditions(lines: &mut NamedLines, host: &NodeUsage) {
    let bad: Vec<String> = host
        .details
        .conditions
        .iter()
        .filter(|condition| condition.fault().is_some())
        .map(condition_text)
        .collect();
    lines.add_list("conditions", &bad);
    if let Some(state) = host.details.node.labels.get(REMEDIATION_LABEL) {
        lines.add("remediation", format!("NVSentinel: {}", clean(state)));
    }
    let taints: Vec<String> = host
        .details
        .node
        .taints
        .iter()
        .map(|taint| format!("{}:{}", clean(&taint.key), clean(&taint.effect)))
        .collect();
    lines.add_list("taints", &taints);
}

/// Formats a condition with its message, in which problem detectors name the recommended action.
fn condition_text(condition: &HostCondition) -> String {
    let HostCondition {
        kind,
        status,
        reason,
        message,
        ..
    } = condition;
    let mut text = format!("{} {}", clean(kind), clean(status));
    if !reason.is_empty() {
        text.push_str(&format!(" ({})", clean(reason)));
    }
    if !message.is_empty() {
        text.push_str(&format!(": {}", clean(message)));
    }
    text
}

/// Adds the operating system and its kernel.
fn add_system(lines: &mut NamedLines, host: &NodeUsage) {
    let kernel = Some(&host.details.kernel)
        .filter(|kernel| !kernel.is_empty())
        .map(|kernel| format!("kernel {}", clean(kernel)));
    let image = Some(clean(&host.details.os_image).into_owned()).filter(|image| !image.is_empty());
    let system: Vec<String> = image.into_iter().chain(kernel).collect();
    lines.add_list("system", &system);
}

fn holder_table(host: &NodeUsage, style: TextStyle) -> String {
    if host.holders.is_empty() {
        return String::new();
    }
    let mut table = Table::new([left("HOLDERS"), left("JOB"), right("GPUS"), left("SLICES")]);
    for holder in &host.holders {
        let slices: Vec<String> = holder
            .slices
            .iter()
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        table.row(vec![
            format!("{}/{}", holder.namespace, holder.pod).into(),
            holder.job.as_deref().unwrap_or_default().to_owned().into(),
            holder.gpus.to_string().into(),
            slices.join(", ").into(),
        ]);
    }
    table.show(Format::Table, true, style)
}

fn device_table(host: &NodeUsage, style: TextStyle) -> String {
    if host.devices.as_ref().is_none_or(Vec::is_empty) {
        return String::new();
    }
    let mut table = Table::new([
        left("DEVICES"),
        left("STATUS"),
        percentages("UTIL"),
        right("MEMORY"),
        right("WATTS"),
        right("TEMP"),
        left("HOLDER").yielding(),
        left("FAULT"),
    ]);
    for gpu in gpus(host) {
        table.row(device_cells(gpu));
    }
    table.show(Format::Table, true, style)
}

fn device_cells(gpu: GpuItem) -> Vec<Cell> {
    let rounded = |value: f64| format!("{value:.0}");
    let holders: Vec<String> = gpu
        .holders
        .iter()
        .map(|holder| format!("{}/{}", holder.namespace, holder.pod))
        .collect();
    let status = if gpu.stale {
        "no fresh samples"
    } else {
        gpu.status
    };
    vec![
        gpu.gpu_id.into(),
        status.into(),
        coverage::percent(gpu.utilization).into(),
        gpu.memory_usage.unwrap_or_default().into(),
        or_dash(gpu.power_watts.map(|Watts(watts)| rounded(watts))).into(),
        or_dash(
            gpu.temperature_celsius
                .map(|Celsius(degrees)| rounded(degrees)),
        )
        .into(),
        holders.join(",").into(),
        gpu.fault.unwrap_or_default().into(),
    ]
}
