//! `stats`: rows of hours in the aggregation document's own words, a table and a chart for people. Percent are 0 to 100, hours
//! are in UTC, memory is in GiB; what is not known is null.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::model::Point;
use crate::stats::hourly::{OfWorkload, Sum, Summary};

use super::chart::{Frame, chart};
use super::coverage::{percent, rounded};
use super::table::{Column, Table, left, right};
use super::{Format, Look};

/// The hour that a row is about.
#[derive(Clone, Debug)]
pub struct Hour<'a> {
    pub cluster: &'a str,
    pub start: Timestamp,
    /// When it ends; for the present hour, when it was looked at.
    pub end: Timestamp,
    pub partial: bool,
}

/// A number for a row: the same for the same row, below 2^53 so that every reader of JSON keeps it whole. FNV-1a.
#[must_use]
pub fn id(parts: &[&str]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in parts.join("\u{0}").bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash & ((1 << 53) - 1)
}

fn value(of: Option<f64>) -> Value {
    of.map_or(Value::Null, |value| json!(rounded(value)))
}

/// What every row begins with.
fn begin(hour: &Hour<'_>, kind: &str, names: &[&str]) -> serde_json::Map<String, Value> {
    let start = hour.start.to_string();
    let parts: Vec<&str> = [kind, hour.cluster, &start].into_iter().chain(names.iter().copied()).collect();
    let mut row = serde_json::Map::new();
    row.insert("id".to_owned(), json!(id(&parts)));
    row.insert("cluster_name".to_owned(), json!(hour.cluster));
    row
}

fn utilization(row: &mut serde_json::Map<String, Value>, of: Option<&Summary>) {
    let mut put = |key: &str, part: fn(&Summary) -> f64| row.insert(key.to_owned(), value(of.map(part)));
    put("avg_utilization", |of| of.mean);
    put("max_utilization", |of| of.max);
    put("min_utilization", |of| of.min);
    put("p50_utilization", |of| of.p50);
    put("p95_utilization", |of| of.p95);
}

/// What a row of a group has, whatever the group.
fn group(row: &mut serde_json::Map<String, Value>, sum: Option<&Sum>) {
    utilization(row, sum.and_then(|sum| sum.windows.as_ref()));
    let samples = sum.and_then(|sum| sum.samples.as_ref());
    row.insert("sample_count".to_owned(), json!(sum.and_then(|sum| sum.windows).map_or(0, |windows| windows.count)));
    row.insert("device_sample_count".to_owned(), json!(samples.map_or(0, |samples| samples.count)));
    row.insert("device_p50_utilization".to_owned(), value(samples.map(|samples| samples.p50)));
    row.insert("device_p95_utilization".to_owned(), value(samples.map(|samples| samples.p95)));
}

/// What every row ends with. A closed hour was made at its end, so that equal input gives equal bytes.
fn end(mut row: serde_json::Map<String, Value>, hour: &Hour<'_>) -> Value {
    row.insert("partial".to_owned(), json!(hour.partial));
    row.insert("created_at".to_owned(), json!(hour.end));
    row.insert("updated_at".to_owned(), json!(hour.end));
    Value::Object(row)
}

#[must_use]
pub fn of_cluster(hour: &Hour<'_>, capacity: Option<u64>, sum: Option<&Sum>, dropped: u64) -> Value {
    let mut row = begin(hour, "cluster", &[]);
    row.insert("stat_hour".to_owned(), json!(hour.start));
    row.insert("total_gpu_capacity".to_owned(), json!(capacity));
    let allocated = sum.map(|sum| sum.allocated);
    row.insert("allocated_gpu_count".to_owned(), value(allocated));
    let rate = allocated.zip(capacity.filter(|capacity| *capacity > 0)).map(|(held, all)| (held / all as f64 * 100.0).min(100.0));
    row.insert("allocation_rate".to_owned(), value(rate));
    group(&mut row, sum);
    row.insert("dropped_sample_count".to_owned(), json!(dropped));
    end(row, hour)
}

#[must_use]
pub fn of_namespace(hour: &Hour<'_>, capacity: Option<u64>, namespace: &str, sum: &Sum) -> Value {
    let mut row = begin(hour, "namespace", &[namespace]);
    row.insert("namespace".to_owned(), json!(namespace));
    row.insert("stat_hour".to_owned(), json!(hour.start));
    row.insert("total_gpu_capacity".to_owned(), json!(capacity));
    row.insert("allocated_gpu_count".to_owned(), value(Some(sum.allocated)));
    group(&mut row, Some(sum));
    row.insert("active_workload_count".to_owned(), json!(sum.workloads));
    end(row, hour)
}

