//! Renders `score` with the field names of the utilization monitor, and a table.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::{Mebibytes, Percent, Watts};
use gpuctl_core::stats::score::opinion::Opinion;
use gpuctl_core::stats::score::selection::Scored;
use gpuctl_core::stats::score::serving::Serving;
use gpuctl_core::stats::score::value::{Band, Score, TERMS};

use crate::format::coverage::{percent, rounded};
use crate::format::table::{Cell, Table, left, percentages, right};
use crate::format::text::{blocks, count, in_chat};
use crate::{Format, TextStyle};

/// One result. Percent, MB as the exporters count them (MiB), watts, MHz.
#[derive(Clone, JsonSchema, Serialize)]
pub struct ScoreItem {
    /// Null for a device that a pod holds and no exporter tells of.
    gpu_id: Option<String>,
    pod: Option<String>,
    namespace: Option<String>,
    /// The node.
    hostname: String,
    model_name: Option<String>,
    /// Mean of the window.
    gpu_util: Option<Percent>,
    /// Utilization of the memory's bandwidth, mean of the window.
    mem_copy: Option<Percent>,
    /// Mean of the window, in MiB.
    mem_used_mb: Option<Mebibytes>,
    power_usage: Option<Watts>,
    /// MHz, mean of the window.
    sm_clock: Option<f64>,
    /// 0 (idle) to 100; `null` where too little was measured.
    score: Option<f64>,
    /// `idle`, `low`, `normal`, `high`, `unknown`.
    status: &'static str,
    timestamp: Timestamp,
    ai_analysis: Option<Opinion>,
    /// What the score is made of; what is missing was shared among the others.
    terms: Vec<&'static str>,
    /// Samples of utilization in the window.
    samples: usize,
    /// Samples that a whole window has.
    expected_samples: usize,
    device_index: Option<u32>,
    slice: Option<String>,
    /// `idle` or `active`: what its pods told of requests; null where they serve nobody, as far as
    /// is known.
    serving: Option<&'static str>,
}

pub fn results(rows: &[Scored], now: Timestamp) -> Vec<ScoreItem> {
    rows.iter().map(|row| item(row, now)).collect()
}

pub fn item(row: &Scored, now: Timestamp) -> ScoreItem {
    let (namespace, pod) = row.holder();
    let Scored { reading, score, .. } = row;
    ScoreItem {
        gpu_id: row.id(),
        pod: pod.map(ToOwned::to_owned),
        namespace: namespace.map(ToOwned::to_owned),
        hostname: reading.node.clone(),
        model_name: reading.model.clone(),
        gpu_util: score.utilization.map(rounded),
        mem_copy: score.memory_copy.map(rounded),
        mem_used_mb: score.memory_used.map(rounded),
        power_usage: score.power.map(rounded),
        sm_clock: score.clock_mhz.map(rounded),
        score: score.value.map(rounded),
        status: score.band.word(),
        timestamp: now,
        ai_analysis: row.opinion.clone(),
        terms: score.terms(),
        samples: score.samples,
        expected_samples: score.expected,
        device_index: row.measured.then_some(reading.index),
        slice: reading.slice.as_ref().map(|(profile, _)| profile.clone()),
        serving: row.serving.map(Serving::word),
    }
}

/// Those below the threshold, idle ones among them.
#[derive(JsonSchema, Serialize)]
pub struct Low {
    count: usize,
    threshold: f64,
    gpus: Vec<ScoreItem>,
}

pub fn low(rows: &[Scored], threshold: f64, now: Timestamp) -> Low {
    let gpus: Vec<ScoreItem> = rows
        .iter()
        .filter(|row| row.is_low())
        .map(|row| item(row, now))
        .collect();
    Low {
        count: gpus.len(),
        threshold,
        gpus,
    }
}

impl Low {
    /// Keeps some of the GPUs; the count is of all.
    #[must_use]
    pub fn only(self, keep: impl FnOnce(Vec<ScoreItem>) -> Vec<ScoreItem>) -> Self {
        Self {
            gpus: keep(self.gpus),
            ..self
        }
    }
}

/// Letters of an AI's reason in a message.
const REASON: usize = 120;

/// Returns what a control system is told of a device: the document's body.
pub fn control_body(row: &Scored, now: Timestamp) -> String {
    let ScoreItem {
        gpu_id,
        pod,
        namespace,
        hostname,
        score,
        status,
        timestamp,
        ..
    } = item(row, now);
    let body = serde_json::json!({
        "gpu_id": gpu_id, "pod": pod, "namespace": namespace, "hostname": hostname,
        "score": score, "status": status, "timestamp": timestamp,
    });
    body.to_string()
}

