//! `doctor` checks of divided GPUs: MIG slices, shares, HAMi, and devices from dynamic resource
//! allocation.

use std::collections::{BTreeMap, BTreeSet};

use gpuctl_core::model::Device;
use gpuctl_core::model::contract::check::{CheckStatus, DoctorCheck};
use gpuctl_core::model::values::text::count;
use gpuctl_core::model::{Inventory, NodeUsage};

/// Node label with the state of the GPU operator's MIG manager: `success`, `failed`, `pending` or
/// `rebooting`.
const MIG_STATE: &str = "nvidia.com/mig.config.state";
const MIG_CONFIG: &str = "nvidia.com/mig.config";
/// Node annotation for heartbeats between HAMi's scheduler and device plugin: `Reported …`,
/// `Requesting_…` or `Deleted_…`.
const HANDSHAKE: &str = "hami.io/node-handshake";

/// Checks divided GPUs. Returns no checks if the cluster has none.
pub(super) fn check_sharing(inventory: &Inventory, devices: &[Device]) -> Vec<DoctorCheck> {
    let mut checks: Vec<DoctorCheck> = inventory
        .hosts
        .iter()
        .flat_map(|host| mig(host).into_iter().chain(hami(host)))
        .collect();
    let mut facts: Vec<String> = Vec::new();
    let mut units: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (name, slices) in inventory.hosts.iter().flat_map(|host| &host.slices) {
        let totals = units.entry(name).or_default();
        totals.0 += 1;
        totals.1 += slices.total;
    }
    facts.extend(
        units
            .into_iter()
            .map(|(name, (nodes, total))| format!("{total} × {name} on {}", count(nodes, "node"))),
    );
    let with_hami = inventory
        .hosts
        .iter()
        .filter(|host| host.details.node.annotations.contains_key(HANDSHAKE))
        .count();
    facts.extend((with_hami > 0).then(|| format!("HAMi on {}", count(with_hami as u64, "node"))));
    let mut drivers: BTreeMap<&str, (BTreeSet<&str>, u64)> = BTreeMap::new();
    for device in devices {
        let totals = drivers.entry(&device.driver).or_default();
        totals.0.insert(&device.node);
        totals.1 += 1;
    }
    let claimable = |(driver, (nodes, devices)): (&str, (BTreeSet<&str>, u64))| {
        format!(
            "{} of {driver} can be claimed on {}",
            count(devices, "device"),
            count(nodes.len() as u64, "node")
        )
    };
    facts.extend(drivers.into_iter().map(claimable));
    checks.extend(
        (!facts.is_empty()).then(|| DoctorCheck::new(CheckStatus::Ok, "sharing", facts.join(", "))),
    );
    checks
}

fn mig(host: &NodeUsage) -> Option<DoctorCheck> {
    let node = &host.details.node;
    let state = node
        .labels
        .get(MIG_STATE)
        .filter(|state| *state != "success")?;
    let requested = node
        .labels
        .get(MIG_CONFIG)
        .map_or(String::new(), |requested| {
            format!(" as {MIG_CONFIG}={requested} requests")
        });
    let message = format!("the GPUs are not partitioned{requested}: {state}");
    let fix = "kubectl logs -A -l app=nvidia-mig-manager --tail 20";
    Some(
        DoctorCheck::new(CheckStatus::Warn, "mig", message)
            .on(&node.name)
            .fix(fix),
    )
}

fn hami(host: &NodeUsage) -> Option<DoctorCheck> {
    let node = &host.details.node;
    node.annotations
        .get(HANDSHAKE)
        .filter(|state| state.starts_with("Deleted"))?;
    let message =
        "HAMi's device plugin no longer responds to its scheduler, so no shares are allocated"
            .to_owned();
    Some(
        DoctorCheck::new(CheckStatus::Warn, "hami", message)
            .on(&node.name)
            .fix("kubectl get pods -A -o wide | grep -i hami"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuctl_core::model::counting::inventory::Count;
    use gpuctl_core::model::{Node, NodeDetails, NodeHealth};

    fn host(
        name: &str,
        labels: &[(&str, &str)],
        handshake: Option<&str>,
        slices: &[(&str, u64)],
    ) -> NodeUsage {
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let annotations = handshake
            .map(|annotation| (HANDSHAKE.to_owned(), annotation.to_owned()))
            .into_iter()
            .collect();
        NodeUsage {
            details: NodeDetails {
                node: Node {
                    name: name.into(),
                    labels,
                    annotations,
                    ..Node::default()
                },
                ..NodeDetails::default()
            },
            health: NodeHealth::Active,
            reason: None,
            gpus: Count::default(),
            slices: slices
                .iter()
                .map(|(name, total)| ((*name).to_owned(), Count::usable_units(*total, None)))
                .collect(),
            listed_board_slices: BTreeMap::new(),
            types: BTreeMap::new(),
            cpu_used_milli: None,
            memory_used_bytes: None,
            holders: Vec::new(),
            devices: None,
        }
    }

    #[test]
    fn divided_devices_are_counted_and_broken_managers_named() {
        let state = |state| [(MIG_STATE, state), (MIG_CONFIG, "all-1g.10gb")];
        let device = Device {
            node: "c".into(),
            driver: "gpu.nvidia.com".into(),
            ..Device::default()
        };
        let inventory = Inventory {
            hosts: vec![
                host("a", &state("success"), None, &[("mig-1g.10gb", 7)]),
                host(
                    "b",
                    &state("failed"),
                    Some("Reported 2026.01.31 12:00:00"),
                    &[("mig-1g.10gb", 7)],
                ),
                host("c", &[], Some("Deleted_2026.01.31 12:00:00"), &[]),
            ],
        };
        let messages: Vec<String> = check_sharing(&inventory, &[device.clone(), device])
            .iter()
            .map(|check| serde_json::to_string(&check.message).unwrap())
            .collect();
        assert_eq!(
            messages,
            [
                "\"the GPUs are not partitioned as nvidia.com/mig.config=all-1g.10gb requests: failed\"",
                "\"HAMi's device plugin no longer responds to its scheduler, so no shares are allocated\"",
                "\"14 × mig-1g.10gb on 2 nodes, HAMi on 2 nodes, 2 devices of gpu.nvidia.com can be claimed on 1 node\"",
            ]
        );
        assert!(check_sharing(&Inventory::default(), &[]).is_empty());
    }
}
