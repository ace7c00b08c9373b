//! Renders `fit`: whether jobs fit into the cluster.

use schemars::JsonSchema;
use serde::Serialize;

use super::fit_queue::{AdmissionItem, admission_item, queue_lines};
use super::start::{StartItem, start_item, start_text};
use crate::format::text::{clean, count};
use gpuctl_core::model::counting::fit::{Domain, Fit, FitVerdict, NodeGroup};
use gpuctl_core::model::counting::fit_reason::FitReason;
use gpuctl_core::model::counting::start::StartForecast;
use gpuctl_core::model::counting::victims::Victim;

/// Maximum number of node names per line.
const SHOWN: usize = 4;

/// The JSON output of `fit`.
#[derive(JsonSchema, Serialize)]
pub struct FitList<'a> {
    total: usize,
    items: Vec<FitItem<'a>>,
}

/// Whether one job fits.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct FitItem<'a> {
    name: &'a str,
    namespace: &'a str,
    kind: &'static str,
    /// One of `now`, `not-now`, `never` and `unknown`.
    verdict: &'static str,
    pods: u64,
    /// `null` when the free capacity is unknown.
    pods_now: Option<u64>,
    gpus_per_pod: u64,
    nodes: Vec<FitGroupItem<'a>>,
    /// `null` without `--by`.
    domains: Option<Vec<DomainItem<'a>>>,
    /// Pods that the scheduler would preempt for it; `null` when there are none, or when they are
    /// unknown.
    victims: Option<Vec<VictimItem<'a>>>,
    /// Why the job does not fit, or why this is unknown, in sentences.
    reasons: Vec<&'a str>,
    /// The same reasons for scripts.
    causes: Vec<FitCauseItem<'a>>,
    /// `null` when the job fits now, when it never fits, or when there is no history.
    start: Option<StartItem>,
    not_evaluated: Vec<&'a str>,
    /// Simulated admission by the job's Kueue queue; `null` for a job without such a queue.
    queue: Option<AdmissionItem<'a>>,
    /// Problems that the scheduler ignores, but that may keep containers from starting, and what
    /// was not checked.
    warnings: &'a [String],
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct FitCauseItem<'a> {
    /// A cause, named as by `why`, or the name of an error.
    cause: &'a str,
    text: &'a str,
    /// False if the cause is something that could not be checked.
    decided: bool,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "GroupItem")]
struct FitGroupItem<'a> {
    /// Why no more pods fit; `null` for nodes with free capacity.
    cause: Option<&'static str>,
    detail: Option<&'a str>,
    names: &'a [String],
    /// `null` when the free capacity is unknown.
    pods_now: Option<u64>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct DomainItem<'a> {
    value: &'a str,
    verdict: &'static str,
    /// `null` when the free capacity is unknown.
    pods_now: Option<u64>,
    nodes: usize,
}

#[derive(JsonSchema, Serialize)]
struct VictimItem<'a> {
    namespace: &'a str,
    name: &'a str,
    priority: i64,
    gpus: u64,
    node: &'a str,
}

/// A job with the result of `fit`.
pub struct FitRow {
    pub name: String,
    pub namespace: String,
    pub kind: &'static str,
    pub fit: Fit,
    /// Expected start of the job.
    pub start: Option<StartForecast>,
}

pub fn list(rows: &[FitRow]) -> FitList<'_> {
    FitList {
        total: rows.len(),
        items: rows.iter().map(item).collect(),
    }
}

fn word(verdict: FitVerdict) -> &'static str {
    match verdict {
        FitVerdict::Now => "now",
        FitVerdict::NotNow => "not-now",
        FitVerdict::Unknown => "unknown",
        FitVerdict::Never => "never",
    }
}

fn item(row: &FitRow) -> FitItem<'_> {
    let FitRow {
        name,
        namespace,
        kind,
        fit,
        start,
    } = row;
    // Show what was not checked only if nothing else decides the verdict.
    let undecided = match fit.verdict {
        FitVerdict::Unknown => fit.not_evaluated.as_slice(),
        FitVerdict::Now | FitVerdict::NotNow | FitVerdict::Never => &[],
    };
    FitItem {
        name,
        namespace,
        kind,
        verdict: word(fit.verdict),
        pods: fit.pods,
        pods_now: fit.pods_now,
        gpus_per_pod: fit.gpus_per_pod,
        nodes: fit.groups.iter().map(group_item).collect(),
        domains: (!fit.domains.is_empty()).then(|| fit.domains.iter().map(domain_item).collect()),
        victims: fit
            .victims
            .as_ref()
            .map(|victims| victims.iter().map(victim_item).collect()),
        reasons: fit
            .reasons
            .iter()
            .chain(undecided)
            .map(reason_text)
            .collect(),
        causes: causes(fit, undecided),
        start: start.as_ref().map(start_item),
        not_evaluated: fit.not_evaluated.iter().map(reason_text).collect(),
        queue: fit.queue.as_ref().map(admission_item),
        warnings: &fit.warnings,
    }
}

fn reason_text(reason: &FitReason) -> &str {
    &reason.text
}

fn causes<'a>(fit: &'a Fit, undecided: &'a [FitReason]) -> Vec<FitCauseItem<'a>> {
    let item = |decided: bool| {
        move |reason: &'a FitReason| FitCauseItem {
            cause: &reason.cause,
            text: &reason.text,
            decided,
        }
    };
    let decided = fit.reasons.iter().map(item(true));
    decided.chain(undecided.iter().map(item(false))).collect()
}

fn group_item(group: &NodeGroup) -> FitGroupItem<'_> {
    FitGroupItem {
        cause: group.cause,
        detail: group.detail.as_deref(),
        names: &group.nodes,
        pods_now: group.pods_now,
    }
}

