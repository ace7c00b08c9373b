//! Renders which free GPUs are usable.

use schemars::JsonSchema;
use serde::Serialize;

use super::free_lines::{MOST_MOVES, dash, fitting, stranded};
use crate::format::row_contexts::RowContexts;
use crate::format::table::{Cell, Column, Table, left, right};
use crate::format::text::{clean, count};
use crate::{Format, TextStyle};
use gpuctl_core::model::counting::free::{FreeGpus, Move};
use gpuctl_core::model::counting::stranded::Stranded;

/// The JSON output of `free`.
#[derive(JsonSchema, Serialize)]
pub struct FreeAnswer<'a> {
    total: usize,
    pub items: Vec<FreeItem<'a>>,
    /// The GPUs of all contexts, with `--all-contexts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    sum: Option<FreeSum>,
}

/// Sums over all groups. A gang cannot use several clusters, so gangs have no sum.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct FreeSum {
    gpu_total: u64,
    gpu_free: u64,
    gpu_stranded: u64,
    gpu_lost: u64,
    gpu_cordoned: u64,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FreeItem<'a> {
    /// The kubeconfig context of the cluster, with `--all-contexts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<&'a str>,
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

pub fn answer<'a>(
    groups: &'a [FreeGpus],
    contexts: RowContexts<'a>,
    slots: Option<u64>,
) -> FreeAnswer<'a> {
    let item = |(index, group): (usize, &'a FreeGpus)| FreeItem {
        context: contexts.of(index),
        ..item(group, slots)
    };
    let items: Vec<FreeItem<'a>> = groups.iter().enumerate().map(item).collect();
    let sum = || FreeSum {
        gpu_total: items.iter().map(|item| item.gpu_total).sum(),
        gpu_free: items.iter().map(|item| item.gpu_free).sum(),
        gpu_stranded: items.iter().map(|item| item.gpu_stranded).sum(),
        gpu_lost: items.iter().map(|item| item.gpu_lost).sum(),
        gpu_cordoned: items.iter().map(|item| item.gpu_cordoned).sum(),
    };
    FreeAnswer {
        total: groups.len(),
        sum: contexts.is_shown().then(sum),
        items,
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
        context: None,
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
/// fit. Several contexts have a row with their total.
pub fn text(
    groups: &[FreeGpus],
    contexts: RowContexts<'_>,
    slots: Option<u64>,
    headers: bool,
    style: TextStyle,
) -> String {
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
    let total: Vec<Cell> = columns.iter().map(|column| total(groups, column)).collect();
    let mut table = Table::new(columns);
    for group in groups {
        table.row(cells(group, exclusive, has_lost));
    }
    let shows_total = contexts.is_shown() && groups.len() > 1;
    if shows_total {
        table.row(total);
    }
    let mut text = table
        .with_contexts(contexts)
        .show(Format::Table, headers, style);
    let prefix = |index: usize| {
        contexts.of(index).map_or(String::new(), |context| {
            format!("context {}: ", clean(context))
        })
    };
    for (index, group) in groups.iter().enumerate() {
        for line in stranded(group) {
            text.push_str(&format!("stranded: {}{line}\n", prefix(index)));
        }
    }
    if let Some(slots) = slots {
        for (index, group) in groups.iter().enumerate() {
            text.push_str(&format!("{}{}", prefix(index), fitting(group, slots)));
        }
    }
    text
}

/// The cells of a group. The column of pools and the column of lost GPUs are optional.
fn cells(group: &FreeGpus, exclusive: bool, has_lost: bool) -> Vec<Cell> {
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
    let mut cells: Vec<Cell> = vec![group.gpu_type.clone().into()];
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
    cells
}

/// The cell of a column in the row with the total of several contexts.
fn total(groups: &[FreeGpus], column: &Column) -> Cell {
    let sum = |value: fn(&FreeGpus) -> u64| groups.iter().map(value).sum::<u64>().to_string();
    match column.title {
        "TOTAL" => sum(|group| group.total).into(),
        "LOST" => sum(|group| group.lost).into(),
        "FREE" => sum(FreeGpus::free).into(),
        _ => "".into(),
    }
}
