//! Renders `score` with the field names of the utilization monitor, and a table.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::{Mebibytes, Percent, Watts};
use gpuctl_core::stats::score::opinion::Opinion;
use gpuctl_core::stats::score::selection::Scored;
use gpuctl_core::stats::score::serving::Serving;
use gpuctl_core::stats::score::value::{Band, TERMS};

use crate::format::coverage::{percent, rounded};
use crate::format::table::{Cell, Column, Table, left, percentages, right};
use crate::format::text::{blocks, count, or_dash};
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

/// Renders the body that a control system receives about a device.
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

fn color(band: Band) -> Option<colored::Color> {
    match band {
        Band::Idle | Band::Low => Some(colored::Color::Yellow),
        Band::Normal | Band::High => Some(colored::Color::Green),
        Band::Unknown => Some(colored::Color::BrightBlack),
    }
}

/// Returns the results for people, with what they come to on a terminal.
pub fn table(rows: &[Scored], format: Format, headers: bool, look: TextStyle) -> String {
    let shown = ScoreColumns {
        bars: look.width.is_some() && format == Format::Table,
        opinions: rows.iter().any(|row| row.opinion.is_some()),
        details: matches!(format, Format::Wide | Format::Csv),
    };
    let mut table = Table::new(shown.columns()).with_wide();
    for row in rows {
        table.row(shown.cells(row, look));
    }
    let mut text = table.show(format, headers, look);
    if shown.bars && !rows.is_empty() {
        text.push_str(&footer(rows));
    }
    text
}

/// Which columns a list has, and how its scores are written.
struct ScoreColumns {
    /// Scores as bars, for a terminal.
    bars: bool,
    opinions: bool,
    details: bool,
}

impl ScoreColumns {
    fn columns(&self) -> Vec<Column> {
        let mut columns = vec![
            left("NAMESPACE/POD"),
            left("NODE"),
            left("GPU"),
            if self.bars {
                left("SCORE")
            } else {
                right("SCORE")
            },
            percentages("UTIL").yielding(),
            right("MEM").yielding().in_csv("memory_gib"),
            left("STATUS"),
        ];
        if self.opinions {
            columns.extend([left("AI"), left("REASON")]);
        }
        if self.details {
            columns.extend([left("GPU ID"), left("TERMS"), right("SAMPLES")]);
        }
        columns
    }

    fn cells(&self, row: &Scored, look: TextStyle) -> Vec<Cell> {
        let (namespace, pod) = row.holder();
        let holder = namespace.zip(pod).map_or_else(
            || "-".to_owned(),
            |(namespace, pod)| format!("{namespace}/{pod}"),
        );
        let device = if row.measured {
            row.reading.id().to_string()
        } else {
            "-".to_owned()
        };
        let mut cells: Vec<Cell> = vec![
            holder.into(),
            row.reading.node.clone().into(),
            device.into(),
            self.score(row, look).into(),
            percent(row.score.utilization).into(),
            memory_cell(row),
            Cell::colored(row.score.band.word(), color(row.score.band)),
        ];
        if self.opinions {
            let opinion = |text: fn(&Opinion) -> String| or_dash(row.opinion.as_ref().map(text));
            let verdict = opinion(|opinion| {
                format!(
                    "{} {:.0}%",
                    opinion.verdict.word(),
                    opinion.confidence * 100.0
                )
            });
            cells.extend([
                verdict.into(),
                opinion(|opinion| opinion.reason.clone()).into(),
            ]);
        }
        if self.details {
            cells.extend([
                or_dash(row.id()).into(),
                row.score.terms().join("+").into(),
                format!("{}/{}", row.score.samples, row.score.expected).into(),
            ]);
        }
        cells
    }

    /// Renders the score; `*` marks one that lacks terms.
    fn score(&self, row: &Scored, look: TextStyle) -> String {
        let mark = if row.score.terms().len() < TERMS.len() {
            "*"
        } else {
            ""
        };
        match (row.score.value, self.bars) {
            (None, _) => "-".to_owned(),
            (Some(value), true) => {
                format!("{} {value:>5.1}{mark}", blocks(Percent(value), 8, look))
            }
            (Some(value), false) => format!("{value:.1}"),
        }
    }
}

fn memory_cell(row: &Scored) -> Cell {
    let used = row.score.memory_used;
    Cell::measured(
        or_dash(used.map(|used| format!("{:.1}Gi", used.gibibytes()))),
        used.map(|used| format!("{:.2}", used.gibibytes())),
    )
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
