//! Quantities that gpuctl reads from devices, each with one unit and a physically possible range.

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
    /// Fraction of time that a multiprocessor had work, in percent.
    SmActive,
    /// Fraction of time that tensor cores were active, in percent.
    TensorActive,
    /// Reasons for a reduced clock, as a bit mask of NVML.
    Throttle,
    /// Code of the last error, or 0 without an error.
    Xid,
    /// 1 if a broken row of memory could not be replaced.
    RowRemapFailure,
    /// 1 if the device is healthy.
    Health,
    /// Health of the connection to the NVLink fabric: 1 if healthy, 2 if unhealthy, 3 with limited
    /// capacity, 0 without a fabric.
    FabricHealth,
    /// Shows only which pod holds a part of the device; the value is not used.
    Share,
}

impl Quantity {
    /// Returns true if the quantity is queried only to find faulty devices.
    pub fn is_fault(self) -> bool {
        matches!(
            self,
            Self::Xid | Self::RowRemapFailure | Self::Health | Self::FabricHealth
        )
    }

    /// Returns the range of physically possible values in gpuctl's unit.
    pub(super) fn range(self) -> (f64, f64) {
        match self {
            Self::Utilization | Self::MemoryCopy | Self::SmActive | Self::TensorActive => {
                (0.0, 100.0)
            }
            // At most 16 TiB per device.
            Self::MemoryUsed | Self::MemoryFree => (0.0, 16_777_216.0),
            Self::MemoryTotal => (1.0, 16_777_216.0),
            Self::Power => (0.0, 5000.0),
            Self::PowerLimit => (1.0, 5000.0),
            Self::Temperature => (-40.0, 150.0),
            Self::Clock => (0.0, 20_000.0),
            // NVML uses nine bits. Allow twelve, in case NVIDIA adds some.
            Self::Throttle => (0.0, 4095.0),
            Self::Xid => (0.0, 100_000.0),
            Self::RowRemapFailure | Self::Health => (0.0, 1.0),
            Self::FabricHealth => (0.0, 3.0),
            Self::Share => (0.0, f64::MAX),
        }
    }
}
