//! Renders which free GPUs are usable.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::format::table::{Table, left, right};
use crate::format::text::{clean, count};
use crate::{Format, TextStyle};
use gpuctl_core::model::counting::free::{FreeGpus, Move};
use gpuctl_core::model::counting::stranded::{Stranded, StrandedBy};
use gpuctl_core::model::values::quantity;

/// Maximum number of pods that are suggested for moving.
const MOST_MOVES: usize = 5;

/// The JSON output of `free`.
#[derive(JsonSchema, Serialize)]
pub struct FreeAnswer<'a> {
    total: usize,
    pub items: Vec<FreeItem<'a>>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FreeItem<'a> {
    gpu_type: &'a str,
    /// Value of the node label that `--by` selects; `null` without `--by`.
    domain: Option<&'a str>,
    /// The exclusive pool whose jobs may use these GPUs; `null` when jobs of any pool may.
    exclusive_pool: Option<&'a str>,
    gpu_total: u64,
    /// Free GPUs that a pod can use.
    gpu_free: u64,
    /// Free GPUs that no pod can use.
    gpu_stranded: u64,
    /// Installed GPUs that are out of service.
    gpu_lost: u64,
    /// Allocatable GPUs on nodes that accept no new pods, held or not.
    gpu_cordoned: u64,
    blocks: Vec<BlockItem>,
    largest_gang: GangItem,
    stranded: Vec<StrandedItem<'a>>,
    /// `null` without `--slots`.
    slots: Option<SlotsItem>,
}

/// Nodes with the same number of free GPUs.
#[derive(JsonSchema, Serialize)]
struct BlockItem {
    gpus: u64,
    nodes: u64,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct GangItem {
    gpus: u64,
    nodes: u64,
    gpus_per_node: u64,
}

#[derive(JsonSchema, Serialize)]
struct StrandedItem<'a> {
    node: &'a str,
    gpus: u64,
    cause: &'static str,
    detail: Option<&'a str>,
    /// NAMESPACE/NAME of the pod that holds most of the missing CPU or memory there.
    holder: Option<&'a str>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct SlotsItem {
    gpus: u64,
    jobs_now: u64,
    /// Pods to move so that one more job fits; empty when that is impossible.
    moves: Vec<MoveItem>,
}

#[derive(JsonSchema, Serialize)]
struct MoveItem {
    pod: String,
    gpus: u64,
    from: String,
    to: String,
}

pub fn answer(groups: &[FreeGpus], slots: Option<u64>) -> FreeAnswer<'_> {
    FreeAnswer {
        total: groups.len(),
        items: groups.iter().map(|group| item(group, slots)).collect(),
    }
}

/// Returns the GPU type of each group, with its label value and exclusive pool if it has them.
pub fn names(groups: &[FreeGpus]) -> Vec<String> {
    let name = |group: &FreeGpus| {
        let parts = [
            Some(&group.gpu_type),
            group.domain.as_ref(),
            group.exclusive_pool.as_ref(),
        ];
        let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        parts.join(" ")
    };
    groups.iter().map(name).collect()
}

fn item(group: &FreeGpus, slots: Option<u64>) -> FreeItem<'_> {
    let gang = group.largest_gang();
    let moved = |Move {
                     pod,
                     gpus,
                     from,
                     to,
                 }| MoveItem {
        pod,
        gpus,
        from,
        to,
    };
    FreeItem {
        gpu_type: &group.gpu_type,
        domain: group.domain.as_deref(),
        exclusive_pool: group.exclusive_pool.as_deref(),
        gpu_total: group.total,
        gpu_free: group.free(),
        gpu_stranded: group.stranded.iter().map(|stranded| stranded.gpus).sum(),
        gpu_lost: group.lost,
        gpu_cordoned: group.cordoned,
        blocks: group
            .sizes_of_blocks()
            .into_iter()
            .map(|(gpus, nodes)| BlockItem { gpus, nodes })
            .collect(),
        largest_gang: GangItem {
            gpus: gang.nodes * gang.gpus_per_node,
            nodes: gang.nodes,
            gpus_per_node: gang.gpus_per_node,
        },
        stranded: group.stranded.iter().map(stranded_item).collect(),
        slots: slots.map(|gpus| SlotsItem {
            gpus,
            jobs_now: group.jobs(gpus),
            moves: group
                .moves(gpus, MOST_MOVES)
                .into_iter()
                .map(moved)
                .collect(),
        }),
    }
}

fn stranded_item(stranded: &Stranded) -> StrandedItem<'_> {
    StrandedItem {
        node: &stranded.node,
        gpus: stranded.gpus,
        cause: stranded.by.word(),
        detail: stranded.detail.as_deref(),
        holder: stranded.holder.as_ref().map(|(name, _)| name.as_str()),
    }
}

