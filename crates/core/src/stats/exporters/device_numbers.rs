//! Assigns numbers to devices. Some exporters report only a device's number, and some only its
//! UUID, and their numbers can differ. Readings, curves and history all use these numbers, so that
//! every command gives a device the same name.

use std::collections::{BTreeMap, BTreeSet};

use super::identity::SeriesDevice;

/// Numbers of the devices in the result of one query.
#[derive(Default)]
pub(crate) struct DeviceNumbers {
    /// Numbers by node and UUID.
    by_uuid: BTreeMap<(String, String), u32>,
    /// Numbers that several devices of a node share, as (node, number).
    ambiguous: BTreeSet<(String, u32)>,
}

impl DeviceNumbers {
    /// Gives each UUID the first number that a series reports for it. A UUID without a number gets
    /// the lowest free number of its node, in the order of UUIDs.
    pub(crate) fn from_devices(series_devices: impl Iterator<Item = SeriesDevice>) -> Self {
        let mut by_uuid: BTreeMap<(String, String), u32> = BTreeMap::new();
        let mut unnumbered = BTreeSet::new();
        for device in series_devices {
            match (device.uuid, device.index) {
                (Some(uuid), Some(index)) => {
                    by_uuid.entry((device.node, uuid)).or_insert(index);
                }
                (Some(uuid), None) => {
                    unnumbered.insert((device.node, uuid));
                }
                // A number without a UUID may belong to a UUID without a number, so do not consider
                // the number taken.
                (None, _) => {}
            }
        }
        for (node, uuid) in unnumbered {
            if !by_uuid.contains_key(&(node.clone(), uuid.clone())) {
                let taken: BTreeSet<u32> = by_uuid
                    .iter()
                    .filter(|((device_node, _), _)| *device_node == node)
                    .map(|(_, index)| *index)
                    .collect();
                let free = (0..=u32::MAX)
                    .find(|index| !taken.contains(index))
                    .unwrap_or(0);
                by_uuid.insert((node, uuid), free);
            }
        }
        let mut devices: BTreeMap<(String, u32), u32> = BTreeMap::new();
        by_uuid.iter().for_each(|((node, _), index)| {
            *devices.entry((node.clone(), *index)).or_default() += 1;
        });
        let ambiguous = devices
            .into_iter()
            .filter(|(_, count)| *count > 1)
            .map(|(device, _)| device)
            .collect();
        Self { by_uuid, ambiguous }
    }

    /// Returns the number recorded for the device's UUID, or otherwise the number in its own
    /// series.
    pub(crate) fn number(&self, device: &SeriesDevice) -> Option<u32> {
        let by_uuid = device
            .uuid
            .as_ref()
            .and_then(|uuid| self.by_uuid.get(&(device.node.clone(), uuid.clone())));
        by_uuid.copied().or(device.index)
    }

    /// Returns a key that is unique for each device: the number, with the UUID only if several
    /// devices of the node have that number.
    pub(crate) fn key(&self, device: SeriesDevice) -> SeriesDevice {
        let index = self.number(&device);
        let ambiguous =
            index.is_some_and(|index| self.ambiguous.contains(&(device.node.clone(), index)));
        let uuid = if ambiguous { device.uuid.clone() } else { None };
        SeriesDevice {
            uuid,
            index,
            ..device
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(uuid: Option<&str>, index: Option<u32>) -> SeriesDevice {
        SeriesDevice {
            node: "n".to_owned(),
            uuid: uuid.map(ToOwned::to_owned),
            index,
            slice: None,
        }
    }

    #[test]
    fn uuid_without_number_gets_a_free_one() {
        let devices = [
            identity(Some("b"), None),
            identity(Some("a"), Some(0)),
            identity(Some("c"), None),
        ];
        let numbers = DeviceNumbers::from_devices(devices.into_iter());
        let number = |uuid| numbers.number(&identity(Some(uuid), None));
        assert_eq!(
            (number("a"), number("b"), number("c"), number("d")),
            (Some(0), Some(1), Some(2), None)
        );
    }

    #[test]
    fn devices_with_the_same_number_keep_their_uuids() {
        let numbers = DeviceNumbers::from_devices(
            [identity(Some("a"), Some(0)), identity(Some("b"), Some(0))].into_iter(),
        );
        assert_eq!(
            numbers.key(identity(Some("a"), None)),
            identity(Some("a"), Some(0))
        );
        let plain = DeviceNumbers::from_devices([identity(Some("a"), Some(0))].into_iter());
        assert_eq!(
            plain.key(identity(Some("a"), None)),
            identity(None, Some(0))
        );
    }
}