/// Returns what people are told of low devices in a chat, in at most so many bytes, and how many of
/// them are named.
pub fn message(rows: &[&Scored], threshold: f64, longest: usize) -> (String, usize) {
    let mut text = format!(
        "{} with a utilization score below {threshold}\n",
        count(rows.len() as u64, "GPU")
    );
    for (told, row) in rows.iter().enumerate() {
        let (namespace, pod) = row.holder();
        let score = row
            .score
            .value
            .map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
        let Scored {
            reading,
            score: Score { band, .. },
            ..
        } = row;
        let mut line = format!(
            "- {}/{}: score {score} ({}), {} on {}\n",
            in_chat(namespace.unwrap_or("-")),
            in_chat(pod.unwrap_or("-")),
            band.word(),
            in_chat(&row.id().unwrap_or_default()),
            in_chat(&reading.node)
        );
        if let Some(opinion) = &row.opinion {
            let reason: String = in_chat(&opinion.reason).chars().take(REASON).collect();
            line.push_str(&format!("  AI: {}, {reason}\n", opinion.verdict.word()));
        }
        let rest = format!("and {} more\n", rows.len() - told);
        // The last one may take the room of the sentence about the rest.
        let room = if told + 1 == rows.len() {
            longest
        } else {
            longest.saturating_sub(rest.len())
        };
        if text.len() + line.len() > room {
            text.push_str(&rest);
            return (text, told);
        }
        text.push_str(&line);
    }
    (text, rows.len())
}

