//! The name of a device on its node, the same in every command: `gpu-3`, or `gpu-3/1g.10gb-7` for
//! an instance of a device that is cut. Which number a device has is decided in
//! `stats/exporters/device_numbers.rs`.

use std::fmt;
use std::str::FromStr;

/// A device of a node, or one instance of a device that is cut into several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceId {
    /// The device's number on its node, from 0.
    pub index: u32,
    /// MIG profile or partition, with its number on the device.
    pub slice: Option<(String, u32)>,
}

impl DeviceId {
    /// Returns a device that is not cut.
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

/// A text that names no device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoDevice;

impl FromStr for DeviceId {
    type Err = NoDevice;

    /// Reads `3`, `gpu-3` and `GPU-3`: a whole device.
    fn from_str(text: &str) -> Result<Self, NoDevice> {
        let number = text
            .strip_prefix("gpu-")
            .or_else(|| text.strip_prefix("GPU-"))
            .unwrap_or(text);
        number.parse().map(Self::whole).map_err(|_| NoDevice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_one_name() {
        assert_eq!(DeviceId::whole(3).to_string(), "gpu-3");
        let slice = Some(("1g.10gb".to_owned(), 7));
        assert_eq!(DeviceId { index: 3, slice }.to_string(), "gpu-3/1g.10gb-7");
        for text in ["3", "gpu-3", "GPU-3"] {
            assert_eq!(text.parse(), Ok(DeviceId::whole(3)));
        }
        assert_eq!("gpu-x".parse::<DeviceId>(), Err(NoDevice));
    }
}
