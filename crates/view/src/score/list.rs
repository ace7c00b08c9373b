//! Renders `score` as JSON with the field names of the utilization monitor, or as a table.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::{Mebibytes, Percent, Watts};
use gpuctl_core::stats::score::opinion::Opinion;
use gpuctl_core::stats::score::pod_devices::PodDeviceCount;
use gpuctl_core::stats::score::selection::Scored;
use gpuctl_core::stats::score::serving::Serving;
use gpuctl_core::stats::score::value::{Band, TERMS};

use crate::format::coverage::{percent, rounded};
use crate::format::table::{Cell, Column, Table, left, percentages, right};
use crate::format::text::{blocks, count, or_dash};
use crate::{Format, TextStyle};

/// The score of a device. The units are percent, MiB (which exporters call MB), watts and MHz.
#[derive(Clone, JsonSchema, Serialize)]
pub struct ScoreItem {
    /// `null` for a device that a pod holds but no exporter reports.
    gpu_id: Option<String>,
    pod: Option<String>,
    namespace: Option<String>,
    /// Name of the node.
    hostname: String,
    model_name: Option<String>,
    /// Mean utilization over the window.
    gpu_util: Option<Percent>,
    /// Mean utilization of the memory bandwidth over the window.
    mem_copy: Option<Percent>,
    /// Mean used memory over the window, in MiB.
    mem_used_mb: Option<Mebibytes>,
    power_usage: Option<Watts>,
    /// Mean clock rate over the window, in MHz.
    sm_clock: Option<f64>,
    /// From 0 (idle) to 100; `null` when too little was measured.
    score: Option<f64>,
    /// One of `idle`, `low`, `normal`, `high` and `unknown`.
    status: &'static str,
    timestamp: Timestamp,
    ai_analysis: Option<Opinion>,
    /// The terms that make up the score. The weights of missing terms are distributed among these.
    terms: Vec<&'static str>,
    /// Number of utilization samples in the window.
    samples: usize,
    /// Number of samples in a complete window.
    expected_samples: usize,
    device_index: Option<u32>,
    slice: Option<String>,
    /// `idle` or `active`, from the request metrics of its pods; `null` when these are not known to
    /// be servers.
    serving: Option<&'static str>,
}

pub fn results(rows: &[Scored], now: Timestamp) -> Vec<ScoreItem> {
    rows.iter().map(|row| item(row, now)).collect()
}

/// Returns the NODE/GPU name of each device, which `who gpu` accepts. A device without an exporter
/// has no number and is named after its pod.
pub fn names(rows: &[Scored]) -> Vec<String> {
    let name = |row: &Scored| match (row.measured, row.holder()) {
        (false, (Some(namespace), Some(pod))) => format!("{namespace}/{pod}"),
        _ => format!("{}/{}", row.reading.node, row.reading.id()),
    };
    rows.iter().map(name).collect()
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

/// Renders the body of the request that reports a device to a control system. `pod_devices` counts
/// the devices of its pod, because the system may end the whole pod.
pub fn control_body(row: &Scored, pod_devices: PodDeviceCount, now: Timestamp) -> String {
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
        "pod_gpu_count": pod_devices.all, "pod_low_gpu_count": pod_devices.low,
    });
    body.to_string()
}

/// Devices below the threshold, including idle ones.
#[derive(JsonSchema, Serialize)]
pub struct Low {
    count: usize,
    threshold: f64,
    /// Held devices without a score, because too little was measured. They may be low, too.
    unknown_count: usize,
    gpus: Vec<ScoreItem>,
}

/// Counts the held devices without a score.
fn unknown(rows: &[Scored]) -> usize {
    let is_unknown =
        |row: &&Scored| row.score.band == Band::Unknown && row.reading.held == Some(true);
    rows.iter().filter(is_unknown).count()
}

/// Returns the number of held devices without a score, for a list without low devices. `None` if all have
/// one.
pub fn unknown_text(rows: &[Scored]) -> Option<String> {
    let held = rows
        .iter()
        .filter(|row| row.reading.held == Some(true))
        .count();
    let devices = |number: usize| count(number as u64, "held GPU");
    match unknown(rows) {
        0 => None,
        unknown if unknown == held => Some(format!(
            "the scores of all {} are unknown: too few samples in the window",
            devices(held)
        )),
        unknown => Some(format!(
            "no held GPU is known to be low, but the scores of {unknown} of {} are unknown: \
             too few samples in the window",
            devices(held)
        )),
    }
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
        unknown_count: unknown(rows),
        gpus,
    }
}

impl Low {
    /// Keeps only some of the GPUs. The count still includes all of them.
    #[must_use]
    pub fn only(self, select: impl FnOnce(Vec<ScoreItem>) -> Vec<ScoreItem>) -> Self {
        Self {
            gpus: select(self.gpus),
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

/// Renders scores as a table, with a summary on a terminal.
pub fn table(rows: &[Scored], format: Format, headers: bool, style: TextStyle) -> String {
    let columns = ScoreColumns {
        bars: style.width.is_some() && format == Format::Table,
        opinions: rows.iter().any(|row| row.opinion.is_some()),
        details: matches!(format, Format::Wide | Format::Csv),
    };
    let mut table = Table::new(columns.columns()).with_wide();
    for row in rows {
        table.row(columns.cells(row, style));
    }
    let mut text = table.show(format, headers, style);
    if columns.bars && !rows.is_empty() {
        text.push_str(&footer(rows));
    }
    text
}

/// The optional columns of a list, and the format of its scores.
struct ScoreColumns {
    /// Whether to draw scores as bars.
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

    fn cells(&self, row: &Scored, style: TextStyle) -> Vec<Cell> {
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
            self.score(row, style).into(),
            percent(row.score.utilization).into(),
            memory_cell(row),
            Cell::colored(row.score.band.word(), color(row.score.band)),
        ];
        if self.opinions {
            let opinion = |text: fn(&Opinion) -> String| or_dash(row.opinion.as_ref().map(text));
            let verdict_text = opinion(|opinion| {
                format!(
                    "{} {:.0}%",
                    opinion.verdict.word(),
                    opinion.confidence * 100.0
                )
            });
            cells.extend([
                verdict_text.into(),
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

    /// Formats the score, and marks a score with missing terms with `*`.
    fn score(&self, row: &Scored, style: TextStyle) -> String {
        let mark = if row.score.terms().len() < TERMS.len() {
            "*"
        } else {
            ""
        };
        match (row.score.value, self.bars) {
            (None, _) => "-".to_owned(),
            (Some(value), true) => {
                format!("{} {value:>5.1}{mark}", blocks(Percent(value), 8, style))
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
        .map(|(band, number)| format!("{number} {band}"))
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
        text.push_str(
            "* some terms are missing, so the others weigh more; -o wide shows the terms\n",
        );
    }
    if rows.iter().any(|row| row.score.band == Band::Unknown) {
        text.push_str("unknown: less than half of the window was sampled since the pod started\n");
    }
    text
}
