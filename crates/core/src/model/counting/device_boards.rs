//! Lists the devices that count as hardware. A driver can publish one board several times: whole,
//! as its possible partitions (KEP-4815), and as a passthrough device for virtual machines. A board
//! counts once, and its partitions count only after one of them is in use.

use std::collections::{BTreeMap, HashMap};

use super::device_allocator::{available_counters, fits, pool, subtract};
use super::device_supply::{CounterSets, CounterUse, DeviceKey, DeviceSupply, OfferedDevice};
use super::node_usage::Device;

/// The pods for which the claims of devices are reserved, as (namespace, name).
pub type DeviceHolders = HashMap<DeviceKey, Vec<(String, String)>>;

/// Lists boards and partitions. `holders` is `None` if the user cannot read claims.
pub fn listed_devices(supply: &DeviceSupply, holders: Option<&DeviceHolders>) -> Vec<Device> {
    let mut pools: BTreeMap<(String, String), Vec<&OfferedDevice>> = BTreeMap::new();
    // Drivers also publish other devices. The drivers `gpu.nvidia.com` and `gpu.amd.com` publish
    // GPUs.
    let gpus = supply
        .devices
        .iter()
        .filter(|device| device.key.driver.starts_with("gpu.") && !device.node.is_empty());
    gpus.for_each(|device| pools.entry(pool(device)).or_default().push(device));
    let available = available_counters(supply);
    let none = CounterSets::new();
    let mut devices = Vec::new();
    for (name, offered) in pools {
        let pool = PoolDevices {
            total: supply.counters.get(&name).unwrap_or(&none),
            available: available.get(&name).unwrap_or(&none),
            offered,
            holders,
        };
        pool.list(&mut devices);
    }
    devices
}

/// The devices of one pool.
struct PoolDevices<'s> {
    offered: Vec<&'s OfferedDevice>,
    /// Counters as if no device were held.
    total: &'s CounterSets,
    /// Counters without those of held devices.
    available: &'s CounterSets,
    holders: Option<&'s DeviceHolders>,
}

/// One piece of hardware, and the devices that represent all of it.
struct Board<'s> {
    members: Vec<&'s OfferedDevice>,
}

impl<'s> PoolDevices<'s> {
    fn list(&self, devices: &mut Vec<Device>) {
        let (partitions, whole): (Vec<&OfferedDevice>, Vec<&OfferedDevice>) = self
            .offered
            .iter()
            .partition(|device| self.is_partition(device));
        let mut boards: Vec<Board<'s>> = Vec::new();
        for device in whole {
            let twin = boards.iter_mut().find(|board| {
                let mut members = board.members.iter();
                members.any(|member| self.are_twins(member, device))
            });
            match twin {
                Some(board) => board.members.push(device),
                None => boards.push(Board {
                    members: vec![device],
                }),
            }
        }
        devices.extend(boards.iter().map(|board| self.board(board)));
        self.list_partitions(&partitions, &boards, devices);
    }

    /// Describes a board by its device for containers.
    fn board(&self, board: &Board<'_>) -> Device {
        let is_passthrough = |device: &&&OfferedDevice| device.text("type") == Some("vfio");
        let usual = board.members.iter().find(|device| !is_passthrough(device));
        let device = usual.unwrap_or(&board.members[0]);
        let held: Vec<&&OfferedDevice> = board
            .members
            .iter()
            .filter(|member| member.is_held)
            .collect();
        let pods = held.iter().flat_map(|member| self.pods(member));
        let is_blocked = held.is_empty() && !fits(self.available, &[&device.counters]);
        Device {
            held_by: (!held.is_empty()).then(|| pods.collect()),
            is_blocked,
            is_passthrough: usual.is_none(),
            ..self.device(device)
        }
    }

