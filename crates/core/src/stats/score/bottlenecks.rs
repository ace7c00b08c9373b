//! Finds causes outside the GPU that slow down a rank: links that repeat transfers, network ports
//! that are down, and CPU limits that throttle. Reads the samples of one job and its nodes, but
//! does not judge how much the causes affect the job.
//!
//! Sources: DCGM's field ids and the limits of its health checks, node-exporter's InfiniBand
//! collector, cAdvisor's `container_cpu_cfs_*`.

use std::collections::BTreeMap;

use crate::model::Series;
use crate::stats::exporters::dialect::{EXPORTED_POD, PLAIN_POD, pod_labels};
use crate::stats::exporters::identity::{ApiFacts, IdentityReader};
use crate::stats::exporters::kube_state::label;
use crate::stats::exporters::query::{Pods, keys, quoted};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bottlenecks {
    pub links: Vec<LinkErrors>,
    pub ports: Vec<PortFault>,
    /// Pods with the fraction of CFS periods during which their CPU limit throttled them, from 0 to
    /// 1. Only fractions of at least one half are included.
    pub withheld: Vec<(String, f64)>,
}

/// A device with errors on a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkErrors {
    pub node: String,
    pub index: u32,
    /// Kind of error, such as `PCIe replays`.
    pub what: &'static str,
    /// Number of errors within ten minutes.
    pub errors: f64,
}

/// A faulty network port on a node of the job.
#[derive(Clone, Debug, PartialEq)]
pub struct PortFault {
    pub node: String,
    /// Device and port, such as `mlx5_3/1`.
    pub port: String,
    /// Number of times that the link went down within ten minutes, or `None` if it is down now.
    pub failures: Option<f64>,
}

/// Time range over which counters are compared.
const WINDOW: &str = "10m";
/// Label for the kind of a series, which the query adds.
const PART: &str = "part";
/// Link counters, with the kind of error and the minimum number of errors to report within the time
/// range. DCGM's health checks warn from 8 PCIe replays per minute and 100 NVLink CRC errors per
/// second. A healthy link repeats nothing; a limit of ten tolerates one short disturbance.
const LINKS: [(&str, &str, f64); 5] = [
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "PCIe replays", 80.0),
    (
        "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",
        "NVLink replays",
        10.0,
    ),
    (
        "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
        "NVLink recoveries",
        10.0,
    ),
    (
        "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
        "NVLink CRC errors",
        60_000.0,
    ),
    (
        "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
        "NVLink CRC errors",
        60_000.0,
    ),
];
/// State of a port that can transfer data (`ib_verbs`: `IB_PORT_ACTIVE`).
const ACTIVE: f64 = 4.0;
/// Minimum fraction of throttled periods that counts as slowing down a pod.
const WITHHELD: f64 = 0.5;

