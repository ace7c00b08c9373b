//! Finds GPU nodes that are broken, lost devices, or have an exporter that is silent.

use std::collections::{BTreeMap, BTreeSet};

use super::gpu_health::{FindingSeverity, HealthFinding};
use crate::model::contract::check::{CheckStatus, DoctorCheck};
use crate::model::facts::host::LostDevices;
use crate::model::{Inventory, NodeHealth, NodeUsage, Reading};

/// Finds nodes that are broken, that lost devices, or whose devices have no samples. Prometheus
/// drops the series of an exporter that stopped, so only the inventory shows that they are missing.
pub fn node_findings(inventory: &Inventory, readings: &[Reading]) -> Vec<HealthFinding> {
    let mut measured: BTreeMap<&str, MeasuredDevices> = BTreeMap::new();
    for reading in readings {
        measured.entry(&reading.node).or_default().add(reading);
    }
    let finding = |host: &NodeUsage, severity, finding, message| HealthFinding {
        severity,
        node: host.name().to_owned(),
        device: None,
        uuid: None,
        finding,
        message,
    };
    let mut findings = Vec::new();
    for host in &inventory.hosts {
        let lost = host.details.lost_devices();
        if !host.has_gpus() && lost.is_none() {
            continue;
        }
        let reason = host.reason.clone().unwrap_or_default();
        // Lost devices alone make a node faulty, too, and have their own finding.
        let is_broken = host.health == NodeHealth::Faulty
            && lost.as_ref().is_none_or(|lost| lost.summary() != reason);
        if is_broken {
            findings.push(finding(host, FindingSeverity::Fail, "node-faulty", reason));
        }
        if let Some(lost) = lost {
            let LostDevices {
                resource,
                usable,
                all,
            } = lost;
            let message = format!("{} of {all} {resource} are lost", all - usable);
            findings.push(finding(
                host,
                FindingSeverity::Fail,
                "lost-devices",
                message,
            ));
        }
        if is_broken {
            continue;
        }
        // Without any samples, the command reports that there is no exporter at all.
        let known = measured.remove(host.name()).unwrap_or_default();
        if let Some(message) = silence(host, &known).filter(|_| !readings.is_empty()) {
            findings.push(finding(host, FindingSeverity::Warn, "silent", message));
        }
    }
    findings
}

/// Returns a failed check for each broken GPU node and each device with a fault. A cordoned node
/// is not broken.
pub fn health_checks(inventory: &Inventory, readings: &[Reading]) -> Vec<DoctorCheck> {
    let nodes = node_findings(inventory, readings)
        .into_iter()
        .filter(|finding| finding.severity == FindingSeverity::Fail)
        .map(|finding| (finding.node, finding.message));
    let devices = readings.iter().filter_map(|reading| {
        let fault = reading.fault.as_ref()?;
        Some((reading.node.clone(), format!("{}: {fault}", reading.id())))
    });
    // The fault of a device is the reason of its node, too.
    let failures: BTreeSet<(String, String)> = nodes.chain(devices).collect();
    let check = |(node, message): (String, String)| {
        DoctorCheck::new(CheckStatus::Fail, "node-health", message)
            .on(&node)
            .fix(&format!("gpuctl describe node {node}"))
    };
    failures.into_iter().map(check).collect()
}

/// The devices of one node that have samples.
#[derive(Default)]
struct MeasuredDevices {
    whole: u64,
    /// Numbers of boards whose slices have samples.
    partitioned: BTreeSet<u32>,
}

impl MeasuredDevices {
    fn add(&mut self, reading: &Reading) {
        match &reading.slice {
            None => self.whole += 1,
            // AMD's exporter numbers each partition of a board like a board.
            Some((kind, number)) if kind.contains("_nps") && *number > 0 => {}
            Some(_) => {
                self.partitioned.insert(reading.index);
            }
        }
    }
}

