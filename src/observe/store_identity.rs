//! Finds this cluster's series in a store with several clusters (Thanos, Mimir, VictoriaMetrics,
//! managed services). Trusts a label value only if this cluster's own pods or nodes have it, and no
//! other value.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::{join, join_all};
use serde_json::Value;

use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::model::UnixSeconds;
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

/// Maximum number of label values and of nodes in a message.
const LIMIT: usize = 8;
const MAX_NODES: usize = 3;

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

/// Warns if a store has node series, but none about this cluster's nodes.
pub(crate) fn foreign_nodes(
    reported: &BTreeSet<&str>,
    nodes: &BTreeSet<&str>,
    server: &str,
    cluster: &str,
) -> Option<String> {
    let list = |names: &BTreeSet<&str>| {
        let ellipsis = if names.len() > MAX_NODES { ", …" } else { "" };
        format!(
            "{}{ellipsis}",
            names
                .iter()
                .take(MAX_NODES)
                .copied()
                .collect::<Vec<_>>()
                .join(", ")
        )
    };
    let is_foreign = !reported.is_empty() && !nodes.is_empty() && reported.is_disjoint(nodes);
    is_foreign.then(|| {
        format!(
            "Prometheus at {server} has data about the nodes {}, but cluster {cluster} has {}: \
             the data may belong to another cluster",
            list(reported),
            list(nodes)
        )
    })
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
    let range = format!("start={since}&end={until}&{}", query::gpu_series());
    // If the label API is unavailable, use the current values of all candidate labels.
    let names = match fetch(prometheus, &format!("api/v1/labels?{range}")).await {
        // Cached hours need no server, and any query will report the outage.
        Err(QueryError::Unreachable { .. }) => return Ok(StoreClusters::One),
        other => other?,
    };
    let is_exported = |label: &&str| {
        names
            .as_ref()
            .is_none_or(|names| names.iter().any(|name| name == label))
    };
    let labels = LABELS.into_iter().filter(is_exported);
    let values = join_all(labels.map(async |label| {
        let path = format!("api/v1/label/{label}/values?{range}");
        let query = query::clusters(label);
        let (past, now) = join(fetch(prometheus, &path), prometheus.now(&query)).await;
        let mut values: BTreeSet<String> = past?.unwrap_or_default().into_iter().collect();
        let now = match now {
            Err(QueryError::Unreachable { .. }) if values.is_empty() => Vec::new(),
            other => other?,
        };
        // A series without the label belongs to an unnamed cluster.
        values.extend(
            now.iter()
                .map(|series| series.label(label).unwrap_or_default().to_owned()),
        );
        Ok((label, values))
    }));
    let values: Vec<(&'static str, BTreeSet<String>)> = values
        .await
        .into_iter()
        .collect::<Result<_, QueryError>>()?;
    // A label with a single value does not distinguish clusters.
    let Some((label, values)) = values.into_iter().find(|(_, values)| values.len() > 1) else {
        return Ok(StoreClusters::One);
    };
    let (pods, nodes) = join(
        pod_values(prometheus, connection, label),
        node_values(prometheus, connection, label),
    )
    .await;
    Ok(match proven_value(&values, &pods?, &nodes?) {
        Some(value) => {
            StoreClusters::Proven(Matchers::new(vec![(label.to_owned(), value.to_owned())]))
        }
        None => StoreClusters::Unclear {
            label,
            values: values.into_iter().collect(),
        },
    })
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
    let own_nodes: BTreeSet<&str> = nodes.all().iter().map(|node| node.name.as_str()).collect();
    let clusters = prometheus.now(&query::clusters_of_nodes(label)).await?;
    let mut values: BTreeMap<String, bool> = BTreeMap::new();
    for series in &clusters {
        let mut nodes = query::nodes_of(series).peekable();
        if nodes.peek().is_none() {
            continue;
        }
        let is_own = nodes.any(|node| own_nodes.contains(node));
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

/// Reads a list of strings from the API, or returns `None` if the response is not a list.
async fn fetch(prometheus: &Prometheus<'_>, path: &str) -> Result<Option<Vec<String>>, QueryError> {
    let reply = prometheus.relay(path).await?;
    let document: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let list = document["data"].as_array().filter(|_| reply.code == 200);
    Ok(list.map(|list| {
        list.iter()
            .filter_map(Value::as_str)
            .map(ToOwned::to_owned)
            .collect()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuctl_core::model::{JobKind, Point, Series};
    use gpuctl_core::stats::exporters::dialect::Quantity;
    use gpuctl_core::stats::exporters::kube_state;
    use gpuctl_core::stats::exporters::kube_state::{PodQuery, StartQuery};
    use gpuctl_core::stats::exporters::{exported_metrics, faults, node_exporter};
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
            faults::query(false),
            faults::query(true),
            faults::hidden(&[fatal_error]).expect("a fatal error may be behind it"),
            exported_metrics::query(),
            query::clusters("cluster"),
            query::clusters_of_nodes("cluster"),
            query::clusters_of_pods("cluster", &["1-2".to_owned()]),
            kube_state::capacity(600),
            kube_state::requests(600),
            kube_state::holders(600),
            kube_state::lifetimes("train"),
            node_exporter::query(),
            gpu_health::growth(),
        ];
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
    fn nodes_of_another_cluster_are_named() {
        let warn = |reported: &[&str], own_nodes: &[&str]| {
            foreign_nodes(
                &reported.iter().copied().collect(),
                &own_nodes.iter().copied().collect(),
                "http://p",
                "lab",
            )
        };
        assert_eq!(
            warn(&["a", "b", "c", "d"], &["x"]).unwrap(),
            "Prometheus at http://p has data about the nodes a, b, c, …, but cluster lab has x: the data may belong to another cluster"
        );
        assert_eq!(
            (
                warn(&["a"], &["a", "x"]),
                warn(&[], &["x"]),
                warn(&["a"], &[])
            ),
            (None, None, None)
        );
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