/// Renders the groups and the stranded GPUs as text, and how many jobs with `slots` GPUs each would
/// fit.
pub fn text(groups: &[FreeGpus], slots: Option<u64>, headers: bool, style: TextStyle) -> String {
    if groups.is_empty() {
        return String::new();
    }
    let mut columns = vec![left("TYPE")];
    columns.extend(groups[0].domain.as_ref().map(|_| left("DOMAIN")));
    let exclusive = groups.iter().any(|group| group.exclusive_pool.is_some());
    columns.extend(exclusive.then(|| left("ONLY FOR")));
    let has_lost = groups.iter().any(|group| group.lost > 0);
    columns.push(right("TOTAL"));
    columns.extend(has_lost.then(|| right("LOST")));
    columns.extend([right("FREE"), left("LARGEST GANG"), left("BLOCKS")]);
    let mut table = Table::new(columns);
    for group in groups {
        let gang = group.largest_gang();
        let blocks: Vec<String> = group
            .sizes_of_blocks()
            .iter()
            .map(|(gpus, nodes)| format!("{nodes} × {gpus}"))
            .collect();
        let gpus = count(gang.nodes * gang.gpus_per_node, "GPU");
        let gang = match gang.nodes {
            0 => "-".to_owned(),
            nodes => format!("{gpus} on {}", count(nodes, "node")),
        };
        let mut cells = vec![group.gpu_type.clone().into()];
        cells.extend(group.domain.as_ref().map(|domain| dash(domain).into()));
        let pool = || {
            group
                .exclusive_pool
                .as_ref()
                .map_or_else(|| "-".to_owned(), |pool| format!("pool {pool}"))
        };
        cells.extend(exclusive.then(|| pool().into()));
        cells.push(group.total.to_string().into());
        cells.extend(has_lost.then(|| group.lost.to_string().into()));
        cells.extend([
            group.free().to_string().into(),
            gang.into(),
            dash(&blocks.join(", ")).into(),
        ]);
        table.row(cells);
    }
    let mut text = table.show(Format::Table, headers, style);
    groups
        .iter()
        .flat_map(stranded)
        .for_each(|line| text.push_str(&format!("stranded: {line}\n")));
    if let Some(slots) = slots {
        groups
            .iter()
            .for_each(|group| text.push_str(&fitting(group, slots)));
    }
    text
}

fn dash(text: &str) -> String {
    if text.is_empty() {
        "-".to_owned()
    } else {
        text.to_owned()
    }
}

/// GPUs on several nodes that are stranded for the same reason.
#[derive(Default)]
struct Together<'a> {
    gpus: u64,
    nodes: Vec<&'a str>,
    /// Amount of the missing resource that the holder has.
    amount: u64,
}

/// Renders the stranded GPUs with a line for each cause, detail and holder.
fn stranded(group: &FreeGpus) -> Vec<String> {
    let mut lines: BTreeMap<(StrandedBy, Option<&str>, Option<&str>), Together<'_>> =
        BTreeMap::new();
    for stranded in &group.stranded {
        let holder = stranded.holder.as_ref().map(|(name, _)| name.as_str());
        let line = lines
            .entry((stranded.by, stranded.detail.as_deref(), holder))
            .or_default();
        line.gpus += stranded.gpus;
        line.nodes.push(&stranded.node);
        line.amount += stranded.holder.as_ref().map_or(0, |(_, amount)| *amount);
    }
    let mut texts = Vec::new();
    for (
        (cause, detail, holder),
        Together {
            gpus,
            nodes,
            amount,
        },
    ) in lines
    {
        let location = match nodes.as_slice() {
            [node] => format!("on {}", clean(node)),
            nodes => format!("on {} nodes", nodes.len()),
        };
        let detail = detail.map_or(String::new(), |detail| format!(" ({})", clean(detail)));
        let reason = match cause {
            StrandedBy::Cordoned => ", cordoned".to_owned(),
            StrandedBy::NodeFaulty => format!(", faulty{detail}"),
            StrandedBy::Taint => format!(", tainted{detail}"),
            StrandedBy::Cpu => format!(" without enough free CPU{}", held(holder, &cpus(amount))),
            StrandedBy::Memory => format!(
                " without enough free memory{}",
                held(holder, &quantity::binary(amount))
            ),
        };
        texts.push(format!(
            "{gpus} {} {location}{reason}",
            clean(&group.gpu_type)
        ));
    }
    texts
}

/// Formats an amount of CPU, given in thousandths.
fn cpus(milli: u64) -> String {
    if milli.is_multiple_of(1000) {
        count(milli / 1000, "CPU")
    } else {
        format!("{}.{} CPUs", milli / 1000, milli % 1000 / 100)
    }
}

fn held(holder: Option<&str>, amount: &str) -> String {
    holder.map_or(String::new(), |holder| {
        format!(" (most held by {}: {amount})", clean(holder))
    })
}

fn fitting(group: &FreeGpus, slots: u64) -> String {
    let mut domain = group
        .domain
        .as_ref()
        .map_or(String::new(), |domain| format!(" {}", clean(&dash(domain))));
    domain.push_str(
        &group
            .exclusive_pool
            .as_ref()
            .map_or(String::new(), |pool| format!(" in pool {}", clean(pool))),
    );
    let (jobs_now, moves) = (group.jobs(slots), group.moves(slots, MOST_MOVES));
    let verb = if jobs_now == 1 { "fits" } else { "fit" };
    let mut line = format!(
        "{}{domain}: {} of {slots} {verb} now",
        clean(&group.gpu_type),
        count(jobs_now, "job")
    );
    if !moves.is_empty() {
        let moves_text: Vec<String> = moves
            .iter()
            .map(|single_move| {
                format!(
                    "{} ({}) from {} to {}",
                    clean(&single_move.pod),
                    count(single_move.gpus, "GPU"),
                    clean(&single_move.from),
                    clean(&single_move.to)
                )
            })
            .collect();
        line.push_str(&format!(
            "; {} after moving {}",
            jobs_now + 1,
            moves_text.join(", ")
        ));
    }
    line.push('\n');
    line
}