/// `dimension` is its type (`label` or `annotation`), key and value.
#[must_use]
pub fn of_dimension(hour: &Hour<'_>, dimension: [&str; 3], sum: &Sum) -> Value {
    let mut row = begin(hour, "dimension", &dimension);
    for (name, text) in ["dimension_type", "dimension_key", "dimension_value"].into_iter().zip(dimension) {
        row.insert(name.to_owned(), json!(text));
    }
    row.insert("stat_hour".to_owned(), json!(hour.start));
    row.insert("allocated_gpu_count".to_owned(), value(Some(sum.allocated)));
    group(&mut row, Some(sum));
    row.insert("active_workload_count".to_owned(), json!(sum.workloads));
    end(row, hour)
}

/// `owner_uid` is not known from history; whoever knows it puts it in.
#[must_use]
pub fn of_workload(hour: &Hour<'_>, workload: &OfWorkload) -> Value {
    let OfWorkload { top, sum, memory_used, memory_total, replicas, status, labels, annotations } = workload;
    let mut row = begin(hour, "workload", &[&top.namespace, &top.kind, &top.name]);
    let gib = |of: Option<f64>| value(of.map(|mib| mib / 1024.0));
    let mut put = |key: &str, value: Value| row.insert(key.to_owned(), value);
    put("namespace", json!(top.namespace));
    put("workload_name", json!(top.name));
    put("workload_type", json!(top.kind));
    put("stat_hour", json!(hour.start));
    put("allocated_gpu_count", value(Some(sum.allocated)));
    put("requested_gpu_count", value(Some(sum.requested)));
    utilization(&mut row, sum.samples.as_ref());
    let mut put = |key: &str, value: Value| row.insert(key.to_owned(), value);
    put("avg_gpu_memory_used", gib(memory_used.map(|of| of.mean)));
    put("max_gpu_memory_used", gib(memory_used.map(|of| of.max)));
    put("avg_gpu_memory_total", gib(memory_total.map(|of| of.mean)));
    put("avg_replica_count", value(replicas.map(|of| of.mean)));
    #[expect(clippy::cast_possible_truncation, reason = "a count of pods")]
    let count = |of: Option<f64>| of.map_or(Value::Null, |of| json!(of as i64));
    put("max_replica_count", count(replicas.map(|of| of.max)));
    put("min_replica_count", count(replicas.map(|of| of.min)));
    put("workload_status", json!(status));
    put("sample_count", json!(sum.samples.map_or(0, |of| of.count)));
    put("owner_uid", Value::Null);
    put("owner_name", json!(top.name));
    put("labels", json!(labels));
    put("annotations", json!(annotations));
    end(row, hour)
}

/// The document's page of rows.
#[derive(Serialize)]
pub struct Page {
    pub total: usize,
    pub page: usize,
    pub page_size: usize,
    pub total_pages: usize,
    pub data: Vec<Value>,
}

/// Columns of a table: title, key, and whether it is a percentage.
type Columns = &'static [(&'static str, &'static str, bool)];

const CLUSTER: Columns = &[
    ("HOUR", "stat_hour", false),
    ("GPUS", "total_gpu_capacity", false),
    ("HELD", "allocated_gpu_count", false),
    ("RATE", "allocation_rate", true),
    ("UTIL", "avg_utilization", true),
    ("MIN", "min_utilization", true),
    ("P50", "p50_utilization", true),
    ("P95", "p95_utilization", true),
    ("MAX", "max_utilization", true),
    ("SAMPLES", "device_sample_count", false),
];
const NAMESPACES: Columns = &[
    ("HOUR", "stat_hour", false),
    ("NAMESPACE", "namespace", false),
    ("HELD", "allocated_gpu_count", false),
    ("UTIL", "avg_utilization", true),
    ("MIN", "min_utilization", true),
    ("MAX", "max_utilization", true),
    ("WORKLOADS", "active_workload_count", false),
];
const LABELS: Columns = &[
    ("HOUR", "stat_hour", false),
    ("VALUE", "dimension_value", false),
    ("HELD", "allocated_gpu_count", false),
    ("UTIL", "avg_utilization", true),
    ("MIN", "min_utilization", true),
    ("MAX", "max_utilization", true),
    ("WORKLOADS", "active_workload_count", false),
];
const WORKLOADS: Columns = &[
    ("HOUR", "stat_hour", false),
    ("NAMESPACE", "namespace", false),
    ("WORKLOAD", "workload_name", false),
    ("KIND", "workload_type", false),
    ("STATUS", "workload_status", false),
    ("HELD", "allocated_gpu_count", false),
    ("UTIL", "avg_utilization", true),
    ("P95", "p95_utilization", true),
    ("MEM GIB", "avg_gpu_memory_used", false),
    ("PODS", "avg_replica_count", false),
];

