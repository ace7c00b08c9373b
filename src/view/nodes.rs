//! `get nodes` and `describe node`: what a node offers, who holds it, and whether it is well. A count that is not known is
//! null and `-`, never 0.

use std::collections::BTreeMap;

use colored::Color;
use jiff::Timestamp;
use serde::Serialize;

use crate::model::{Count, Health, HostUse, quantity};

use super::table::{Cell, Table, left, right};
use super::text::{age, clean, count};
use super::{Format, Look};

/// A page of nodes.
#[derive(Serialize)]
pub struct NodeList {
    pub total: usize,
    pub items: Vec<NodeItem>,
}

/// One node in the contract's words; counts of GPUs are whole devices, slices stand apart.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeItem {
    pub node_name: String,
    status: &'static str,
    reason: Option<String>,
    gpu_total: u64,
    gpu_used: Option<u64>,
    gpu_free: Option<u64>,
    gpu_slices: BTreeMap<String, SliceItem>,
    bound_pools: Vec<String>,
    cpu: Option<String>,
    memory: Option<String>,
    gpu_type: Option<String>,
    gpu_utilization: Option<f64>,
    created_at: Option<Timestamp>,
}

/// Slices of one profile.
#[derive(Clone, Copy, Serialize)]
pub struct SliceItem {
    total: u64,
    used: Option<u64>,
}

impl From<Count> for SliceItem {
    fn from(count: Count) -> Self {
        Self { total: count.total, used: count.used }
    }
}

/// The slices of a node or of several.
#[must_use]
pub fn slices(found: &BTreeMap<String, Count>) -> BTreeMap<String, SliceItem> {
    found.iter().map(|(name, count)| (name.clone(), (*count).into())).collect()
}

impl From<&HostUse> for NodeItem {
    fn from(host: &HostUse) -> Self {
        Self {
            node_name: host.name().to_owned(),
            status: host.health.word(),
            reason: host.reason.clone(),
            gpu_total: host.gpus.total,
            gpu_used: host.gpus.used,
            gpu_free: host.gpus.free(),
            gpu_slices: slices(&host.slices),
            bound_pools: host.host.node.pool().map(ToOwned::to_owned).into_iter().collect(),
            cpu: host.host.capacity.get("cpu").cloned(),
            memory: memory(host.host.capacity.get("memory")),
            gpu_type: host.gpu_type().map(ToOwned::to_owned),
            gpu_utilization: None,
            created_at: host.host.created_at,
        }
    }
}

/// `263842964Ki` as the largest unit that loses nothing.
pub(super) fn memory(text: Option<&String>) -> Option<String> {
    text.and_then(|text| quantity::whole(text)).map(quantity::binary)
}

#[must_use]
pub fn list(hosts: &[&HostUse], total: usize) -> NodeList {
    NodeList { total, items: hosts.iter().map(|host| NodeItem::from(*host)).collect() }
}

