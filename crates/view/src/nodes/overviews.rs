//! Renders `get overview --all-contexts`: a row for each context, and their total.

use schemars::JsonSchema;
use serde::Serialize;

use super::overview::{Overview, OverviewSource, ROW_COLUMNS, document};
use crate::format::coverage::Coverage;
use crate::format::row_contexts::RowContexts;
use crate::format::table::Table;
use crate::{Format, TextStyle};
use gpuctl_core::model::{Consumers, Inventory};
use gpuctl_core::stats::exporters::node_exporter::Machines;

/// The data of one cluster's overview, or of all clusters together.
#[derive(Default)]
pub struct OverviewFacts {
    pub inventory: Inventory,
    /// `None` if the user cannot list pods.
    pub consumers: Option<Consumers>,
    pub machines: Machines,
    pub coverage: Option<Coverage>,
}

impl OverviewFacts {
    pub fn source(&self) -> OverviewSource<'_> {
        OverviewSource {
            inventory: &self.inventory,
            consumers: self.consumers.as_ref(),
            machines: self.machines,
            coverage: self.coverage,
        }
    }

    /// Joins several clusters, so that totals and means are computed as for one cluster. What is
    /// unknown in one cluster is unknown in the sum, except for metrics: the number of measured
    /// devices shows how many of them are known.
    fn sum(clusters: Vec<Self>) -> Self {
        let machines: Vec<Machines> = clusters.iter().map(|cluster| cluster.machines).collect();
        let mut sum = Self {
            consumers: Some(Consumers::default()),
            machines: Machines::sum(&machines),
            coverage: Coverage::sum(clusters.iter().map(|cluster| cluster.coverage)),
            ..Self::default()
        };
        for cluster in clusters {
            sum.inventory.hosts.extend(cluster.inventory.hosts);
            sum.consumers = sum
                .consumers
                .zip(cluster.consumers)
                .map(|(mut all, consumers)| {
                    all.with_devices.extend(consumers.with_devices);
                    all
                });
        }
        sum
    }
}

/// The JSON output of `get overview --all-contexts`.
#[derive(JsonSchema, Serialize)]
pub struct OverviewList {
    /// Number of contexts.
    total: usize,
    items: Vec<ContextOverview>,
    /// All contexts together.
    sum: Overview,
}

#[derive(JsonSchema, Serialize)]
struct ContextOverview {
    /// The kubeconfig context of the cluster.
    context: String,
    #[serde(flatten)]
    overview: Overview,
}

/// Builds the list for both JSON and text, from the contexts and their data.
pub fn list(clusters: Vec<(String, OverviewFacts)>) -> OverviewList {
    let items: Vec<ContextOverview> = clusters
        .iter()
        .map(|(context, facts)| ContextOverview {
            context: context.clone(),
            overview: document(&facts.source()),
        })
        .collect();
    let all = clusters.into_iter().map(|(_, facts)| facts).collect();
    OverviewList {
        total: items.len(),
        items,
        sum: document(&OverviewFacts::sum(all).source()),
    }
}

/// Renders a table, with a total if there are several contexts.
pub fn table(list: &OverviewList, style: TextStyle) -> String {
    let mut table = Table::new(ROW_COLUMNS);
    for item in &list.items {
        table.row(item.overview.row());
    }
    if list.items.len() > 1 {
        table.row(list.sum.row());
    }
    let contexts: Vec<&str> = list
        .items
        .iter()
        .map(|item| item.context.as_str())
        .collect();
    table
        .with_contexts(RowContexts::new(&contexts))
        .show(Format::Table, true, style)
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use gpuctl_core::model::{Consumer, Node, NodeDetails};

    /// Creates a cluster with one node of 8 GPUs. One pod holds `held` of them, and another waits
    /// for `waiting` GPUs.
    fn cluster(held: u64, waiting: u64) -> OverviewFacts {
        let resources = [("nvidia.com/gpu".to_owned(), "8".to_owned())];
        let host = NodeDetails {
            node: Node {
                // Clusters often use the same names.
                name: "gpu-01".to_owned(),
                allocatable: resources.clone().into(),
                schedulable: true,
                ..Node::default()
            },
            capacity: resources.clone().into(),
            allocatable: resources.into(),
            ..NodeDetails::default()
        };
        let pod = |name: &str, node: Option<&str>, gpus: u64| Consumer {
            namespace: "team".into(),
            name: name.into(),
            node: node.map(Into::into),
            devices: Rc::new([("nvidia.com/gpu".to_owned(), gpus)].into()),
            asks_for_devices: true,
            ..Consumer::default()
        };
        let consumers: Consumers = [
            pod("runs", Some("gpu-01"), held),
            pod("waits", None, waiting),
        ]
        .into_iter()
        .collect();
        OverviewFacts {
            inventory: Inventory::new(vec![host], Some(&consumers), &[]),
            consumers: Some(consumers),
            ..OverviewFacts::default()
        }
    }

    const STYLE: TextStyle = TextStyle {
        width: None,
        color: false,
        plain: false,
    };

    #[test]
    fn total_adds_up_the_contexts() {
        let clusters = vec![
            ("prod".to_owned(), cluster(8, 16)),
            ("lab".to_owned(), cluster(2, 4)),
        ];
        let list = list(clusters);
        // 8 + 8 GPUs, 8 + 2 of them allocated and 0 + 6 free, and pods that wait for 16 + 4 GPUs.
        assert_eq!(
            table(&list, STYLE),
            "CONTEXT NODES FAULTY GPUS ALLOCATED FREE LOST CORDONED UTIL WAITING\n\
             prod        1      0    8         8    0    0        0    -      16\n\
             lab         1      0    8         2    6    0        0    -       4\n\
             total       2      0   16        10    6    0        0    -      20\n"
        );
        let json = serde_json::to_value(&list).unwrap();
        assert_eq!(json["items"][0]["context"], "prod");
        // 10 of 16 GPUs are allocated. One node is full, and one is partly used.
        assert_eq!(json["sum"]["allocationRate"], 0.625);
        assert_eq!(
            (
                &json["sum"]["busyNodes"],
                &json["sum"]["partiallyIdleNodes"]
            ),
            (&1.into(), &1.into())
        );
    }

    #[test]
    fn unknown_pods_of_one_context_make_the_total_unknown() {
        let unknown = OverviewFacts {
            consumers: None,
            ..cluster(2, 0)
        };
        let clusters = vec![
            ("prod".to_owned(), cluster(8, 16)),
            ("lab".to_owned(), unknown),
        ];
        let json = serde_json::to_value(list(clusters)).unwrap();
        assert_eq!(json["items"][0]["waitingGpus"], 16);
        assert_eq!(json["sum"]["waitingGpus"], serde_json::Value::Null);
    }
}
