//! Finds this cluster's series in a store with several clusters (Thanos, Mimir, VictoriaMetrics,
//! managed services). Trusts a label value only if this cluster's own pods or nodes have it, and no
//! other value.

use std::collections::{BTreeMap, BTreeSet};

use crate::observe::label_names::{LabelNames, fetch};
use futures::future::{join, join_all, join3};
use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::model::UnixSeconds;
use gpuctl_core::stats::exporters::cluster_labels::ClusterLabel;
use gpuctl_core::stats::exporters::node_index::NodeIndex;
use gpuctl_core::stats::exporters::query;
use gpuctl_prometheus::{Matchers, Prometheus, QueryError};

/// Labels that identify clusters, from Prometheus' external labels or from managed services.
const LABELS: [&str; 6] = [
    "cluster",
    "cluster_name",
    "k8s_cluster_name",
    "k8s_cluster",
    "cluster_id",
    "prometheus_cluster",
];

/// Maximum number of label values in a message.
const LIMIT: usize = 8;

/// Clusters whose GPU series are in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreClusters {
    /// The labels distinguish no clusters.
    One,
    /// Several clusters. The matchers select this cluster.
    Proven(Matchers),
    /// Several clusters, and it is unknown which one is this cluster.
    Unclear {
        label: &'static str,
        values: Vec<String>,
    },
}

impl StoreClusters {
    /// Builds the error for a sum that would include other clusters' devices.
    pub(crate) fn refusal(label: &str, values: &[String], server: &str) -> Error {
        let message = format!(
            "Prometheus at {server} has GPUs from {} clusters, and it is unknown which one is \
             this cluster: {}",
            values.len(),
            list_values(label, values)
        );
        let example = values
            .iter()
            .find(|value| !value.is_empty())
            .map_or("NAME", String::as_str);
        Error::usage(message).hint(format!(
            "select it with `--match {label}={example}`, or permanently with \
             `contexts.NAME.prometheus.matchers` in the config file"
        ))
    }

    /// Builds the warning for a list of devices, which are identified by their nodes' names.
    pub(crate) fn warning(label: &str, values: &[String], server: &str) -> String {
        format!(
            "Prometheus at {server} has GPUs from {} clusters ({}), and it is unknown which one is \
             this cluster: devices are matched by node name; `--match {label}=NAME` selects \
             the cluster",
            values.len(),
            list_values(label, values)
        )
    }
}

fn list_values(label: &str, values: &[String]) -> String {
    let parts = values
        .iter()
        .take(LIMIT)
        .map(|value| format!("{label}={value}"));
    let more = if values.len() > LIMIT { ", …" } else { "" };
    format!("{}{more}", parts.collect::<Vec<_>>().join(", "))
}

/// Reads the cluster labels of GPU series since a given time, and finds the value of this cluster.
pub(crate) async fn identify(
    prometheus: &Prometheus<'_>,
    connection: &Connection,
    (since, until): (UnixSeconds, UnixSeconds),
) -> Result<StoreClusters, QueryError> {
    let range = format!("start={since}&end={until}");
    // If the label API is unavailable, use the current values of all candidate labels.
    let names = match LabelNames::read(prometheus, &range).await {
        // Cached hours need no server, and any query will report the outage.
        Err(QueryError::Unreachable { .. }) => return Ok(StoreClusters::One),
        other => other?,
    };
    let labels = LABELS.into_iter().filter(|label| names.may_have(label));
    let values = labels.map(async |label| {
        let values = label_values(prometheus, label, &range).await?;
        Ok::<_, QueryError>((label, values))
    });
    let values: Result<Vec<_>, _> = join_all(values).await.into_iter().collect();
    // A label with a single value does not distinguish clusters.
    let several = values?
        .into_iter()
        .map(|(label, values)| {
            let is_absent =
                values.is_absent_from_a_source() || names.is_absent_from_a_source(label);
            (
                label,
                values.clusters(),
                is_absent,
                values.has_one_value_per_source(),
            )
        })
        .find(|(_, values, ..)| values.len() > 1);
    let Some((label, values, is_absent_from_a_source, has_one_value_per_source)) = several else {
        return Ok(StoreClusters::One);
    };
    let (pods, nodes) = join(
        pod_values(prometheus, connection, label),
        node_values(prometheus, connection, label),
    )
    .await;
    let (pods, nodes) = (pods?, nodes?);
    // Each program labels the series of the same nodes with its own name of the cluster.
    if has_one_value_per_source && nodes.is_superset(&values) {
        return Ok(StoreClusters::One);
    }
    Ok(match proven_value(&values, &pods, &nodes) {
        Some(value) => {
            let matchers = Matchers::new(vec![(label.to_owned(), value.to_owned())]);
            StoreClusters::Proven(
                matchers.or_unlabeled(is_absent_from_a_source && !values.contains("")),
            )
        }
        None => StoreClusters::Unclear {
            label,
            values: values.into_iter().collect(),
        },
    })
}

