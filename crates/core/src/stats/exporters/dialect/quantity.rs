//! The quantities that gpuctl reads from a device. Each has one unit and a physically possible
//! range.

/// A measured quantity of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quantity {
    /// Percent.
    Utilization,
    /// Percent.
    MemoryCopy,
    /// MiB.
    MemoryUsed,
    /// MiB.
    MemoryFree,
    /// MiB.
    MemoryTotal,
    /// Watts.
    Power,
    /// Watts.
    PowerLimit,
    /// Degrees Celsius.
    Temperature,
    /// Clock of the multiprocessors in MHz.
    Clock,
    /// The fraction of time in which a multiprocessor had work, in percent.
    SmActive,
    /// The fraction of time in which tensor cores were active, in percent.
    TensorActive,
    /// The reasons for a reduced clock, as a bit mask of NVML.
    Throttle,
    /// The number of the last error. 0 means that there was no error.
    Xid,
    /// 1 if a broken row of memory could not be replaced.
    RowRemapFailure,
    /// 1 if the device is healthy.
    Health,
    /// Only shows which pod holds a part of the device. The value itself is not used.
    Share,
}

impl Quantity {
    /// Whether this quantity is queried only to find faulty devices.
    pub fn is_fault(self) -> bool {
        matches!(self, Self::Xid | Self::RowRemapFailure | Self::Health)
    }

    /// Returns the range of values that are physically possible, in gpuctl's unit.
    pub(super) fn range(self) -> (f64, f64) {
        match self {
            Self::Utilization | Self::MemoryCopy | Self::SmActive | Self::TensorActive => {
                (0.0, 100.0)
            }
            // 16 TiB in one device.
            Self::MemoryUsed | Self::MemoryFree => (0.0, 16_777_216.0),
            Self::MemoryTotal => (1.0, 16_777_216.0),
            Self::Power => (0.0, 5000.0),
            Self::PowerLimit => (1.0, 5000.0),
            Self::Temperature => (-40.0, 150.0),
            Self::Clock => (0.0, 20_000.0),
            // NVML uses nine bits. The range allows for twelve, in case more are added.
            Self::Throttle => (0.0, 4095.0),
            Self::Xid => (0.0, 100_000.0),
            Self::RowRemapFailure | Self::Health => (0.0, 1.0),
            Self::Share => (0.0, f64::MAX),
        }
    }
}
