//! Queries the storage and network of a cluster in one query, from node-exporter, kubelets and
//! storage systems.
//!
//! Sources: Ceph's manager module, Longhorn's manager, the kubelet's `kubelet_volume_stats_*`,
//! node-exporter's filesystem and InfiniBand collectors.

use std::collections::BTreeMap;

use crate::model::Series;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClusterStorage {
    pub total: f64,
    pub used: f64,
    /// Name of the source of the values.
    pub source: &'static str,
}

/// Numbers of InfiniBand ports. `gigabits` is the rate of the fastest active port in Gbit/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FabricPorts {
    pub ports: u64,
    pub active: u64,
    pub gigabits: Option<f64>,
}

/// Storage and network of the cluster; `None` for each part that no source reports.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Machines {
    pub storage: Option<ClusterStorage>,
    pub rdma: Option<FabricPorts>,
}

impl Machines {
    /// Adds up several clusters. A part that one of them does not report is unknown in the sum.
    pub fn sum(clusters: &[Self]) -> Self {
        let storages: Option<Vec<ClusterStorage>> =
            clusters.iter().map(|one| one.storage).collect();
        let storage = storages.and_then(|storages| {
            storages.into_iter().reduce(|a, b| ClusterStorage {
                total: a.total + b.total,
                used: a.used + b.used,
                source: if a.source == b.source {
                    a.source
                } else {
                    "several"
                },
            })
        });
        let ports: Option<Vec<FabricPorts>> = clusters.iter().map(|one| one.rdma).collect();
        let rdma = ports.and_then(|ports| {
            ports.into_iter().reduce(|a, b| FabricPorts {
                ports: a.ports + b.ports,
                active: a.active + b.active,
                gigabits: a.gigabits.into_iter().chain(b.gigabits).reduce(f64::max),
            })
        });
        Self { storage, rdma }
    }
}

/// Selector for local disks, which count once per node. A file system that several nodes mount
/// counts only once.
const LOCAL: &str =
    r#"fstype!~"tmpfs|overlay|squashfs|ramfs|nsfs|fuse.*|autofs",device=~"/dev/.+""#;
const MOUNTED: &str =
    r#"fstype!~"tmpfs|overlay|squashfs|ramfs|nsfs|autofs|rootfs",device!~"/dev/.+""#;

