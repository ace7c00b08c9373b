//! Renders node labels that a command read, wrote or removed.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::error::Error;
use gpuctl_core::model::NodeDetails;
use gpuctl_core::model::facts::gpu::is_type_label;

use super::node_description::LabelItem;
use crate::format::row_contexts::RowContexts;
use crate::format::table::{Table, left};
use crate::{Format, TextStyle};

/// A label of one node, with the time of its last write.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeLabel {
    node_name: String,
    label: TimedLabel,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct TimedLabel {
    key: String,
    value: String,
    /// Always `null`: the API server only records the last write.
    created_at: Option<Timestamp>,
    last_updated_at: Option<Timestamp>,
}

pub fn timed(host: &NodeDetails, key: &str, value: &str) -> NodeLabel {
    NodeLabel {
        node_name: host.node.name.clone(),
        label: TimedLabel {
            key: key.to_owned(),
            value: value.to_owned(),
            created_at: None,
            last_updated_at: host.labels_written.get(key).copied(),
        },
    }
}

/// One label on many nodes.
#[derive(JsonSchema, Serialize)]
pub struct LabelList {
    total: usize,
    items: Vec<NodeValue>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeValue {
    /// The kubeconfig context of its cluster, with `--all-contexts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<String>,
    node_name: String,
    label_key: String,
    /// `null` on a node without the label.
    label_value: Option<String>,
}

pub fn of_nodes(
    hosts: &[&NodeDetails],
    contexts: RowContexts<'_>,
    key: &str,
    total: usize,
) -> LabelList {
    let item = |(index, host): (usize, &&NodeDetails)| NodeValue {
        context: contexts.owned(index),
        node_name: host.node.name.clone(),
        label_key: key.to_owned(),
        label_value: host.node.labels.get(key).cloned(),
    };
    LabelList {
        total,
        items: hosts.iter().enumerate().map(item).collect(),
    }
}

pub fn of_nodes_table(
    hosts: &[&NodeDetails],
    contexts: RowContexts<'_>,
    key: &str,
    format: Format,
    headers: bool,
    style: TextStyle,
) -> String {
    let mut table = Table::new([left("NODE"), left("VALUE")]);
    for host in hosts {
        table.row(vec![
            host.node.name.clone().into(),
            host.node
                .labels
                .get(key)
                .cloned()
                .unwrap_or_default()
                .into(),
        ]);
    }
    table.with_contexts(contexts).show(format, headers, style)
}

/// The GPU labels of many nodes, with their pools.
#[derive(JsonSchema, Serialize)]
pub struct GpuLabelList {
    total: usize,
    items: Vec<GpuLabels>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct GpuLabels {
    node_name: String,
    gpu_labels: Vec<LabelItem>,
    bound_pools: Vec<String>,
}

fn gpu_labels(host: &NodeDetails) -> Vec<LabelItem> {
    let gpu_labels = host
        .node
        .labels
        .iter()
        .filter(|(key, _)| is_type_label(key));
    gpu_labels
        .map(|(key, value)| LabelItem {
            key: key.clone(),
            value: value.clone(),
        })
        .collect()
}

pub fn of_gpus(hosts: &[&NodeDetails], total: usize) -> GpuLabelList {
    let item = |host: &&NodeDetails| GpuLabels {
        node_name: host.node.name.clone(),
        gpu_labels: gpu_labels(host),
        bound_pools: host
            .node
            .pool()
            .map(ToOwned::to_owned)
            .into_iter()
            .collect(),
    };
    GpuLabelList {
        total,
        items: hosts.iter().map(item).collect(),
    }
}

pub fn of_gpus_table(
    hosts: &[&NodeDetails],
    format: Format,
    headers: bool,
    style: TextStyle,
) -> String {
    let mut table = Table::new([left("NODE"), left("POOL"), left("LABEL"), left("VALUE")]);
    for host in hosts {
        let pool = host.node.pool().unwrap_or_default().to_owned();
        let labels = gpu_labels(host);
        if labels.is_empty() {
            table.row(vec![
                host.node.name.clone().into(),
                pool.clone().into(),
                "".into(),
                "".into(),
            ]);
        }
        for label in labels {
            table.row(vec![
                host.node.name.clone().into(),
                pool.clone().into(),
                label.key.into(),
                label.value.into(),
            ]);
        }
    }
    table.show(format, headers, style)
}

/// A label that was written or removed.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Labelled<'a> {
    pub node_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<LabelItem>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_key: Option<&'a str>,
    pub message: String,
    /// `client` or `server` for a dry run, which changed nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<&'static str>,
}

/// The JSON output for several nodes.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeBatch {
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<String>,
    success: Vec<String>,
    failed: Vec<NotDone>,
    message: String,
    /// `client` or `server` for a dry run, which changed nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    dry_run: Option<&'static str>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct NotDone {
    node_name: String,
    error: String,
    message: String,
}

pub fn batch(
    pool: Option<&str>,
    done: &[String],
    failed: &[(String, Error)],
    dry_run: Option<&'static str>,
) -> NodeBatch {
    let updated = if dry_run.is_some() {
        "would be updated"
    } else {
        "updated"
    };
    let not = |(node, error): &(String, Error)| NotDone {
        node_name: node.clone(),
        error: error.name.to_string(),
        message: error.to_string(),
    };
    NodeBatch {
        pool: pool.map(ToOwned::to_owned),
        success: done.to_vec(),
        failed: failed.iter().map(not).collect(),
        message: format!(
            "{} of {} nodes {updated}",
            done.len(),
            done.len() + failed.len()
        ),
        dry_run,
    }
}