fn victim_item(victim: &Victim) -> VictimItem<'_> {
    let Victim { node, pod } = victim;
    let (namespace, name) = pod.holder.split_once('/').unwrap_or(("", &pod.holder));
    VictimItem {
        namespace,
        name,
        priority: pod.priority,
        gpus: pod.devices,
        node,
    }
}

fn domain_item(domain: &Domain) -> DomainItem<'_> {
    DomainItem {
        value: &domain.value,
        verdict: word(domain.verdict),
        pods_now: domain.pods_now,
        nodes: domain.nodes,
    }
}

/// Renders the verdicts as text. `level` is the label that separates the domains.
pub fn text(rows: &[FitRow], level: &str) -> String {
    rows.iter()
        .map(|row| job_text(row, &clean(level)))
        .collect()
}

fn job_text(row: &FitRow, level: &str) -> String {
    let FitRow {
        name,
        namespace,
        kind,
        fit,
        start,
    } = row;
    let size = match fit.gpus_per_pod {
        0 => count(fit.pods, "pod"),
        gpus => format!("{} × {}", count(fit.pods, "pod"), count(gpus, "GPU")),
    };
    let mut lines = vec![format!(
        "{kind}/{} in {}: {} ({size})",
        clean(name),
        clean(namespace),
        verdict_text(fit, level)
    )];
    let mut add = |line: String| lines.push(format!("  {line}"));
    fit.reasons
        .iter()
        .for_each(|reason| add(clean(&reason.text).into_owned()));
    let queue = fit.queue.iter().flat_map(queue_lines);
    queue.for_each(&mut add);
    domain_lines(fit, level).into_iter().for_each(&mut add);
    fit.groups.iter().map(group_line).for_each(&mut add);
    victim_lines(fit).into_iter().for_each(&mut add);
    start.iter().map(start_text).for_each(&mut add);
    fit.not_evaluated
        .iter()
        .for_each(|reason| add(format!("not evaluated: {}", clean(&reason.text))));
    fit.warnings
        .iter()
        .for_each(|warning| add(format!("warning: {}", clean(warning))));
    lines.join("\n") + "\n"
}

fn verdict_text(fit: &Fit, level: &str) -> String {
    match (fit.verdict, fit.pods_now) {
        (FitVerdict::Now, _) => "fits now".to_owned(),
        (FitVerdict::NotNow, Some(pods_now)) if pods_now < fit.pods => {
            let missing = fit.pods - pods_now;
            let more = missing * fit.gpus_per_pod;
            let more = if more > 0 {
                format!(", {} needed", count(more, "more GPU"))
            } else {
                String::new()
            };
            format!(
                "not now: {pods_now} of {} fit{more}",
                count(fit.pods, "pod")
            )
        }
        (FitVerdict::NotNow, _) => "not now".to_owned(),
        // Without other reasons, the job never fits only because its pods must be in one
        // domain.
        (FitVerdict::Never, _) if !fit.domains.is_empty() && fit.reasons.is_empty() => {
            format!("never within one {level}")
        }
        (FitVerdict::Never, _) => "never fits".to_owned(),
        (FitVerdict::Unknown, _) => "not known".to_owned(),
    }
}

fn domain_lines(fit: &Fit, level: &str) -> Vec<String> {
    let line = |domain: &Domain| {
        let fitting = domain.pods_now.map_or_else(
            || "not known".to_owned(),
            |pods_now| format!("{pods_now} of {}", count(fit.pods, "pod")),
        );
        let never = if domain.verdict == FitVerdict::Never {
            ", never all"
        } else {
            ""
        };
        format!(
            "{level}={}: {fitting}{never} ({})",
            clean(&domain.value),
            count(domain.nodes as u64, "node")
        )
    };
    let mut lines: Vec<String> = fit.domains.iter().take(SHOWN).map(line).collect();
    let more = fit.domains.len().saturating_sub(SHOWN);
    lines.extend((more > 0).then(|| format!("{more} more values of {level}")));
    lines
}

fn group_line(group: &NodeGroup) -> String {
    let mut names: Vec<String> = group
        .nodes
        .iter()
        .take(SHOWN)
        .map(|name| clean(name).into_owned())
        .collect();
    let more = group.nodes.len().saturating_sub(SHOWN);
    names.extend((more > 0).then(|| format!("{more} more")));
    let detail = group
        .detail
        .as_ref()
        .map_or(String::new(), |detail| format!(" {}", clean(detail)));
    let description = match (group.cause, group.pods_now) {
        (Some(cause), _) => format!("{cause}{detail}"),
        (None, Some(pods_now)) => format!("room for {}", count(pods_now, "pod")),
        (None, None) => "free capacity unknown".to_owned(),
    };
    format!(
        "{}: {description} ({})",
        count(group.nodes.len() as u64, "node"),
        names.join(", ")
    )
}

fn victim_lines(fit: &Fit) -> Vec<String> {
    let line = |Victim { node, pod }: &Victim| {
        let devices = if pod.devices > 0 {
            format!(", {}", count(pod.devices, "GPU"))
        } else {
            String::new()
        };
        format!(
            "would preempt a pod of {} on {} (priority {}{devices})",
            clean(&pod.holder),
            clean(node),
            pod.priority
        )
    };
    let victims = fit.victims.as_deref().unwrap_or_default();
    let mut lines: Vec<String> = victims.iter().take(SHOWN).map(line).collect();
    let more = victims.len().saturating_sub(SHOWN);
    lines.extend((more > 0).then(|| format!("would preempt {}", count(more as u64, "more pod"))));
    lines
}