/// What is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Cluster,
    Namespaces,
    Labels,
    Workloads,
}

/// Rows for people, or as CSV with every field of the rows.
#[must_use]
pub fn table(kind: Kind, rows: &[Value], format: Format, headers: bool, look: Look) -> String {
    if format == Format::Csv {
        return csv(rows, headers);
    }
    let columns = match kind {
        Kind::Cluster => CLUSTER,
        Kind::Namespaces => NAMESPACES,
        Kind::Labels => LABELS,
        Kind::Workloads => WORKLOADS,
    };
    let clusters: BTreeSet<&str> = rows.iter().filter_map(|row| row["cluster_name"].as_str()).collect();
    let columns: Vec<(&'static str, &'static str, bool)> =
        (clusters.len() > 1).then_some(("CLUSTER", "cluster_name", false)).into_iter().chain(columns.iter().copied()).collect();
    let title = |(title, key, _): &(&'static str, &str, bool)| -> Column {
        if matches!(
            *key,
            "cluster_name"
                | "stat_hour"
                | "namespace"
                | "dimension_value"
                | "workload_name"
                | "workload_type"
                | "workload_status"
        ) {
            left(title)
        } else {
            right(title)
        }
    };
    let mut table = Table::new(columns.iter().map(title));
    for row in rows {
        let cell = |(_, key, share): &(&str, &str, bool)| match &row[*key] {
            Value::Null => "-".to_owned(),
            Value::String(text) if *key == "stat_hour" => {
                let short = text.get(..16).unwrap_or(text).replace('T', " ");
                if row["partial"] == true { format!("{short} …") } else { short }
            }
            Value::String(text) => text.clone(),
            number if *share => percent(number.as_f64()),
            number => number.to_string(),
        };
        table.row(columns.iter().map(|column| cell(column).into()).collect());
    }
    table.show(format, headers, look)
}

/// Every field of every row; maps as JSON.
pub(super) fn csv(rows: &[Value], headers: bool) -> String {
    let quote = |text: String| {
        if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
    };
    let cell = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => quote(text.clone()),
        other => quote(other.to_string()),
    };
    let mut text = String::new();
    let keys: Vec<&String> = rows.first().and_then(Value::as_object).map(|row| row.keys().collect()).unwrap_or_default();
    if headers && !keys.is_empty() {
        text.push_str(&format!("{}\n", keys.iter().map(|key| key.as_str()).collect::<Vec<_>>().join(",")));
    }
    for row in rows {
        let cells: Vec<String> = keys.iter().map(|key| cell(&row[key.as_str()])).collect();
        text.push_str(&format!("{}\n", cells.join(",")));
    }
    text
}

/// Utilization of a cluster by the hour, for a terminal.
#[must_use]
pub fn curve(rows: &[Value], start: i64, end: i64, look: Look) -> String {
    let of = |row: &Value| {
        let at: Timestamp = row["stat_hour"].as_str()?.parse().ok()?;
        Some(Point { at: at.as_millisecond(), value: row["avg_utilization"].as_f64()? })
    };
    let points: Vec<Point> = rows.iter().filter_map(of).collect();
    if look.width.is_none() || points.len() < 2 {
        return String::new();
    }
    let width = look.width.unwrap_or(80).min(100);
    let frame = Frame { from: start * 1000, to: end * 1000, top: 100.0, height: 5, width };
    chart(&points, frame, "utilization of held GPUs by the hour, %", look)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_of_its_row() {
        let one = id(&["cluster", "lab", "2025-11-05T14:00:00Z"]);
        assert_eq!(one, id(&["cluster", "lab", "2025-11-05T14:00:00Z"]));
        assert_ne!(one, id(&["cluster", "la", "b2025-11-05T14:00:00Z"]));
        assert!(one < 1 << 53);
    }
}
