//! Renders the lines below the table of free GPUs: stranded GPUs, and the jobs that fit.

use std::collections::BTreeMap;

use crate::format::text::{clean, count};
use gpuctl_core::model::counting::free::FreeGpus;
use gpuctl_core::model::counting::stranded::StrandedBy;
use gpuctl_core::model::values::quantity;

/// Maximum number of pods that are suggested for moving.
pub(super) const MOST_MOVES: usize = 5;

pub(super) fn dash(text: &str) -> String {
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
pub(super) fn stranded(group: &FreeGpus) -> Vec<String> {
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

/// Renders how many jobs with `slots` GPUs fit, and the pods to move for one more.
pub(super) fn fitting(group: &FreeGpus, slots: u64) -> String {
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