    /// Lists the held partitions, and those that can still be allocated, each profile alone.
    /// Partitions of an unpartitioned board are not listed, because the board counts as whole.
    fn list_partitions(
        &self,
        partitions: &[&OfferedDevice],
        boards: &[Board<'_>],
        devices: &mut Vec<Device>,
    ) {
        let board_of = |partition: &OfferedDevice| {
            boards.iter().position(|board| {
                let mut members = board.members.iter();
                members.any(|member| self.conflict(member, partition))
            })
        };
        let placed: Vec<(Option<usize>, &OfferedDevice)> = partitions
            .iter()
            .map(|partition| (board_of(partition), *partition))
            .collect();
        let is_partitioned = |board: usize| {
            placed
                .iter()
                .any(|(other, partition)| *other == Some(board) && partition.is_held)
        };
        let mut left: BTreeMap<String, CounterSets> = BTreeMap::new();
        for (board, partition) in &placed {
            let profile = profile(partition);
            let held_by = partition.is_held.then(|| self.pods(partition).collect());
            let is_listed = if partition.is_held {
                true
            } else if board.is_some_and(|board| !is_partitioned(board)) {
                false
            } else if partition.counters.is_empty() {
                true
            } else {
                let left = left
                    .entry(profile.clone())
                    .or_insert_with(|| self.available.clone());
                let is_free =
                    partition.repelling_taint().is_none() && fits(left, &[&partition.counters]);
                if is_free {
                    subtract(left, &partition.counters);
                }
                is_free
            };
            if is_listed {
                devices.push(Device {
                    profile: Some(profile),
                    is_of_listed_board: board.is_some(),
                    held_by,
                    ..self.device(partition)
                });
            }
        }
    }

    fn device(&self, device: &OfferedDevice) -> Device {
        Device {
            node: device.node.clone(),
            driver: device.key.driver.clone(),
            taint: device.repelling_taint().map(|taint| taint.key.clone()),
            profile: None,
            is_of_listed_board: false,
            product: device.text("productName").map(ToOwned::to_owned),
            held_by: None,
            is_blocked: false,
            is_passthrough: false,
            claims_readable: self.holders.is_some(),
        }
    }

    fn pods(&self, device: &OfferedDevice) -> impl Iterator<Item = (String, String)> {
        let holders = self.holders.and_then(|holders| holders.get(&device.key));
        holders.cloned().into_iter().flatten()
    }

    /// Returns true if a device is part of a board: by its type, or because another device takes
    /// everything that it takes, and more.
    fn is_partition(&self, device: &OfferedDevice) -> bool {
        let kind = device.text("type").unwrap_or_default();
        let is_part = |other: &&OfferedDevice| contains(&other.counters, &device.counters);
        // `amdgpu-partition` is the type in AMD's driver.
        kind == "mig"
            || kind.ends_with("partition")
            || !device.counters.is_empty() && self.offered.iter().any(is_part)
    }

    /// Returns true if two whole devices represent the same board.
    fn are_twins(&self, a: &OfferedDevice, b: &OfferedDevice) -> bool {
        let is_same = |a: Option<&str>, b: Option<&str>| a.is_some() && a == b;
        is_same(a.pci_address(), b.pci_address())
            || is_same(a.text("uuid"), b.text("uuid"))
            || self.conflict(a, b)
    }

    /// Returns true if shared counters prevent that both devices are in use.
    fn conflict(&self, a: &OfferedDevice, b: &OfferedDevice) -> bool {
        fits(self.total, &[&a.counters])
            && fits(self.total, &[&b.counters])
            && !fits(self.total, &[&a.counters, &b.counters])
    }
}

/// Returns true if `whole` takes at least all that `part` takes, and more of something.
fn contains(whole: &[CounterUse], part: &[CounterUse]) -> bool {
    let amounts = |uses: &[CounterUse]| -> BTreeMap<(String, String), i128> {
        let amounts = uses.iter().flat_map(|used| {
            let amounts = used.amounts.iter();
            amounts.map(|(counter, amount)| ((used.set.clone(), counter.clone()), *amount))
        });
        amounts.collect()
    };
    let (whole, part) = (amounts(whole), amounts(part));
    let has_all = part
        .iter()
        .all(|(counter, amount)| whole.get(counter).is_some_and(|other| other >= amount));
    has_all && whole != part
}

/// Name of a partition: `mig-1g.10gb`, or the profile of another vendor.
fn profile(partition: &OfferedDevice) -> String {
    let kind = partition.text("type").unwrap_or("partition");
    match (
        partition.text("profile"),
        partition.text("partitionProfile"),
    ) {
        (Some(profile), _) if kind == "mig" => format!("mig-{profile}"),
        (Some(profile), _) | (None, Some(profile)) => profile.to_owned(),
        (None, None) => kind.to_owned(),
    }
}

#[cfg(test)]
mod tests;
