//! The table of one exporter: its metrics, and the labels that name the device, the node and the
//! pod.

use super::quantity::Quantity;

/// The metric and label names of one exporter. Labels are in order of precedence: the first with a
/// value wins.
#[derive(Debug)]
pub struct Dialect {
    /// Its metrics. Each name occurs in one dialect only.
    pub metrics: &'static [ExporterMetric],
    /// Labels with the node's name.
    pub node: &'static [&'static str],
    /// Labels with the device's UUID.
    pub uuid: &'static [&'static str],
    /// Labels with the device's number on its node.
    pub index: &'static [&'static str],
    /// Labels with the device's model. They are read only from metrics of this dialect, because
    /// their names may be as general as `name`.
    pub model: &'static [&'static str],
    /// Label pairs (namespace, pod) with the pod that holds the device. All exporters may use
    /// `namespace` and `pod`, so that pair is not listed.
    pub pod: &'static [(&'static str, &'static str)],
    /// Labels with the holder's container. All exporters may use `container`, so it is not listed.
    pub container: &'static [&'static str],
    /// Names of the exporter's own container. Needed only if the exporter names the holder in
    /// `namespace` and `pod`: Prometheus writes the exporter's own pod there while no device is
    /// held.
    pub exporter_containers: &'static [&'static str],
    /// Labels of a device's slices, if devices can be partitioned.
    pub slice: Option<SliceLabels>,
    /// Quantities that only the first slice of a device reports; the other slices report zero.
    pub first_slice_only: &'static [Quantity],
}

impl Dialect {
    /// No metrics and no labels, for `..Dialect::EMPTY` in the tables.
    pub const EMPTY: Self = Self {
        metrics: &[],
        node: &[],
        uuid: &[],
        index: &[],
        model: &[],
        pod: &[],
        container: &[],
        exporter_containers: &[],
        slice: None,
        first_slice_only: &[],
    };
}

/// Labels that name a slice of a device.
#[derive(Clone, Copy, Debug)]
pub enum SliceLabels {
    /// One label with the profile and one with the instance's number.
    Profile {
        /// The profile, such as `1g.10gb`.
        profile: &'static str,
        /// The instance's number on the device.
        number: &'static str,
    },
    /// The partitioning modes of compute units and memory, and the partition's number.
    Modes {
        /// Compute partitioning mode; `spx` is a whole device.
        compute: &'static str,
        /// Memory partitioning mode.
        memory: &'static str,
        /// The partition's number on the device.
        number: &'static str,
    },
}

#[derive(Clone, Copy, Debug)]
pub struct ExporterMetric {
    /// The metric's name in Prometheus.
    pub name: &'static str,
    pub quantity: Quantity,
    /// The lowest rank wins if a device has several metrics of one quantity.
    pub rank: u8,
    /// Factor that converts the exporter's unit to gpuctl's.
    pub scale: f64,
}

/// Builds a row of a metric table, `const` so that the tables are static.
pub(super) const fn metric(
    name: &'static str,
    quantity: Quantity,
    rank: u8,
    scale: f64,
) -> ExporterMetric {
    ExporterMetric {
        name,
        quantity,
        rank,
        scale,
    }
}

/// Converts bytes to MiB.
pub(super) const BYTES: f64 = 1.0 / 1_048_576.0;

impl ExporterMetric {
    /// Converts the possible range of the quantity to the exporter's unit.
    pub fn range(&self) -> (f64, f64) {
        let (lowest, highest) = self.quantity.range();
        (lowest / self.scale, highest / self.scale)
    }

    /// Converts a sample to gpuctl's unit. `None` if it is physically impossible: NaN, infinities,
    /// sentinel values, a utilization above 100.
    pub fn read(&self, value: f64) -> Option<f64> {
        let (lowest, highest) = self.quantity.range();
        let value = value * self.scale;
        // Accept a ratio that floating-point rounding raised to 100.00000001.
        (value.is_finite() && value >= lowest && value <= highest + 1e-6)
            .then(|| value.min(highest))
    }
}
