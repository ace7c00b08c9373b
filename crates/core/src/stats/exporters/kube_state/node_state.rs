//! Queries which GPUs of nodes pods could not get: on cordoned nodes, on nodes that were not ready,
//! and GPUs that the kubelet did not offer.
//!
//! Source: kube-state-metrics' docs/metrics/cluster/node-metrics.md.

use super::super::query::quoted;
use super::resources::offered;
use super::{label, window};
use crate::model::values::series::Series;

/// A state of nodes over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeStateQuery {
    /// 1 while the node is cordoned.
    Cordoned,
    /// 1 while the node is ready.
    Ready,
    /// Devices and slices that the kubelet offers to pods.
    Allocatable,
}

impl NodeStateQuery {
    pub const ALL: [Self; 3] = [Self::Cordoned, Self::Ready, Self::Allocatable];

    fn metric(self) -> &'static str {
        match self {
            Self::Cordoned => "kube_node_spec_unschedulable",
            Self::Ready => "kube_node_status_condition",
            Self::Allocatable => "kube_node_status_allocatable",
        }
    }

    fn matchers(self) -> String {
        match self {
            Self::Cordoned => String::new(),
            Self::Ready => "condition=\"Ready\",status=\"true\",".to_owned(),
            Self::Allocatable => format!("resource=~\"{}\",", offered()),
        }
    }

    fn selector(self, names: &[&str], label: &str, seconds: i64) -> String {
        let names: Vec<String> = names.iter().map(|name| regex::escape(name)).collect();
        format!(
            "{}{{{}{label}=~{}}}{}",
            self.metric(),
            self.matchers(),
            quoted(&names.join("|")),
            window(seconds)
        )
    }

    /// Determines the state of a series in the answer to [`worst`], which has no metric names.
    fn from_labels(series: &Series) -> Self {
        match (series.label("condition"), series.label("resource")) {
            (Some(_), _) => Self::Ready,
            (None, Some(_)) => Self::Allocatable,
            (None, None) => Self::Cordoned,
        }
    }
}

/// Queries the worst state that each node had in the last `seconds`, one sample per series. Most
/// nodes are never cordoned or lost, so only the others need their states over time.
pub fn worst(names: &[&str], label: &str, seconds: i64) -> String {
    let of = |state: NodeStateQuery| {
        let function = match state {
            NodeStateQuery::Cordoned => "max_over_time",
            _ => "min_over_time",
        };
        format!("{function}({})", state.selector(names, label, seconds))
    };
    // The series differ in their labels, so `or` keeps all of them.
    NodeStateQuery::ALL.map(of).join(" or ")
}

/// Queries a state over time.
pub fn states(state: NodeStateQuery, names: &[&str], label: &str, seconds: i64) -> String {
    state.selector(names, label, seconds)
}

/// Reads the answer to [`worst`] as node, state, resource (empty for other states than
/// [`NodeStateQuery::Allocatable`]) and value.
pub fn read_worst(series: &Series) -> Option<(&str, NodeStateQuery, &str, f64)> {
    let node = label(series, "node")?;
    let resource = series.label("resource").unwrap_or_default();
    let value = series.last()?.value;
    Some((node, NodeStateQuery::from_labels(series), resource, value))
}
