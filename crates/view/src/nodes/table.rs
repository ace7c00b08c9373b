//! Renders nodes as a table, with their free GPUs and why they may be unusable. Unknown values are
//! `-`, never 0.

use std::collections::BTreeMap;

use colored::Color;
use jiff::Timestamp;

use gpuctl_core::model::counting::inventory;
use gpuctl_core::model::{Count, NodeHealth, NodeUsage};

use super::document::gpus;
use super::numbers::{WITHHELD, withheld, withheld_text};
use crate::format::coverage::percent;
use crate::format::row_contexts::RowContexts;
use crate::format::table::{Cell, Table, left, percentages, right};
use crate::format::text::{count, joined, labels, or_dash};
use crate::{Format, TextStyle};

/// Formats the requested share of a resource in percent.
fn share(used_milli: Option<u128>, total: Option<i128>) -> String {
    match (
        used_milli,
        total
            .and_then(|total| u128::try_from(total).ok())
            .filter(|total| *total > 0),
    ) {
        // Add half of the total to round to the nearest percent.
        (Some(used), Some(total)) => format!("{}%", (used * 100 + total / 2) / total),
        _ => "-".to_owned(),
    }
}

fn health_color(health: NodeHealth) -> Option<Color> {
    match health {
        NodeHealth::Active => None,
        NodeHealth::Maintaining => Some(Color::Yellow),
        NodeHealth::Faulty => Some(Color::Red),
        NodeHealth::Unknown => Some(Color::BrightBlack),
    }
}

/// Formats the requested CPU and memory in percent of the node's capacity.
fn requested(host: &NodeUsage) -> [Cell; 2] {
    let cpu = share(
        host.cpu_used_milli.map(u128::from),
        host.capacity_milli("cpu"),
    );
    let memory = share(
        host.memory_used_bytes.map(|bytes| u128::from(bytes) * 1000),
        host.capacity_milli("memory"),
    );
    [cpu.into(), memory.into()]
}

/// Formats the mean utilization of the held devices.
fn utilization(host: &NodeUsage) -> Cell {
    percent(host.figures().utilization).into()
}

fn types(host: &NodeUsage) -> String {
    joined(&host.kinds())
}

/// Renders nodes compactly on a terminal, or with one value per cell in a pipe, also the reasons of
/// nodes that are not active. Labels are the last column, on request.
pub fn table(
    hosts: &[&NodeUsage],
    contexts: RowContexts<'_>,
    format: Format,
    headers: bool,
    show_labels: bool,
    style: TextStyle,
    now: Timestamp,
) -> String {
    if format == Format::Table && style.width.is_some() {
        return compact(hosts, contexts, headers, show_labels, style);
    }
    let wide = matches!(format, Format::Wide | Format::Csv);
    let sliced = format == Format::Csv || hosts.iter().any(|host| !host.slices.is_empty());
    let mut columns = vec![
        left("NAME"),
        left("STATUS"),
        left("POOL"),
        left("TYPE"),
        right("GPUS"),
        right("FREE"),
    ];
    columns.extend(wide.then_some(WITHHELD).into_iter().flatten());
    columns.extend(sliced.then_some(left("SLICES FREE")));
    columns.extend([percentages("UTIL"), percentages("CPU"), percentages("MEM")]);
    let has_reasons = wide || hosts.iter().any(|host| host.reason.is_some());
    columns.extend(wide.then_some(right("AGE").in_csv("age_seconds")));
    columns.extend(has_reasons.then_some(left("REASON")));
    columns.extend(show_labels.then_some(left("LABELS")));
    let mut table = Table::new(columns);
    for host in hosts {
        let mut cells: Vec<Cell> = vec![
            host.name().into(),
            Cell::colored(host.health.word(), health_color(host.health)),
            host.details.node.pool().unwrap_or_default().into(),
            types(host).into(),
            host.gpus.total.to_string().into(),
            if host.gpus.total == 0 {
                "-".to_owned()
            } else {
                or_dash(host.gpus.free())
            }
            .into(),
        ];
        cells.extend(wide.then(|| withheld(host.gpus)).into_iter().flatten());
        cells.extend(sliced.then(|| slices_text(&host.slices).into()));
        cells.push(utilization(host));
        cells.extend(requested(host));
        cells.extend(wide.then(|| Cell::age(host.details.created_at, now)));
        cells.extend(has_reasons.then(|| host.reason.clone().unwrap_or_default().into()));
        cells.extend(show_labels.then(|| labels(&host.details.node.labels).into()));
        table.row(cells);
    }
    table.with_contexts(contexts).show(format, headers, style)
}