/// Builds the query for these pods and nodes. The keys of `nodes` are names and addresses.
pub fn query(pods: &Pods, nodes: &BTreeMap<String, String>) -> String {
    let (namespace, names) = (quoted(&pods.namespace), quoted(&pods.names));
    let part = |name: &str, expression: &str| {
        format!(r#"label_replace({expression}, "{PART}", "{name}", "", "")"#)
    };
    let grown = |(name, ..): &(&str, &str, f64)| {
        let selector = |(space, pod): (&str, &str)| {
            format!("increase({name}{{{space}={namespace},{pod}=~{names}}}[{WINDOW}])")
        };
        let series = pod_labels()
            .into_iter()
            .map(selector)
            .collect::<Vec<_>>()
            .join(" or ");
        part(name, &format!("max by ({}) ({series})", keys()))
    };
    // In cAdvisor, series with an empty `container` are for the whole pod and would double every
    // value.
    let slices = |metric: &str| {
        let selector = |(space, pod): (&str, &str)| {
            format!(
                "rate(container_cpu_cfs_{metric}_total{{container!=\"\",{space}={namespace},{pod}=~{names}}}[{WINDOW}])"
            )
        };
        let series = [EXPORTED_POD, PLAIN_POD].map(selector).join(" or ");
        format!("sum by (namespace,pod,exported_namespace,exported_pod) ({series})")
    };
    let node_names: Vec<String> = nodes.keys().map(|name| regex::escape(name)).collect();
    let (by_instance, by_node) = (
        quoted(&format!("({})(:[0-9]+)?", node_names.join("|"))),
        quoted(&node_names.join("|")),
    );
    let ports = |name: &str, function: &str, window: &str| {
        let ports_where = |matcher: String| format!("{function}({name}{{{matcher}}}{window})");
        let both = [
            ports_where(format!("node=~{by_node}")),
            ports_where(format!("instance=~{by_instance}")),
        ]
        .join(" or ");
        format!("max by (instance,node,device,port) ({both})")
    };
    let mut parts: Vec<String> = LINKS.iter().map(grown).collect();
    parts.push(part(
        "cpu",
        &format!("{} / {}", slices("throttled_periods"), slices("periods")),
    ));
    parts.push(part("state", &ports("node_infiniband_state_id", "", "")));
    parts.push(part(
        "downed",
        &ports(
            "node_infiniband_link_downed_total",
            "increase",
            &format!("[{WINDOW}]"),
        ),
    ));
    parts.join(" or ")
}

/// Reads the response to [`query`].
pub fn read(answer: &[Series], nodes: &BTreeMap<String, String>) -> Bottlenecks {
    let facts = ApiFacts::default();
    let reader = IdentityReader::new(&facts, answer);
    let mut tally = BottleneckTally::default();
    for series in answer {
        tally.add(series, nodes, &reader);
    }
    tally.finish()
}

/// Collects the values of a response.
#[derive(Default)]
struct BottleneckTally {
    /// Number of errors by node, device and kind.
    links: BTreeMap<(String, u32, &'static str), f64>,
    /// Throttled fraction by pod.
    withheld: BTreeMap<String, f64>,
    /// States of ports by port and node.
    states: BTreeMap<String, BTreeMap<String, f64>>,
    /// Ports whose link went down.
    ports: Vec<PortFault>,
}

impl BottleneckTally {
    fn add(
        &mut self,
        series: &Series,
        nodes: &BTreeMap<String, String>,
        reader: &IdentityReader<'_>,
    ) {
        let Some(value) = series
            .points
            .last()
            .map(|point| point.value)
            .filter(|value| value.is_finite() && *value >= 0.0)
        else {
            return;
        };
        match series.label(PART).unwrap_or_default() {
            "cpu" if value <= 1.0 => {
                if let Some(pod) = label(series, "pod") {
                    let highest = self.withheld.entry(pod.to_owned()).or_default();
                    *highest = highest.max(value);
                }
            }
            "state" => {
                if let Some((node, port)) = node_of(series, nodes).zip(port_of(series)) {
                    self.states.entry(port).or_default().insert(node, value);
                }
            }
            "downed" if value >= 1.0 => {
                let device = node_of(series, nodes).zip(port_of(series));
                self.ports.extend(device.map(|(node, port)| PortFault {
                    node,
                    port,
                    failures: Some(value),
                }));
            }
            name => {
                let Some((_, what, least)) = LINKS.iter().find(|(metric, ..)| *metric == name)
                else {
                    return;
                };
                let Some(device) = reader.device(series).filter(|_| value >= *least) else {
                    return;
                };
                let highest = self
                    .links
                    .entry((device.node, device.index.unwrap_or(0), *what))
                    .or_default();
                *highest = highest.max(value);
            }
        }
    }

    /// Returns the problems, worst first.
    fn finish(self) -> Bottlenecks {
        let mut bottlenecks = Bottlenecks {
            ports: self.ports,
            ..Bottlenecks::default()
        };
        for (port, states) in self.states {
            let (up, down): (Vec<_>, Vec<_>) =
                states.into_iter().partition(|(_, state)| *state == ACTIVE);
            // A port that is down on most nodes is probably unused.
            if up.len() > down.len() {
                bottlenecks
                    .ports
                    .extend(down.into_iter().map(|(node, _)| PortFault {
                        node,
                        port: port.clone(),
                        failures: None,
                    }));
            }
        }
        bottlenecks.ports.sort_by(|a, b| {
            (a.failures.is_some(), &a.node, &a.port).cmp(&(b.failures.is_some(), &b.node, &b.port))
        });
        bottlenecks.links = self
            .links
            .into_iter()
            .map(|((node, index, what), errors)| LinkErrors {
                node,
                index,
                what,
                errors,
            })
            .collect();
        bottlenecks
            .links
            .sort_by(|a, b| b.errors.total_cmp(&a.errors));
        bottlenecks.withheld = self
            .withheld
            .into_iter()
            .filter(|(_, share)| *share >= WITHHELD)
            .collect();
        bottlenecks.withheld.sort_by(|a, b| b.1.total_cmp(&a.1));
        bottlenecks
    }
}

/// Returns the node of a series, from its `node` label or from the host in its `instance` label.
fn node_of(series: &Series, nodes: &BTreeMap<String, String>) -> Option<String> {
    let instance = series
        .label("instance")
        .map(|text| text.rsplit_once(':').map_or(text, |(host, _)| host));
    [series.label("node"), instance]
        .into_iter()
        .flatten()
        .find_map(|name| nodes.get(name))
        .cloned()
}

fn port_of(series: &Series) -> Option<String> {
    Some(format!(
        "{}/{}",
        series.label("device")?,
        series.label("port").unwrap_or("1")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Point;

    fn series(part: &str, labels: &[(&str, &str)], value: f64) -> Series {
        let labels = [&[(PART, part)], labels].concat();
        let labels = labels
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        Series {
            labels,
            points: vec![Point { at: 0, value }],
        }
    }

    fn nodes() -> BTreeMap<String, String> {
        let names = [("a", "a"), ("10.0.0.1", "a"), ("b", "b"), ("c", "c")];
        names
            .map(|(name, node)| (name.to_owned(), node.to_owned()))
            .into()
    }

    #[test]
    fn query_parses_as_promql() {
        let query = query(&Pods::by_name("team-a", ["t.0", "t-1"]), &nodes());
        promql_parser::parser::parse(&query).unwrap_or_else(|error| panic!("{error}: {query}"));
    }

    #[test]
    fn only_values_above_thresholds_are_reported() {
        let gpu = |part: &str, index: &str, value: f64| {
            series(part, &[("Hostname", "a"), ("gpu", index)], value)
        };
        let pod =
            |name: &str, value: f64| series("cpu", &[("namespace", "n"), ("pod", name)], value);
        let state = |node: &str, device: &str, value: f64| {
            series(
                "state",
                &[("node", node), ("device", device), ("port", "1")],
                value,
            )
        };
        let answer = [
            gpu("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "3", 500.0),
            gpu("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "4", 79.0),
            gpu("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "5", f64::NAN),
            pod("t-0", 0.82),
            pod("t-1", 0.49),
            pod("t-2", 7.0),
            series(
                "state",
                &[
                    ("instance", "10.0.0.1:9100"),
                    ("device", "mlx5_0"),
                    ("port", "1"),
                ],
                1.0,
            ),
            state("b", "mlx5_0", 4.0),
            state("c", "mlx5_0", 4.0),
            // This port is unused.
            state("a", "mlx5_1", 1.0),
            state("b", "mlx5_1", 4.0),
            state("elsewhere", "mlx5_0", 1.0),
            series(
                "downed",
                &[("node", "c"), ("device", "mlx5_2"), ("port", "1")],
                2.0,
            ),
            series(
                "downed",
                &[("node", "b"), ("device", "mlx5_2"), ("port", "1")],
                0.0,
            ),
        ];
        let bottlenecks = read(&answer, &nodes());
        assert_eq!(
            bottlenecks.links,
            [LinkErrors {
                node: "a".into(),
                index: 3,
                what: "PCIe replays",
                errors: 500.0
            }]
        );
        assert_eq!(bottlenecks.withheld, [("t-0".to_owned(), 0.82)]);
        let port = |node: &str, port: &str, failures| PortFault {
            node: node.into(),
            port: port.into(),
            failures,
        };
        assert_eq!(
            bottlenecks.ports,
            [
                port("a", "mlx5_0/1", None),
                port("c", "mlx5_2/1", Some(2.0))
            ]
        );
    }
}
