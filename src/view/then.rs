//! How nodes, jobs and single devices were at a time of the past. Field names are those of the present lists; what history
//! does not tell is not there.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::stats::ledger::{Tenure, Top};

use super::coverage::{percent, rounded};
use super::snapshot::At;
use super::table::{Table, left, right};
use super::{Format, Look};

fn list(at: Timestamp, items: Vec<Value>) -> Value {
    json!({"total": items.len(), "at": at, "items": items})
}

/// Every node that had GPUs then.
#[must_use]
pub fn nodes(then: &At<'_>) -> Value {
    let held = then.held();
    let node = |(name, total): (&String, &u64)| {
        let own: Option<Vec<usize>> =
            held.as_ref().map(|held| held.iter().copied().filter(|index| then.tenure(*index).node == *name).collect());
        let used = own.as_ref().map(|own| then.gpus(own));
        let holders: Option<Vec<Value>> = own.as_ref().map(|own| own.iter().map(|index| holder(then.tenure(*index))).collect());
        json!({
            "nodeName": name, "gpuTotal": total, "gpuUsed": used, "gpuFree": used.map(|used| total.saturating_sub(used)),
            "gpuUtilization": own.and_then(|own| then.utilization(&own)).map(rounded), "holders": holders,
        })
    };
    list(then.time, then.ledger.of_nodes.iter().map(node).collect())
}

fn holder(tenure: &Tenure) -> Value {
    let Tenure { pod: (namespace, pod), top, gpus, .. } = tenure;
    json!({"namespace": namespace, "pod": pod, "workload": top.name, "workloadType": top.kind, "gpu": gpus})
}

/// Every workload that requested GPUs then.
#[must_use]
pub fn jobs(then: &At<'_>) -> Value {
    let Some(slot) = then.slot() else { return list(then.time, Vec::new()) };
    let mut tops: BTreeMap<&Top, Vec<usize>> = BTreeMap::new();
    for (index, tenure) in then.ledger.tenures.iter().enumerate().filter(|(_, tenure)| tenure.requested[slot]) {
        tops.entry(&tenure.top).or_default().push(index);
    }
    let job = |(top, own): (&Top, Vec<usize>)| {
        let tenures = || own.iter().map(|index| then.tenure(*index));
        let held: Vec<usize> = own.iter().copied().filter(|index| then.tenure(*index).held[slot]).collect();
        let running: BTreeSet<&(String, String)> = tenures()
            .filter(|tenure| tenure.phase.as_ref().is_some_and(|(_, phase)| phase == "Running"))
            .map(|tenure| &tenure.pod)
            .collect();
        let label = |key: &str| tenures().find_map(|tenure| tenure.labels.as_ref()?.get(key).cloned());
        json!({
            "jobId": top.name, "name": top.name, "namespace": top.namespace, "workloadType": top.kind,
            "pool": label("gpuctl_pool"), "status": if running.is_empty() { "pending" } else { "running" },
            "gpu": then.gpus(&own), "gpuHeld": then.gpus(&held), "user": label("gpuctl_user"), "podsRunning": running.len(),
            "gpuUtilization": then.utilization(&held).map(rounded),
        })
    };
    list(then.time, tops.into_iter().map(job).collect())
}

/// Who had a device then. `None` when nothing is known of such a device.
#[must_use]
pub fn device(then: &At<'_>, node: &str, index: u32) -> Option<Value> {
    let held = then.held()?;
    let total = *then.ledger.of_nodes.get(node)?;
    let place = then.usage.devices.iter().position(|place| place.node == node && place.index == Some(index));
    if place.is_none() && u64::from(index) >= total {
        return None;
    }
    let runs = then.usage.runs().iter().filter(|run| Some(run.device) == place);
    let last = runs.filter_map(|run| Some((&run.holders, run.values.last()?))).max_by_key(|(_, point)| point.at);
    let there: Vec<usize> = held.into_iter().filter(|index| then.tenure(*index).node == node).collect();
    let known: Vec<usize> =
        last.map(|(holders, _)| holders.iter().copied().filter(|holder| there.contains(holder)).collect()).unwrap_or_default();
    // Whoever has all of a node has this one too.
    let sure = match there.as_slice() {
        [one] if known.is_empty() && then.tenure(*one).gpus >= total => vec![*one],
        _ => known,
    };
    let told = |of: &[usize]| of.iter().map(|index| holder(then.tenure(*index))).collect::<Vec<_>>();
    // One that is not named may have it, as long as not all of its devices are known.
    let possible: &[usize] = if sure.is_empty() { &there } else { &[] };
    Some(json!({
        "node": node, "index": index, "at": then.time, "utilization": last.map(|(_, point)| rounded(point.value)),
        "holders": told(&sure), "possibleHolders": told(possible),
    }))
}

fn text_of(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Nodes or jobs for people.
#[must_use]
pub fn table(list: &Value, format: Format, headers: bool, look: Look) -> String {
    let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_nodes = items.first().is_some_and(|item| item.get("nodeName").is_some());
    let columns = match is_nodes {
        true => vec![left("NAME"), right("GPUS"), right("USED"), right("FREE"), right("UTIL"), left("HOLDERS")],
        false => vec![left("NAMESPACE"), left("NAME"), left("KIND"), left("STATUS"), right("GPUS"), right("HELD"), right("UTIL")],
    };
    let mut table = Table::new(columns);
    for item in items {
        let utilization = percent(item["gpuUtilization"].as_f64());
        let cells = match is_nodes {
            true => {
                let holders = item["holders"].as_array().into_iter().flatten();
                let name = |holder: &Value| format!("{}/{}", text_of(&holder["namespace"]), text_of(&holder["pod"]));
                let holders = holders.map(name).collect::<Vec<_>>().join(" ");
                let number = |key: &str| text_of(&item[key]);
                vec![number("nodeName"), number("gpuTotal"), number("gpuUsed"), number("gpuFree"), utilization, holders]
            }
            false => {
                let of = |key: &str| text_of(&item[key]);
                vec![of("namespace"), of("name"), of("workloadType"), of("status"), of("gpu"), of("gpuHeld"), utilization]
            }
        };
        table.row(cells.into_iter().map(Into::into).collect());
    }
    table.show(format, headers, look)
}

/// One sentence about a device.
#[must_use]
pub fn sentence(device: &Value) -> String {
    let names = |key: &str| {
        let one = |holder: &Value| {
            let of = |key: &str| text_of(&holder[key]);
            format!("{}/{} ({} {})", of("namespace"), of("pod"), of("workloadType"), of("workload"))
        };
        device[key].as_array().into_iter().flatten().map(one).collect::<Vec<_>>().join(", ")
    };
    let (held, possible) = (names("holders"), names("possibleHolders"));
    let who = match (held.as_str(), possible.as_str()) {
        ("", "") => "nobody".to_owned(),
        ("", possible) => format!("nobody, or one of {possible}: the exporter names no pod"),
        (held, _) => held.to_owned(),
    };
    let busy = device["utilization"].as_f64().map_or(String::new(), |busy| format!(", {busy:.0}% busy"));
    format!("{}/{} at {}: {who}{busy}\n", text_of(&device["node"]), device["index"], text_of(&device["at"]))
}