/// Renders nodes for a terminal. Slices and reasons are in the column of free GPUs, so that a node
/// fits on one line.
fn compact(
    hosts: &[&NodeUsage],
    contexts: RowContexts<'_>,
    headers: bool,
    show_labels: bool,
    style: TextStyle,
) -> String {
    let mut columns = vec![
        left("NAME"),
        left("STATUS"),
        left("POOL"),
        left("TYPE"),
        left("GPUS"),
        left("FREE"),
        percentages("UTIL"),
        percentages("CPU").yielding(),
        percentages("MEM").yielding(),
    ];
    columns.extend(show_labels.then_some(left("LABELS")));
    let mut table = Table::new(columns).with_wide();
    for host in hosts {
        let slices = inventory::total(host.slices.values().copied());
        let sliced =
            host.types.is_empty() && host.slices.keys().any(|name| name.starts_with("mig-"));
        let kind = if sliced {
            format!("{} MIG", types(host))
        } else {
            types(host)
        };
        let devices = if host.gpus.total == 0 {
            slices
        } else {
            host.gpus
        };
        let color = health_color(host.health);
        let mut cells: Vec<Cell> = vec![
            host.name().into(),
            Cell::colored(host.health.word(), color),
            host.details.node.pool().unwrap_or_default().into(),
            kind.into(),
            squares(devices, style).into(),
            Cell::colored(free(host), color),
            utilization(host),
        ];
        cells.extend(requested(host));
        cells.extend(show_labels.then(|| labels(&host.details.node.labels).into()));
        table.row(cells);
    }
    table
        .with_contexts(contexts)
        .show(Format::Table, headers, style)
}

/// Formats the free GPUs of a node, such as `2/8`, `8/8 cordoned` or `4/7 1g.10gb`. Includes only
/// the first profile of several.
fn free(host: &NodeUsage) -> String {
    const REASON: usize = 14;
    let free_of_total = |count: Count| format!("{}/{}", or_dash(count.free()), count.total);
    let mut parts = Vec::new();
    if host.gpus.total > 0 {
        parts.push(free_of_total(host.gpus));
    }
    let mut slices = host.slices.iter();
    if let Some((name, count)) = slices.next() {
        parts.push(format!(
            "{} {}",
            free_of_total(*count),
            name.strip_prefix("mig-").unwrap_or(name)
        ));
        parts.extend((slices.len() > 0).then(|| format!("+{}", slices.len())));
    }
    if let Some(reason) = &host.reason {
        let short: String = reason.chars().take(REASON).collect();
        parts.push(if short.len() < reason.len() {
            format!("{}…", short.trim_end())
        } else {
            short
        });
    }
    parts.join(" ")
}

/// Draws held and free devices as squares if they are few.
fn squares(gpus: Count, style: TextStyle) -> String {
    const MOST: u64 = 16;
    let (full, empty, cross) = if style.plain {
        ("#", ".", "x")
    } else {
        ("■", "□", "×")
    };
    let repeat = |text: &str, number: u64| text.repeat(usize::try_from(number).unwrap_or(0));
    match gpus.used.zip(gpus.free()) {
        Some((used, free)) if (1..=MOST).contains(&gpus.total) => {
            let used = used.min(gpus.total);
            let free = free.min(gpus.total - used);
            repeat(full, used) + &repeat(empty, free) + &repeat(cross, gpus.total - used - free)
        }
        _ if gpus.total == 0 => String::new(),
        _ => gpus.total.to_string(),
    }
}

/// Formats slices, such as `mig-1g.10gb 4/7`.
fn slices_text(slices: &BTreeMap<String, Count>) -> String {
    let slice_text = |(name, count): (&String, &Count)| {
        format!("{name} {}/{}", or_dash(count.free()), count.total)
    };
    slices.iter().map(slice_text).collect::<Vec<_>>().join(", ")
}

/// Summarizes the nodes and their free GPUs for a terminal.
pub fn footer(hosts: &[&NodeUsage]) -> String {
    let total = inventory::total(hosts.iter().map(|host| host.gpus));
    let mut text = format!(
        "{}, {}",
        count(hosts.len() as u64, "node"),
        count(total.total, "GPU")
    );
    match total.free() {
        None => text.push_str(": number of free GPUs unknown"),
        Some(free) => text.push_str(&format!(": {free} free")),
    }
    text.push_str(&withheld_text(total));
    let slices = inventory::total(hosts.iter().flat_map(|host| host.slices.values().copied()));
    if slices.total > 0 {
        text.push_str(&format!(
            "\n{}: {} free",
            count(slices.total, "slice"),
            or_dash(slices.free())
        ));
    }
    text.push('\n');
    text
}

/// Renders the devices of several nodes as a table.
pub fn detail_table(
    hosts: &[&NodeUsage],
    contexts: RowContexts<'_>,
    format: Format,
    headers: bool,
    style: TextStyle,
) -> String {
    let mut table = Table::new([
        left("NODE"),
        left("GPU"),
        left("TYPE"),
        left("STATUS"),
        percentages("UTIL"),
        right("MEM").in_csv("memory_gib"),
        left("HOLDER").yielding(),
    ])
    .with_wide();
    let mut gpu_contexts = Vec::new();
    for (index, host) in hosts.iter().enumerate() {
        for gpu in gpus(host) {
            gpu_contexts.extend(contexts.of(index));
            table.row(vec![
                host.name().into(),
                gpu.gpu_id.into(),
                gpu.r#type
                    .map(|kind| kind.to_string())
                    .unwrap_or_default()
                    .into(),
                gpu.status.into(),
                percent(gpu.utilization).into(),
                Cell::measured(
                    gpu.memory_usage.clone().unwrap_or_default(),
                    gpu.memory_usage
                        .as_deref()
                        .and_then(|text| text.split("Gi").next())
                        .map(ToOwned::to_owned),
                ),
                gpu.holders
                    .iter()
                    .map(|holder| format!("{}/{}", holder.namespace, holder.pod))
                    .collect::<Vec<_>>()
                    .join(",")
                    .into(),
            ]);
        }
    }
    table
        .with_contexts(RowContexts::new(&gpu_contexts))
        .show(format, headers, style)
}