fn number(value: Option<u64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Percent of a resource that pods request.
fn share(used_milli: Option<u128>, total: Option<i128>) -> String {
    match (used_milli, total.and_then(|total| u128::try_from(total).ok()).filter(|total| *total > 0)) {
        (Some(used), Some(total)) => format!("{}%", (used * 100 + total / 2) / total),
        _ => "-".to_owned(),
    }
}

fn health_color(health: Health) -> Option<Color> {
    match health {
        Health::Active => None,
        Health::Maintaining => Some(Color::Yellow),
        Health::Faulty => Some(Color::Red),
    }
}

/// The nodes for people: free GPUs are what they look for.
#[must_use]
pub fn table(hosts: &[&HostUse], format: Format, headers: bool, look: Look, now: Timestamp) -> String {
    let wide = matches!(format, Format::Wide | Format::Csv);
    let sliced = format == Format::Csv || hosts.iter().any(|host| !host.slices.is_empty());
    let mut columns = vec![left("NAME"), left("STATUS"), left("POOL"), left("TYPE")];
    columns.push(if look.width.is_some() { left("GPUS") } else { right("GPUS") });
    columns.push(right("FREE"));
    columns.extend(sliced.then_some(left("SLICES FREE")));
    columns.extend([right("UTIL"), right("CPU"), right("MEM")]);
    columns.extend(wide.then_some([right("AGE"), left("REASON")]).into_iter().flatten());
    let mut table = Table::new(columns);
    for host in hosts {
        let types = host.types.keys().cloned().collect::<Vec<_>>().join(",");
        let mut cells: Vec<Cell> = vec![
            host.name().into(),
            Cell::colored(host.health.word(), health_color(host.health)),
            host.host.node.pool().unwrap_or_default().into(),
            types.into(),
        ];
        cells.push(if look.width.is_some() { squares(host.gpus, look) } else { host.gpus.total.to_string() }.into());
        let free = match (host.gpus.total, look.width) {
            (0, _) => "-".to_owned(),
            (total, Some(_)) => format!("{}/{total}", number(host.gpus.free())),
            (_, None) => number(host.gpus.free()),
        };
        cells.push(free.into());
        cells.extend(sliced.then(|| slices_text(&host.slices).into()));
        let cpu = share(host.cpu_used_milli.map(u128::from), host.capacity_milli("cpu"));
        let memory = share(host.memory_used_bytes.map(|bytes| u128::from(bytes) * 1000), host.capacity_milli("memory"));
        cells.extend(["-".into(), cpu.into(), memory.into()]);
        if wide {
            cells.extend([age(host.host.created_at, now).into(), host.reason.clone().unwrap_or_default().into()]);
        }
        table.row(cells);
    }
    table.show(format, headers, look)
}

/// Taken and free devices as squares, where there are few enough to count.
fn squares(gpus: Count, look: Look) -> String {
    const MOST: u64 = 16;
    let (full, open) = if look.plain { ("#", ".") } else { ("■", "□") };
    match gpus.used {
        Some(used) if (1..=MOST).contains(&gpus.total) => {
            let used = used.min(gpus.total);
            full.repeat(usize::try_from(used).unwrap_or(0)) + &open.repeat(usize::try_from(gpus.total - used).unwrap_or(0))
        }
        _ if gpus.total == 0 => String::new(),
        _ => gpus.total.to_string(),
    }
}

/// `mig-1g.10gb 4/7`.
fn slices_text(slices: &BTreeMap<String, Count>) -> String {
    let one = |(name, count): (&String, &Count)| format!("{name} {}/{}", number(count.free()), count.total);
    slices.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// What all of it comes to, for a terminal.
#[must_use]
pub fn footer(hosts: &[&HostUse]) -> String {
    let sum = crate::model::inventory::total(hosts.iter().map(|host| host.gpus));
    let free_on =
        |health: Health| hosts.iter().filter(|host| host.health == health).filter_map(|host| host.gpus.free()).sum::<u64>();
    let mut text = format!("{}, {}", count(hosts.len() as u64, "node"), count(sum.total, "GPU"));
    match sum.free() {
        None => text.push_str(": how many are free is not known"),
        Some(free) => {
            text.push_str(&format!(": {free} free"));
            let (cordoned, faulty) = (free_on(Health::Maintaining), free_on(Health::Faulty));
            let parts: Vec<String> = [(cordoned, "cordoned"), (faulty, "on a faulty node")]
                .iter()
                .filter(|(number, _)| *number > 0)
                .map(|(number, what)| format!("{number} {what}"))
                .collect();
            if !parts.is_empty() {
                text.push_str(&format!(", of which {}", parts.join(" and ")));
            }
        }
    }
    text.push('\n');
    text
}

/// `-o name`.
#[must_use]
pub fn names(hosts: &[&HostUse]) -> String {
    hosts.iter().map(|host| format!("{}\n", clean(host.name()))).collect()
}

/// A device of a node. Which of several is taken is not known without a metrics source.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GpuItem {
    gpu_id: String,
    r#type: Option<String>,
    status: &'static str,
    utilization: Option<f64>,
    memory_usage: Option<String>,
}

/// The devices of a node, one by one.
#[must_use]
pub fn gpus(host: &HostUse) -> Vec<GpuItem> {
    let status = match host.gpus.used {
        Some(0) => "free",
        Some(used) if used >= host.gpus.total => "used",
        _ => "unknown",
    };
    let types = host.types.iter().flat_map(|(kind, count)| std::iter::repeat_n(kind, usize::try_from(*count).unwrap_or(0)));
    let item = |(index, kind): (usize, &String)| GpuItem {
        gpu_id: format!("gpu-{index}"),
        r#type: Some(kind.clone()).filter(|kind| kind != crate::model::inventory::UNTYPED),
        status,
        utilization: None,
        memory_usage: None,
    };
    types.enumerate().map(item).collect()
}

/// `get nodes --gpu-detail`.
#[derive(Serialize)]
pub struct DetailList {
    total: usize,
    items: Vec<DetailItem>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DetailItem {
    node_name: String,
    gpu_count: u64,
    gpus: Vec<GpuItem>,
    gpu_slices: BTreeMap<String, SliceItem>,
}

#[must_use]
pub fn details(hosts: &[&HostUse], total: usize) -> DetailList {
    let item = |host: &&HostUse| DetailItem {
        node_name: host.name().to_owned(),
        gpu_count: host.gpus.total,
        gpus: gpus(host),
        gpu_slices: slices(&host.slices),
    };
    DetailList { total, items: hosts.iter().map(item).collect() }
}

/// The devices of several nodes for people.
#[must_use]
pub fn detail_table(hosts: &[&HostUse], format: Format, headers: bool, look: Look) -> String {
    let mut table = Table::new([left("NODE"), left("GPU"), left("TYPE"), left("STATUS"), right("UTIL"), right("MEM")]);
    for host in hosts {
        for gpu in gpus(host) {
            table.row(vec![
                host.name().into(),
                gpu.gpu_id.into(),
                gpu.r#type.unwrap_or_default().into(),
                gpu.status.into(),
                "-".into(),
                "-".into(),
            ]);
        }
    }
    table.show(format, headers, look)
}
