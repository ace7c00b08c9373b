//! The table of one exporter, with its metrics and the labels that name the device, the node and
//! the pod.

use super::quantity::Quantity;

/// The names of the metrics and labels of one exporter. Labels are listed in order of precedence,
/// so the first one that has a value wins.
#[derive(Debug)]
pub struct Dialect {
    /// Its metrics. No name occurs in more than one dialect.
    pub metrics: &'static [ExporterMetric],
    /// The labels that contain the name of the node.
    pub node: &'static [&'static str],
    /// The labels that contain the UUID of the device.
    pub uuid: &'static [&'static str],
    /// The labels that contain the number of the device on its node.
    pub index: &'static [&'static str],
    /// The labels that contain the model of the device. They are read only from metrics of this
    /// dialect, because a label may have a general name such as `name`.
    pub model: &'static [&'static str],
    /// The pairs of labels (namespace, pod) that name the pod that holds the device. `namespace`
    /// and `pod` are not listed, because all exporters may use them.
    pub pod: &'static [(&'static str, &'static str)],
    /// The labels that contain the container of the holder. `container` is not listed, because all
    /// exporters may use it.
    pub container: &'static [&'static str],
    /// The names of the exporter's own container. They are needed only if the exporter names the
    /// holder in `namespace` and `pod`. While no pod holds a device, Prometheus writes the
    /// exporter's own pod there.
    pub exporter_containers: &'static [&'static str],
    /// The labels for slices, if devices can be partitioned.
    pub slice: Option<SliceLabels>,
    /// The quantities that only the first slice of a device reports. The other slices report zero.
    pub first_slice_only: &'static [Quantity],
}

impl Dialect {
    /// A dialect without metrics and labels, for `..Dialect::EMPTY` in the tables.
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

/// The labels that identify a slice of a device.
#[derive(Clone, Copy, Debug)]
pub enum SliceLabels {
    /// One label contains the profile, and another one contains the number of the instance.
    Profile {
        /// The profile, such as `1g.10gb`.
        profile: &'static str,
        /// The number of the instance on the device.
        number: &'static str,
    },
    /// The labels contain the partitioning modes of compute units and memory, and the number of the
    /// partition.
    Modes {
        /// The compute partitioning mode. `spx` means a whole device.
        compute: &'static str,
        /// The memory partitioning mode.
        memory: &'static str,
        /// The number of the partition on the device.
        number: &'static str,
    },
}

#[derive(Clone, Copy, Debug)]
pub struct ExporterMetric {
    /// The name of the metric in Prometheus.
    pub name: &'static str,
    pub quantity: Quantity,
    /// If a device has several metrics for one quantity, the one with the lowest rank wins.
    pub rank: u8,
    /// The factor that converts the exporter's unit to gpuctl's unit.
    pub scale: f64,
}

/// Builds a row of the table of metrics. It is `const` so that the tables can be static.
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
    /// Returns the possible range of the quantity, converted to the exporter's unit.
    pub fn range(&self) -> (f64, f64) {
        let (lowest, highest) = self.quantity.range();
        (lowest / self.scale, highest / self.scale)
    }

    /// Converts a sample to gpuctl's unit. `None` if the value is physically impossible: NaN,
    /// infinity, a sentinel value, or a utilization above 100.
    pub fn read(&self, value: f64) -> Option<f64> {
        let (lowest, highest) = self.quantity.range();
        let value = value * self.scale;
        // Accept a ratio that became 100.00000001 because of floating-point rounding.
        (value.is_finite() && value >= lowest && value <= highest + 1e-6)
            .then(|| value.min(highest))
    }
}