/// Returns the queries for total and used storage, one pair per source in order of preference.
fn storages() -> [(&'static str, String, String); 4] {
    let volume = |name: &str| {
        format!("sum(max by (namespace,persistentvolumeclaim) (kubelet_volume_stats_{name}_bytes))")
    };
    let disk = |metric: &str| {
        format!(
            "sum(max by (instance,node,device) ({metric}{{{LOCAL}}}) or max by (device) ({metric}{{{MOUNTED}}}))"
        )
    };
    let (size, free) = (
        disk("node_filesystem_size_bytes"),
        disk("node_filesystem_free_bytes"),
    );
    [
        (
            "ceph",
            "max(ceph_cluster_total_bytes)".to_owned(),
            "max(ceph_cluster_total_used_bytes)".to_owned(),
        ),
        (
            "longhorn",
            "sum(max by (node,disk) (longhorn_node_storage_capacity_bytes))".to_owned(),
            "sum(max by (node,disk) (longhorn_node_storage_usage_bytes))".to_owned(),
        ),
        ("volumes", volume("capacity"), volume("used")),
        ("disks", size.clone(), format!("{size} - {free}")),
    ]
}

/// One series per port, even if several servers scrape it.
const PORTS: &str = "max by (instance,node,device,port) (node_infiniband_state_id)";

/// Builds one query for all values. The label `part` identifies the value in a series.
pub fn query() -> String {
    let mut parts: Vec<(String, String)> = Vec::new();
    for (source, total, used) in storages() {
        parts.push((format!("{source} total"), total));
        parts.push((format!("{source} used"), used));
    }
    // State 4 is `IB_PORT_ACTIVE`.
    let rate = "max(node_infiniband_rate_bytes_per_second and on (instance,node,device,port) node_infiniband_state_id == 4)";
    parts.push(("ports".to_owned(), format!("count({PORTS})")));
    parts.push(("active".to_owned(), format!("count({PORTS} == 4)")));
    parts.push(("rate".to_owned(), rate.to_owned()));
    let labelled = |(part, expression): &(String, String)| {
        format!(r#"label_replace({expression}, "what", "{part}", "", "")"#)
    };
    parts.iter().map(labelled).collect::<Vec<_>>().join(" or ")
}

/// Reads the response to [`query`].
pub fn read(answer: &[Series]) -> Machines {
    let values: BTreeMap<&str, f64> = answer
        .iter()
        .filter_map(|series| Some((series.label("what")?, series.last()?.value)))
        .filter(|(_, value)| value.is_finite() && *value >= 0.0)
        .collect();
    let get = |part: &str| values.get(part).copied();
    let storage = storages().into_iter().find_map(|(source, ..)| {
        let (total, used) = get(&format!("{source} total")).zip(get(&format!("{source} used")))?;
        (total > 0.0 && used <= total).then_some(ClusterStorage {
            total,
            used,
            source,
        })
    });
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count"
    )]
    let count = |value: f64| value as u64;
    let rdma = get("ports").map(|ports| FabricPorts {
        ports: count(ports),
        // `count` of an empty vector returns nothing, which means 0 active ports.
        active: get("active").map_or(0, count),
        gigabits: get("rate").map(|bytes| bytes * 8.0 / 1e9),
    });
    Machines { storage, rdma }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Point;

    fn answer(values: &[(&str, f64)]) -> Vec<Series> {
        let series = |(part, value): &(&str, f64)| Series {
            labels: [("what".to_owned(), (*part).to_owned())]
                .into_iter()
                .collect(),
            points: vec![Point {
                at: 0,
                value: *value,
            }],
        };
        values.iter().map(series).collect()
    }

    #[test]
    fn query_parses_as_promql() {
        promql_parser::parser::parse(&query()).unwrap();
    }

    #[test]
    fn sum_of_clusters_is_unknown_if_one_of_them_is() {
        let cluster = |total, source, gigabits| Machines {
            storage: Some(ClusterStorage {
                total,
                used: 1.0,
                source,
            }),
            rdma: Some(FabricPorts {
                ports: 8,
                active: 6,
                gigabits,
            }),
        };
        let sum = Machines::sum(&[
            cluster(10.0, "ceph", Some(400.0)),
            cluster(20.0, "disks", None),
        ]);
        // Storage is 10 + 20 bytes with 1 + 1 used, and 6 + 6 of 8 + 8 ports are active.
        let expected = Machines {
            storage: Some(ClusterStorage {
                total: 30.0,
                used: 2.0,
                source: "several",
            }),
            rdma: Some(FabricPorts {
                ports: 16,
                active: 12,
                gigabits: Some(400.0),
            }),
        };
        assert_eq!(sum, expected);
        let unknown = Machines::default();
        assert_eq!(
            Machines::sum(&[cluster(10.0, "ceph", None), unknown]),
            unknown
        );
    }

    #[test]
    fn most_complete_source_wins_and_absent_is_not_zero() {
        let both = [
            ("ceph total", 100.0),
            ("ceph used", 40.0),
            ("disks total", 7.0),
            ("disks used", 1.0),
        ];
        assert_eq!(
            read(&answer(&both)).storage,
            Some(ClusterStorage {
                total: 100.0,
                used: 40.0,
                source: "ceph"
            })
        );
        assert_eq!(read(&answer(&[("ceph total", 100.0)])), Machines::default());
        let rdma = read(&answer(&[("ports", 80.0), ("rate", 5e10)]))
            .rdma
            .unwrap();
        assert_eq!(
            (rdma.ports, rdma.active, rdma.gigabits),
            (80, 0, Some(400.0))
        );
    }
}
