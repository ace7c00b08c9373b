//! Names of devices: `gpu-3`, or `gpu-3/1g.10gb-7` for an instance of a partitioned device. All
//! commands use them. `stats/exporters/device_numbers.rs` assigns the numbers.

use std::fmt;
use std::str::FromStr;

/// A device of a node, or an instance of a partitioned device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceId {
    /// Number of the device on its node, from 0.
    pub index: u32,
    /// MIG profile or partition type, and number of the instance on its device.
    pub slice: Option<(String, u32)>,
}

impl DeviceId {
    /// Creates the id of an unpartitioned device.
    pub fn whole(index: u32) -> Self {
        Self { index, slice: None }
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gpu-{}", self.index)?;
        match &self.slice {
            None => Ok(()),
            Some((profile, number)) => write!(f, "/{profile}-{number}"),
        }
    }
}

/// Error for text that is not the name of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidDeviceId;

impl FromStr for DeviceId {
    type Err = InvalidDeviceId;

    /// Parses the name of a device: `3`, `gpu-3` or `GPU-3`, with `/1g.10gb-7` for an instance.
    fn from_str(text: &str) -> Result<Self, InvalidDeviceId> {
        let (device, slice) = match text.split_once('/') {
            Some((device, slice)) => (device, Some(slice)),
            None => (text, None),
        };
        let number = device
            .strip_prefix("gpu-")
            .or_else(|| device.strip_prefix("GPU-"))
            .unwrap_or(device);
        let instance = |slice: &str| {
            let (profile, number) = slice.rsplit_once('-').ok_or(InvalidDeviceId)?;
            let number = number.parse().map_err(|_| InvalidDeviceId)?;
            let is_profile = !profile.is_empty() && !profile.contains('/');
            is_profile
                .then(|| (profile.to_owned(), number))
                .ok_or(InvalidDeviceId)
        };
        Ok(Self {
            index: number.parse().map_err(|_| InvalidDeviceId)?,
            slice: slice.map(instance).transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_ids_parse_in_every_spelling() {
        assert_eq!(DeviceId::whole(3).to_string(), "gpu-3");
        let slice = Some(("1g.10gb".to_owned(), 7));
        let instance = DeviceId { index: 3, slice };
        assert_eq!(instance.to_string(), "gpu-3/1g.10gb-7");
        assert_eq!("gpu-3/1g.10gb-7".parse(), Ok(instance.clone()));
        assert_eq!("3/1g.10gb-7".parse(), Ok(instance));
        for text in ["3", "gpu-3", "GPU-3"] {
            assert_eq!(text.parse(), Ok(DeviceId::whole(3)));
        }
        for text in ["gpu-x", "3/", "3/1g.10gb", "3/-7", "3/a/b-7"] {
            assert_eq!(text.parse::<DeviceId>(), Err(InvalidDeviceId), "{text}");
        }
    }
}