/// Reads the values of one label, now and in a window.
async fn label_values(
    prometheus: &Prometheus<'_>,
    label: &'static str,
    range: &str,
) -> Result<ClusterLabel, QueryError> {
    let past = |series: String| format!("api/v1/label/{label}/values?{range}&{series}");
    let (exporters, kube_state) = (past(query::gpu_series()), past(query::kube_state_series()));
    let query = query::clusters(label);
    let (exporters, kube_state, now) = join3(
        fetch(prometheus, &exporters),
        fetch(prometheus, &kube_state),
        prometheus.now(&query),
    )
    .await;
    let [exporters, kube_state]: [BTreeSet<String>; 2] =
        [exporters?, kube_state?].map(|values| values.unwrap_or_default().into_iter().collect());
    let is_empty = exporters.is_empty() && kube_state.is_empty();
    let now = match now {
        Err(QueryError::Unreachable { .. }) if is_empty => Vec::new(),
        other => other?,
    };
    Ok(ClusterLabel::new(label, &now, exporters, kube_state))
}

/// Returns the value of GPU series that pods or nodes prove, or `None` if they contradict each
/// other.
fn proven_value<'v>(
    values: &'v BTreeSet<String>,
    pods: &BTreeSet<String>,
    nodes: &BTreeSet<String>,
) -> Option<&'v str> {
    let among = |labels: &BTreeSet<String>| -> BTreeSet<&'v str> {
        values
            .iter()
            .filter(|value| labels.contains(*value))
            .map(String::as_str)
            .collect()
    };
    let (by_pods, by_nodes) = (among(pods), among(nodes));
    // Pods with other values come from a different scrape configuration and prove nothing.
    let candidates = if by_pods.is_empty() {
        &by_nodes
    } else {
        &by_pods
    };
    let proven: BTreeSet<&str> = candidates
        .iter()
        .copied()
        .filter(|value| by_nodes.is_empty() || by_nodes.contains(value))
        .collect();
    let mut proven = proven.into_iter();
    proven.next().filter(|_| proven.next().is_none())
}

/// Finds the label values of this cluster's pods in kube-state-metrics, by UID: no pod of another
/// cluster has the same UID.
async fn pod_values(
    prometheus: &Prometheus<'_>,
    connection: &Connection,
    label: &'static str,
) -> Result<BTreeSet<String>, QueryError> {
    let uids = connection.metrics().some_pods().await.unwrap_or_default();
    if uids.is_empty() {
        return Ok(BTreeSet::new());
    }
    let series = prometheus
        .now(&query::clusters_of_pods(label, &uids))
        .await?;
    Ok(series
        .iter()
        .map(|series| series.label(label).unwrap_or_default().to_owned())
        .collect())
}