/// Describes how many whole devices of a node have no samples, or `None` if all have some.
fn silence(host: &NodeUsage, known: &MeasuredDevices) -> Option<String> {
    // Another finding reports lost devices.
    let all = host.gpus.allocatable();
    if known.whole == 0 && known.partitioned.is_empty() {
        return Some("no samples of its GPUs".to_owned());
    }
    // The boards of slices are not among the whole devices, unless a DRA driver lists both, or the
    // node offers boards only.
    let lists_boards = host.slices.is_empty() || !host.listed_board_slices.is_empty();
    let boards = if lists_boards {
        known.partitioned.len() as u64
    } else {
        0
    };
    let measured = known.whole + boards;
    (measured < all).then(|| format!("no samples of {} of {all} GPUs", all - measured))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{HostCondition, Node, NodeDetails};
    use crate::stats::score::gpu_health::rank;

    #[test]
    fn nodes_that_are_broken_or_silent_are_found() {
        let host = |name: &str, total: u64, usable: u64| {
            let units =
                |count: u64| BTreeMap::from([("nvidia.com/gpu".to_owned(), count.to_string())]);
            let node = Node {
                name: name.to_owned(),
                schedulable: true,
                ..Node::default()
            };
            NodeDetails {
                node,
                capacity: units(total),
                allocatable: units(usable),
                ..NodeDetails::default()
            }
        };
        let not_ready = HostCondition {
            kind: "Ready".to_owned(),
            status: "Unknown".to_owned(),
            ..HostCondition::default()
        };
        let gone = NodeDetails {
            conditions: vec![not_ready],
            ..host("gone", 8, 8)
        };
        let hosts = vec![
            gone,
            host("lost", 8, 0),
            host("measured", 2, 2),
            host("partly", 2, 2),
            host("silent", 8, 8),
            host("without-gpus", 0, 0),
        ];
        let inventory = Inventory::new(hosts, None, &[]);
        let reading = |node: &str, index: u32| Reading {
            node: node.to_owned(),
            index,
            ..Reading::default()
        };
        let readings = [
            reading("measured", 0),
            reading("measured", 1),
            reading("partly", 0),
        ];
        let found = |readings: &[Reading]| -> Vec<String> {
            let mut findings = node_findings(&inventory, readings);
            rank(&mut findings);
            findings
                .iter()
                .map(|finding| format!("{} {}: {}", finding.finding, finding.node, finding.message))
                .collect()
        };
        assert_eq!(
            found(&readings),
            [
                "node-faulty gone: NotReady",
                "lost-devices lost: 8 of 8 nvidia.com/gpu are lost",
                "silent lost: no samples of its GPUs",
                "silent partly: no samples of 1 of 2 GPUs",
                "silent silent: no samples of its GPUs",
            ]
        );
        // Without any exporter, silence says nothing about one node.
        assert_eq!(found(&[]).len(), 2);
    }

    #[test]
    fn broken_nodes_and_devices_fail_a_check() {
        let host = |name: &str, status: &str, schedulable: bool, usable: &str| NodeDetails {
            node: Node {
                name: name.to_owned(),
                schedulable,
                ..Node::default()
            },
            capacity: [("nvidia.com/gpu".to_owned(), "8".to_owned())].into(),
            allocatable: [("nvidia.com/gpu".to_owned(), usable.to_owned())].into(),
            conditions: vec![HostCondition {
                kind: "Ready".to_owned(),
                status: status.to_owned(),
                ..HostCondition::default()
            }],
            ..NodeDetails::default()
        };
        let hosts = vec![
            host("cordoned", "True", false, "8"),
            host("gone", "Unknown", true, "8"),
            host("gone-and-lost", "Unknown", true, "7"),
            host("lost", "True", true, "7"),
            host("well", "True", true, "8"),
        ];
        let mut inventory = Inventory::new(hosts, None, &[]);
        let reading = Reading {
            node: "well".to_owned(),
            index: 3,
            fault: Some("XID 79".to_owned()),
            ..Reading::default()
        };
        let device = reading.id();
        inventory.hosts[4].health = NodeHealth::Faulty;
        inventory.hosts[4].reason = Some(format!("{device}: XID 79"));
        let checks: Vec<String> = health_checks(&inventory, &[reading])
            .iter()
            .map(|check| {
                let node = check.node.as_deref().unwrap_or_default();
                format!("{} {node}: {}", check.status.word(), check.message)
            })
            .collect();
        assert_eq!(
            checks,
            [
                "fail gone: NotReady".to_owned(),
                "fail gone-and-lost: 1 of 8 nvidia.com/gpu are lost".to_owned(),
                "fail gone-and-lost: NotReady".to_owned(),
                "fail lost: 1 of 8 nvidia.com/gpu are lost".to_owned(),
                format!("fail well: {device}: XID 79"),
            ]
        );
    }

    #[test]
    fn samples_of_slices_do_not_stand_for_silent_gpus() {
        let capacity = [("nvidia.com/gpu", "8"), ("nvidia.com/mig-1g.10gb", "7")];
        let units: BTreeMap<String, String> = capacity
            .map(|(resource, amount)| (resource.to_owned(), amount.to_owned()))
            .into();
        let host = NodeDetails {
            node: Node {
                name: "mixed".to_owned(),
                schedulable: true,
                ..Node::default()
            },
            capacity: units.clone(),
            allocatable: units,
            ..NodeDetails::default()
        };
        let mut inventory = Inventory::new(vec![host], None, &[]);
        let whole = |index: u32| Reading {
            node: "mixed".to_owned(),
            index,
            ..Reading::default()
        };
        let instance = |number: u32| Reading {
            slice: Some(("1g.10gb".to_owned(), number)),
            ..whole(8)
        };
        let readings: Vec<Reading> = (0..4).map(whole).chain((0..7).map(instance)).collect();
        let messages = |inventory: &Inventory| -> Vec<String> {
            let findings = node_findings(inventory, &readings);
            findings
                .into_iter()
                .map(|finding| finding.message)
                .collect()
        };
        // 4 of 8 whole GPUs have samples. The 7 instances are on a ninth board.
        assert_eq!(messages(&inventory), ["no samples of 4 of 8 GPUs"]);
        // A DRA driver lists the board of the instances among the 8: 8 - 4 - 1.
        let slices = [("mig-1g.10gb".to_owned(), 7)].into();
        inventory.hosts[0].listed_board_slices = slices;
        assert_eq!(messages(&inventory), ["no samples of 3 of 8 GPUs"]);
    }
}
