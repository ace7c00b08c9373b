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

/// Error for text that is not the name of a whole device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidDeviceId;

impl FromStr for DeviceId {
    type Err = InvalidDeviceId;

    /// Parses the name of a whole device: `3`, `gpu-3` or `GPU-3`.
    fn from_str(text: &str) -> Result<Self, InvalidDeviceId> {
        let number = text
            .strip_prefix("gpu-")
            .or_else(|| text.strip_prefix("GPU-"))
            .unwrap_or(text);
        number.parse().map(Self::whole).map_err(|_| InvalidDeviceId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_ids_parse_in_every_spelling() {
        assert_eq!(DeviceId::whole(3).to_string(), "gpu-3");
        let slice = Some(("1g.10gb".to_owned(), 7));
        assert_eq!(DeviceId { index: 3, slice }.to_string(), "gpu-3/1g.10gb-7");
        for text in ["3", "gpu-3", "GPU-3"] {
            assert_eq!(text.parse(), Ok(DeviceId::whole(3)));
        }
        assert_eq!("gpu-x".parse::<DeviceId>(), Err(InvalidDeviceId));
    }
}