/// Finds the label values whose GPU series belong only to this cluster's nodes, by node name.
async fn node_values(
    prometheus: &Prometheus<'_>,
    connection: &Connection,
    label: &'static str,
) -> Result<BTreeSet<String>, QueryError> {
    let nodes = connection.nodes().list().await.unwrap_or_default();
    let own_names = nodes.all().iter().map(|node| node.name.clone());
    let own_nodes = NodeIndex::new(own_names.map(|name| (name.clone(), name)));
    let clusters = prometheus.now(&query::clusters_of_nodes(label)).await?;
    let mut values: BTreeMap<String, bool> = BTreeMap::new();
    for series in &clusters {
        let mut nodes = query::nodes_of(series).peekable();
        if nodes.peek().is_none() {
            continue;
        }
        let is_own = nodes.any(|node| own_nodes.find(node).is_some());
        // One node of another cluster disqualifies the value.
        *values
            .entry(series.label(label).unwrap_or_default().to_owned())
            .or_insert(true) &= is_own;
    }
    Ok(values
        .into_iter()
        .filter(|(_, is_own)| *is_own)
        .map(|(value, _)| value)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuctl_core::model::{JobKind, Point, Series};
    use gpuctl_core::stats::exporters::dialect::Quantity;
    use gpuctl_core::stats::exporters::kube_state;
    use gpuctl_core::stats::exporters::kube_state::{PodQuery, StartQuery};
    use gpuctl_core::stats::exporters::replicas::CountedSamples;
    use gpuctl_core::stats::exporters::{exported_metrics, faults, node_exporter, xid_history};
    use gpuctl_core::stats::score::{bottlenecks, gpu_health};
    use gpuctl_prometheus::judge::holds;

    #[test]
    fn matchers_narrow_all_selectors_of_a_query() {
        let all = [Quantity::Utilization, Quantity::MemoryUsed, Quantity::Xid];
        let fatal_error = Series {
            labels: [("__name__", "DCGM_FI_DEV_XID_ERRORS"), ("UUID", "GPU-1")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into_iter()
                .collect(),
            points: vec![Point { at: 0, value: 94.0 }],
        };
        let utilization = query::names(&[Quantity::Utilization]);
        let pods = query::Pods::for_job("team-a", "train", JobKind::Training, ["train-0-x"]);
        let about = [
            PodQuery::Places,
            PodQuery::PhasesEver,
            PodQuery::Owners,
            PodQuery::Labels,
            PodQuery::Phases,
            PodQuery::Jobs,
        ];
        let starts = [
            StartQuery::Created,
            StartQuery::Placed,
            StartQuery::Requested,
            StartQuery::Place,
            StartQuery::Owner,
        ];
        let mut queries = vec![
            query::gauges(&all, None),
            query::gauges(&all, Some(&pods)),
            query::recent(&all, 60),
            query::samples(&all, 600),
            query::samples_of_an_hour(),
            query::exposed(&pods),
            query::stale_ages(&utilization),
            query::samples_counted(&utilization),
            query::without_utilization(&utilization),
            query::inventory(),
            query::xids(600),
            xid_history::queries(&[&fatal_error], 600).remove(0),
            faults::query(false),
            faults::query(true),
            faults::hidden(std::slice::from_ref(&fatal_error))
                .expect("a fatal error may be behind it"),
            exported_metrics::query(),
            query::clusters("cluster"),
            query::clusters_of_nodes("cluster"),
            query::clusters_of_pods("cluster", &["1-2".to_owned()]),
            kube_state::capacity(600),
            kube_state::requests(600),
            kube_state::sharing::groups(600),
            kube_state::sharing::fractions(600),
            kube_state::holders(600),
            kube_state::lifetimes("train"),
            node_exporter::query(),
            gpu_health::growth(),
            exported_metrics::unread(),
            query::NODES.to_owned(),
        ];
        for counted in CountedSamples::ALL {
            queries.extend([counted.candidates(None), counted.candidates(Some(3600))]);
        }
        queries.extend(starts.map(|start| kube_state::starts(start, 600)));
        queries.extend(about.map(|about| kube_state::pod_facts(about, &["a", "b"], "pod", 600)));
        queries.push(bottlenecks::query(
            &pods,
            &BTreeMap::from([("n1".to_owned(), "n1".to_owned())]),
        ));
        queries.iter().for_each(|query| holds(query));
    }

    #[test]
    fn proves_a_value_that_nothing_contradicts() {
        let set = |values: &[&str]| -> BTreeSet<String> {
            values.iter().map(|value| (*value).to_owned()).collect()
        };
        let values = set(&["a", "b"]);
        for (pods, nodes, expected) in [
            (&["a"][..], &["a"][..], Some("a")),
            (&["a"], &[], Some("a")),
            (&[], &["b"], Some("b")),
            // Two servers scrape the same kube-state-metrics.
            (&["a", "b"], &["a"], Some("a")),
            (&["a", "b"], &[], None),
            (&["a"], &["b"], None),
            (&[], &["a", "b"], None),
            // The pods' series lack the label.
            (&[""], &[], None),
            (&[""], &["a"], Some("a")),
        ] {
            assert_eq!(
                proven_value(&values, &set(pods), &set(nodes)),
                expected,
                "{pods:?} {nodes:?}"
            );
        }
    }

    #[test]
    fn shortens_long_lists_of_values() {
        let values: Vec<String> = (0..20).map(|number| format!("c{number}")).collect();
        let warning = StoreClusters::warning("cluster", &values, "http://p");
        assert!(
            warning.contains("from 20 clusters (cluster=c0, cluster=c1,")
                && warning.contains("cluster=c7, …)"),
            "{warning}"
        );
    }
}
