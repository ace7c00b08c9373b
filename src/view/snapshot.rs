//! `snapshot`: who held what at one time, in the aggregation document's own words, and a table for people.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::stats::ledger::{Ledger, Tenure, Top};
use crate::stats::usage::WINDOW;
use crate::stats::usage::{Usage, windows};

use super::coverage::{percent, rounded};
use super::hourly::{csv, id};
use super::table::{Table, left, right};
use super::{Format, Look};

/// UIDs of the objects at the top, as far as they still exist, by namespace, kind and name.
pub type Uids = BTreeMap<(String, String, String), String>;

/// One time of a stretch of history.
pub struct At<'a> {
    pub cluster: &'a str,
    pub time: Timestamp,
    pub ledger: &'a Ledger,
    pub usage: &'a Usage,
}

/// What is told of who held what.
#[derive(Clone, Copy, Debug)]
pub struct Details<'a> {
    pub uids: &'a Uids,
    /// A key of annotations, as kube-state-metrics writes it.
    pub annotation: Option<&'a str>,
}

impl At<'_> {
    /// The slot that ends at this time, or the last before it in which somebody looked, not longer ago than five minutes.
    pub(super) fn slot(&self) -> Option<usize> {
        let slot = self.ledger.slot_of(self.time.as_millisecond() - 1)?;
        let seen = (0..=slot).rev().find(|slot| self.ledger.observed[*slot])?;
        let begin = self.ledger.stretch.start + i64::try_from(seen).unwrap_or(i64::MAX).saturating_mul(self.ledger.slot);
        let ago = self.time.as_millisecond() - begin;
        (ago <= WINDOW).then_some(seen)
    }

    /// Devices that there were then.
    fn capacity(&self) -> Option<u64> {
        self.ledger.capacities.get(..=self.slot()?)?.iter().rev().find_map(|capacity| *capacity)
    }

    /// Tenures that held devices then, by their place.
    pub(super) fn held(&self) -> Option<Vec<usize>> {
        let slot = self.slot()?;
        Some((0..self.ledger.tenures.len()).filter(|index| self.ledger.tenures[*index].held[slot]).collect())
    }

    pub(super) fn tenure(&self, index: usize) -> &Tenure {
        &self.ledger.tenures[index]
    }

    pub(super) fn gpus(&self, held: &[usize]) -> u64 {
        held.iter().map(|index| self.tenure(*index).gpus).sum()
    }

    /// Mean of the five minutes before, over the devices of these tenures.
    pub(super) fn utilization(&self, held: &[usize]) -> Option<f64> {
        let window = (self.time.as_millisecond() - 1 - self.ledger.stretch.start).div_euclid(WINDOW);
        let own = held.iter().copied().collect();
        windows(self.ledger.stretch, self.usage.runs_of(&own)).get(&window).copied()
    }

    fn group(&self, held: &[usize], uids: &Uids) -> Value {
        let tops: BTreeSet<&Top> = held.iter().map(|index| &self.tenure(*index).top).collect();
        let workload = |top: &&Top| {
            let own: Vec<usize> = held.iter().copied().filter(|index| self.tenure(*index).top == **top).collect();
            let uid = uids.get(&(top.namespace.clone(), top.kind.clone(), top.name.clone()));
            json!({
                "uid": uid, "name": top.name, "namespace": top.namespace, "kind": top.kind,
                "allocated_gpu": self.gpus(&own), "utilization": self.utilization(&own).map(rounded),
            })
        };
        json!({
            "allocated_gpu": self.gpus(held),
            "utilization": self.utilization(held).map(rounded),
            "workload_count": tops.len(),
            "workloads": tops.iter().map(workload).collect::<Vec<_>>(),
        })
    }

    fn details(&self, held: &[usize], told: Details<'_>) -> Value {
        let mut namespaces: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut annotations: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for index in held {
            let tenure = self.tenure(*index);
            namespaces.entry(&tenure.pod.0).or_default().push(*index);
            let value = told.annotation.and_then(|key| tenure.annotations.as_ref()?.get(key));
            if let Some(value) = value {
                annotations.entry(value).or_default().push(*index);
            }
        }
        let groups = |of: BTreeMap<&str, Vec<usize>>| -> Map<String, Value> {
            of.into_iter().map(|(name, held)| (name.to_owned(), self.group(&held, told.uids))).collect()
        };
        json!({"namespaces": groups(namespaces), "annotations": groups(annotations)})
    }
}

/// A snapshot. In a list it has no details unless they are asked for; the one of now has them, and its dimension.
#[must_use]
pub fn snapshot(at: &At<'_>, details: Option<Details<'_>>, whole: bool) -> Value {
    let held = at.held();
    let time = at.time.to_string();
    let mut row = Map::new();
    let mut put = |key: &str, value: Value| row.insert(key.to_owned(), value);
    put("id", json!(id(&["snapshot", at.cluster, &time])));
    put("cluster_name", json!(at.cluster));
    put("snapshot_time", json!(at.time));
    put("dimension_type", json!("cluster"));
    if whole {
        put("dimension_key", json!(""));
        put("dimension_value", json!(""));
    }
    put("total_gpu_capacity", json!(at.capacity()));
    put("allocated_gpu_count", json!(held.as_ref().map(|held| at.gpus(held))));
    let nothing = || json!({});
    put("allocation_details", details.zip(held).map_or_else(nothing, |(told, held)| at.details(&held, told)));
    put("created_at", json!(at.time));
    Value::Object(row)
}

/// A snapshot for people.
#[must_use]
pub fn text(snapshot: &Value, look: Look) -> String {
    let number = |value: &Value| if value.is_null() { "-".to_owned() } else { value.to_string() };
    let time = snapshot["snapshot_time"].as_str().unwrap_or_default();
    let (held, all) = (number(&snapshot["allocated_gpu_count"]), number(&snapshot["total_gpu_capacity"]));
    let mut text = format!("{time}: {held} of {all} GPUs held\n");
    let mut table = Table::new([left("NAMESPACE"), left("WORKLOAD"), left("KIND"), right("GPUS"), right("UTIL")]);
    let namespaces = snapshot["allocation_details"]["namespaces"].as_object().into_iter().flatten();
    for (namespace, of) in namespaces {
        for workload in of["workloads"].as_array().into_iter().flatten() {
            let of = |key: &str| workload[key].as_str().unwrap_or_default().to_owned();
            table.row(vec![
                namespace.clone().into(),
                of("name").into(),
                of("kind").into(),
                number(&workload["allocated_gpu"]).into(),
                percent(workload["utilization"].as_f64()).into(),
            ]);
        }
    }
    text.push_str(&table.show(Format::Table, true, look));
    text
}

/// Snapshots for people, and as CSV.
#[must_use]
pub fn table(rows: &[Value], format: Format, headers: bool, look: Look) -> String {
    if format == Format::Csv {
        return csv(rows, headers);
    }
    let mut table =
        Table::new([left("SNAPSHOT TIME"), left("CLUSTER"), right("TOTAL GPU CAPACITY"), right("ALLOCATED GPU COUNT")]);
    for row in rows {
        let of = |key: &str| match &row[key] {
            Value::String(text) => text.clone(),
            Value::Null => "-".to_owned(),
            other => other.to_string(),
        };
        let cells = ["snapshot_time", "cluster_name", "total_gpu_capacity", "allocated_gpu_count"].map(of);
        table.row(cells.map(Into::into).to_vec());
    }
    table.show(format, headers, look)
}
