//! The structure of an exporter's table: its metrics, and the labels that name device, node and
//! pod.

use super::quantity::Quantity;

/// Metrics and labels of one exporter. Of several labels, the first one with a value wins.
#[derive(Debug)]
pub struct Dialect {
    /// Metrics of the exporter. No name occurs in two dialects.
    pub metrics: &'static [ExporterMetric],
    /// Labels that all series of the exporter have. A metric with a general name belongs to another
    /// program without them.
    pub required: &'static [&'static str],
    /// Labels with the name of the node.
    pub node: &'static [&'static str],
    /// Labels with the UUID of the device.
    pub uuid: &'static [&'static str],
    /// Start of all UUIDs that the exporter omits.
    pub uuid_prefix: &'static str,
    /// Labels of series about a part of the device, such as a tile. They are not read, because the
    /// exporter also reports the whole device.
    pub part: &'static [&'static str],
    /// Labels with the number of the device on its node.
    pub index: &'static [&'static str],
    /// Labels with the model of the device. They are read only from metrics of this dialect,
    /// because a label may have a general name such as `name`.
    pub model: &'static [&'static str],
    /// Pairs of labels (namespace, pod) that name the holder. `namespace` and `pod` are not listed,
    /// because all exporters may use them.
    pub pod: &'static [(&'static str, &'static str)],
    /// Labels with the container of the holder. `container` is not listed, because all exporters
    /// may use it.
    pub container: &'static [&'static str],
    /// Names of the exporter's own container, for exporters that name the holder in `namespace` and
    /// `pod`. While no pod holds a device, Prometheus writes the exporter's own pod there.
    pub exporter_containers: &'static [&'static str],
    /// Labels that identify slices, if devices can be partitioned.
    pub slice: Option<SliceLabels>,
    /// Quantities that are reported for the first slice of a device and are zero for the others.
    pub first_slice_only: &'static [Quantity],
}

impl Dialect {
    /// A dialect without metrics and labels, the base of all tables.
    pub const EMPTY: Self = Self {
        metrics: &[],
        required: &[],
        node: &[],
        uuid: &[],
        uuid_prefix: "",
        part: &[],
        index: &[],
        model: &[],
        pod: &[],
        container: &[],
        exporter_containers: &[],
        slice: None,
        first_slice_only: &[],
    };
}

/// Labels that identify a slice of a device.
#[derive(Clone, Copy, Debug)]
pub enum SliceLabels {
    /// One label for the profile, and one for the number of the instance.
    Profile {
        /// Label with the profile, such as `1g.10gb`.
        profile: &'static str,
        /// Label with the number of the instance on the device.
        number: &'static str,
    },
    /// Labels for the partitioning modes of compute and memory, and for the number of the
    /// partition.
    Modes {
        /// Label with the compute mode. `spx` means a whole device.
        compute: &'static str,
        /// Label with the memory mode.
        memory: &'static str,
        /// Label with the number of the partition on the device.
        number: &'static str,
    },
}

#[derive(Clone, Copy, Debug)]
pub struct ExporterMetric {
    /// Name of the metric in Prometheus.
    pub name: &'static str,
    pub quantity: Quantity,
    /// Precedence among several metrics of a device for one quantity. The lowest rank wins.
    pub rank: u8,
    /// Factor that converts the exporter's unit to gpuctl's.
    pub scale: f64,
    /// True if the exporter defines the metric only for whole devices. For an instance, it may
    /// report zero whatever the instance does.
    pub whole_devices_only: bool,
}

/// Builds a row for a metric that is defined only for whole devices.
pub(super) const fn device_metric(
    name: &'static str,
    quantity: Quantity,
    rank: u8,
) -> ExporterMetric {
    ExporterMetric {
        whole_devices_only: true,
        ..metric(name, quantity, rank, 1.0)
    }
}

/// Builds a row of the metrics table. `const`, so that the tables can be constants.
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
        whole_devices_only: false,
    }
}

/// Factor from bytes to MiB.
pub(super) const BYTES: f64 = 1.0 / 1_048_576.0;

impl ExporterMetric {
    /// Returns the possible range of the quantity in the exporter's unit.
    pub fn range(&self) -> (f64, f64) {
        let (lowest, highest) = self.quantity.range();
        (lowest / self.scale, highest / self.scale)
    }

    /// Converts a sample to gpuctl's unit, or returns `None` if it is physically impossible: NaN,
    /// infinity, a sentinel value, or a utilization above 100.
    pub fn read(&self, value: f64) -> Option<f64> {
        let (lowest, highest) = self.quantity.range();
        let value = value * self.scale;
        // Accept a ratio that rounding has changed to 100.00000001.
        (value.is_finite() && value >= lowest && value <= highest + 1e-6)
            .then(|| value.min(highest))
    }
}