/// Sums and means over the devices that a pod holds; unknown ones are counted, and lower no mean.
#[derive(JsonSchema, Serialize)]
pub struct ScoreStats {
    pub(crate) total_gpus: usize,
    pub(crate) avg_score: Option<f64>,
    min_score: Option<f64>,
    max_score: Option<f64>,
    pub(crate) low_utilization_count: usize,
    pub(crate) idle_count: usize,
    pub(crate) by_status: BTreeMap<&'static str, usize>,
    pub(crate) by_namespace: BTreeMap<String, OfNamespace>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct OfNamespace {
    pub(crate) count: usize,
    pub(crate) avg_score: Option<f64>,
    low_util_count: usize,
}

pub fn stats(rows: &[Scored]) -> ScoreStats {
    let held: Vec<&Scored> = rows
        .iter()
        .filter(|row| row.reading.held == Some(true))
        .collect();
    let known = |rows: &[&Scored]| -> Vec<f64> {
        rows.iter()
            .filter(|row| row.score.band != Band::Unknown)
            .filter_map(|row| row.score.value)
            .collect()
    };
    let mean = |values: &[f64]| {
        (!values.is_empty()).then(|| rounded(values.iter().sum::<f64>() / values.len() as f64))
    };
    let values = known(&held);
    let mut namespaces: BTreeMap<String, Vec<&Scored>> = BTreeMap::new();
    for row in &held {
        namespaces
            .entry(row.holder().0.unwrap_or("unknown").to_owned())
            .or_default()
            .push(row);
    }
    ScoreStats {
        total_gpus: held.len(),
        avg_score: mean(&values),
        min_score: values.iter().copied().reduce(f64::min).map(rounded),
        max_score: values.iter().copied().reduce(f64::max).map(rounded),
        low_utilization_count: held.iter().filter(|row| row.score.band.is_low()).count(),
        idle_count: held
            .iter()
            .filter(|row| row.score.band == Band::Idle)
            .count(),
        by_status: Band::ALL
            .iter()
            .map(|band| {
                (
                    band.word(),
                    held.iter().filter(|row| row.score.band == *band).count(),
                )
            })
            .collect(),
        by_namespace: namespaces
            .into_iter()
            .map(|(namespace, rows)| {
                let low_util_count = rows.iter().filter(|row| row.score.band.is_low()).count();
                (
                    namespace,
                    OfNamespace {
                        count: rows.len(),
                        avg_score: mean(&known(&rows)),
                        low_util_count,
                    },
                )
            })
            .collect(),
    }
}

fn color(band: Band) -> Option<colored::Color> {
    match band {
        Band::Idle | Band::Low => Some(colored::Color::Yellow),
        Band::Normal | Band::High => Some(colored::Color::Green),
        Band::Unknown => Some(colored::Color::BrightBlack),
    }
}

/// Returns the results for people, with what they come to on a terminal.
pub fn table(rows: &[Scored], format: Format, headers: bool, look: TextStyle) -> String {
    let people = look.width.is_some() && format == Format::Table;
    let score = if people {
        left("SCORE")
    } else {
        right("SCORE")
    };
    let mut columns = vec![
        left("NAMESPACE/POD"),
        left("NODE"),
        left("GPU"),
        score,
        percentages("UTIL").yielding(),
        right("MEM").yielding().in_csv("memory_gib"),
    ];
    columns.extend([left("STATUS")]);
    let opinions = rows.iter().any(|row| row.opinion.is_some());
    columns.extend(
        opinions
            .then_some([left("AI"), left("REASON")])
            .into_iter()
            .flatten(),
    );
    let wide = matches!(format, Format::Wide | Format::Csv);
    columns.extend(
        wide.then_some([left("GPU ID"), left("TERMS"), right("SAMPLES")])
            .into_iter()
            .flatten(),
    );
    let mut table = Table::new(columns).with_wide();
    for row in rows {
        let (namespace, pod) = row.holder();
        let holder = namespace.zip(pod).map_or_else(
            || "-".to_owned(),
            |(namespace, pod)| format!("{namespace}/{pod}"),
        );
        let mark = if row.score.value.is_some() && row.score.terms().len() < TERMS.len() {
            "*"
        } else {
            ""
        };
        let value = match (row.score.value, people) {
            (None, _) => "-".to_owned(),
            (Some(value), true) => {
                format!("{} {value:>5.1}{mark}", blocks(Percent(value), 8, look))
            }
            (Some(value), false) => format!("{value:.1}"),
        };
        let memory = row.score.memory_used.map_or_else(
            || "-".to_owned(),
            |used| format!("{:.1}Gi", used.gibibytes()),
        );
        let mut cells: Vec<Cell> = vec![
            holder.into(),
            row.reading.node.clone().into(),
            if row.measured {
                row.reading.id().to_string()
            } else {
                "-".to_owned()
            }
            .into(),
            value.into(),
            percent(row.score.utilization).into(),
            Cell::measured(
                memory,
                row.score
                    .memory_used
                    .map(|used| format!("{:.2}", used.gibibytes())),
            ),
            Cell::colored(row.score.band.word(), color(row.score.band)),
        ];
        if opinions {
            let of = |text: fn(&Opinion) -> String| {
                row.opinion.as_ref().map_or_else(|| "-".to_owned(), text)
            };
            let verdict = of(|opinion| {
                format!(
                    "{} {:.0}%",
                    opinion.verdict.word(),
                    opinion.confidence * 100.0
                )
            });
            cells.extend([verdict.into(), of(|opinion| opinion.reason.clone()).into()]);
        }
        if wide {
            cells.extend([
                row.id().unwrap_or_else(|| "-".to_owned()).into(),
                row.score.terms().join("+").into(),
                format!("{}/{}", row.score.samples, row.score.expected).into(),
            ]);
        }
        table.row(cells);
    }
    let mut text = table.show(format, headers, look);
    if people && !rows.is_empty() {
        text.push_str(&footer(rows));
    }
    text
}

fn footer(rows: &[Scored]) -> String {
    let parts: Vec<String> = Band::ALL
        .iter()
        .rev()
        .map(|band| {
            (
                band.word(),
                rows.iter().filter(|row| row.score.band == *band).count(),
            )
        })
        .filter(|(_, number)| *number > 0)
        .map(|(word, number)| format!("{number} {word}"))
        .collect();
    let mut text = format!(
        "{}: {}\n",
        count(rows.len() as u64, "GPU"),
        parts.join(", ")
    );
    if rows
        .iter()
        .any(|row| row.score.value.is_some() && row.score.terms().len() < TERMS.len())
    {
        text.push_str("* without every term, re-weighted; -o wide says which\n");
    }
    if rows.iter().any(|row| row.score.band == Band::Unknown) {
        text.push_str("unknown: less than half of the window was sampled since the pod began\n");
    }
    text
}

/// Formats `score stats` for people.
pub fn stats_text(stats: &ScoreStats) -> String {
    let number =
        |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
    let unknown = stats
        .by_status
        .get(Band::Unknown.word())
        .copied()
        .unwrap_or(0);
    let known = match unknown {
        0 => count(stats.total_gpus as u64, "GPU"),
        _ => format!(
            "{}, {unknown} of them unknown: the others have",
            count(stats.total_gpus as u64, "GPU")
        ),
    };
    let mut text = format!(
        "{known}{} mean score {}, from {} to {}; {} low, of them {} idle\n",
        if unknown == 0 { ":" } else { "" },
        number(stats.avg_score),
        number(stats.min_score),
        number(stats.max_score),
        stats.low_utilization_count,
        stats.idle_count
    );
    for (namespace, of) in &stats.by_namespace {
        let name = crate::format::text::clean(namespace);
        text.push_str(&format!(
            "  {name:<24} {:>4}  mean {:>5}  {} low\n",
            of.count,
            number(of.avg_score),
            of.low_util_count
        ));
    }
    text
}
