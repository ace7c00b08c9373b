//! Renders the effects of draining a node.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::format::table::{Cell, Table, left, right};
use crate::format::text::age;
use crate::{Format, TextStyle};
use gpuctl_core::model::counting::drain::DrainedPod;

/// The JSON output of `drain NODE --plan`.
#[derive(JsonSchema, Serialize)]
pub struct DrainPlan<'a> {
    pub node: &'a str,
    pub total: usize,
    pub items: Vec<DrainItem<'a>>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainItem<'a> {
    namespace: &'a str,
    pod: &'a str,
    /// `null` for a pod that gpuctl did not create.
    job: Option<&'a str>,
    rank: Option<u32>,
    gpu: u64,
    /// Number of other pods in the training. They restart together with this one.
    peers: u32,
    since: Option<Timestamp>,
    last_checkpoint: Option<Timestamp>,
    /// `null` when no node has capacity for it now, or when that is unknown.
    moves_to: Option<&'a str>,
}

pub fn plan<'a>(node: &'a str, pods: &'a [DrainedPod]) -> DrainPlan<'a> {
    let item = |pod: &'a DrainedPod| DrainItem {
        namespace: &pod.namespace,
        pod: &pod.name,
        job: pod.job.as_deref(),
        rank: pod.rank,
        gpu: pod.gpus,
        peers: pod.peers,
        since: pod.since,
        last_checkpoint: pod.checkpoint,
        moves_to: pod.moves_to.as_deref(),
    };
    DrainPlan {
        node,
        total: pods.len(),
        items: pods.iter().map(item).collect(),
    }
}

pub fn table(
    pods: &[DrainedPod],
    format: Format,
    headers: bool,
    style: TextStyle,
    now: Timestamp,
) -> String {
    let columns = [
        left("NAMESPACE"),
        left("POD"),
        left("JOB"),
        right("GPUS"),
        right("PEERS"),
        right("AGE"),
        right("CHECKPOINT"),
        left("MOVES TO"),
    ];
    let mut table = Table::new(columns);
    for pod in pods {
        table.row(vec![
            pod.namespace.clone().into(),
            pod.name.clone().into(),
            pod.job.clone().unwrap_or_else(|| "-".to_owned()).into(),
            pod.gpus.to_string().into(),
            pod.peers.to_string().into(),
            Cell::age(pod.since, now),
            pod.checkpoint
                .map_or_else(
                    || "-".to_owned(),
                    |at| format!("{} ago", age(Some(at), now)),
                )
                .into(),
            pod.moves_to
                .clone()
                .unwrap_or_else(|| "no node now".to_owned())
                .into(),
        ]);
    }
    table.show(format, headers, style)
}
