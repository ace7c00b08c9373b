//! The quantities that gpuctl reads from a device, each in one unit and with its physically
//! possible range.

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
    /// Share of time with work on a multiprocessor, in percent.
    SmActive,
    /// Share of time with active tensor cores, in percent.
    TensorActive,
    /// Reasons for a reduced clock, as NVML's bit mask.
    Throttle,
    /// Number of the last error; 0 means no error.
    Xid,
    /// 1 if a broken row of memory could not be replaced.
    RowRemapFailure,
    /// 1 means healthy.
    Health,
    /// Says only which pod holds a part of the device; the value is not used.
    Share,
}

impl Quantity {
    /// Whether this quantity is queried only to find faulty devices.
    pub fn is_fault(self) -> bool {
        matches!(self, Self::Xid | Self::RowRemapFailure | Self::Health)
    }

    /// Defines the physically possible range, in gpuctl's unit.
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
            // NVML uses nine bits; the range leaves room for twelve.
            Self::Throttle => (0.0, 4095.0),
            Self::Xid => (0.0, 100_000.0),
            Self::RowRemapFailure | Self::Health => (0.0, 1.0),
            Self::Share => (0.0, f64::MAX),
        }
    }
}
