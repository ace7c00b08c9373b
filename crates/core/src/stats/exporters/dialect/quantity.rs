//! The quantities that gpuctl reads of a device, each in one unit, and the range that is physically
//! possible.

/// What is measured of a device.
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
    /// Of the multiprocessors, in MHz.
    Clock,
    /// Share of time in which a multiprocessor has work, in percent.
    SmActive,
    /// Share of time in which the tensor cores work, in percent.
    TensorActive,
    /// What lowers the clock, as NVML's bits.
    Throttle,
    /// The last error's number; 0 is none.
    Xid,
    /// 1 when a broken row of memory could not be replaced.
    RowRemapFailure,
    /// 1 is healthy.
    Health,
    /// Only who holds a part of the device.
    Share,
}

impl Quantity {
    /// Returns true for what is asked only where it is not well.
    pub fn is_fault(self) -> bool {
        matches!(self, Self::Xid | Self::RowRemapFailure | Self::Health)
    }

    /// Returns what is physically possible, in our unit.
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
            // Nine bits are in use.
            Self::Throttle => (0.0, 4095.0),
            Self::Xid => (0.0, 100_000.0),
            Self::RowRemapFailure | Self::Health => (0.0, 1.0),
            Self::Share => (0.0, f64::MAX),
        }
    }
}
