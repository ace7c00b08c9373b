//! What one exporter's table says: its metrics, and the labels that name the device, the node and
//! the pod.

use super::quantity::Quantity;

/// How one exporter names what gpuctl reads. Labels stand in order: the first that has a value
/// counts.
#[derive(Debug)]
pub struct Dialect {
    /// Its metrics; a name is in one dialect only.
    pub metrics: &'static [ExporterMetric],
    /// Labels with the name of the node.
    pub node: &'static [&'static str],
    /// Labels with the device's identity.
    pub uuid: &'static [&'static str],
    /// Labels with the device's number on its node.
    pub index: &'static [&'static str],
    /// Labels with the device's model; read of this dialect's metrics only, for they may be as
    /// general as `name`.
    pub model: &'static [&'static str],
    /// Labels with the pod that holds the device, as (namespace, pod). `namespace` and `pod` are
    /// common to all and not listed.
    pub pod: &'static [(&'static str, &'static str)],
    /// Labels with the container beside the pod. `container` is common to all and not listed.
    pub container: &'static [&'static str],
    /// What the exporter calls its own container. Only needed where it names the holder by
    /// `namespace` and `pod`: Prometheus writes the exporter's own pod there when no device is
    /// held.
    pub own_containers: &'static [&'static str],
    /// Labels of the parts of a device, for those that can be cut.
    pub slice: Option<SliceLabels>,
    /// What only the first part of a device tells; the others report zero.
    pub of_first_slice: &'static [Quantity],
}

impl Dialect {
    /// No metrics and no labels: what a table leaves out with `..Dialect::EMPTY`.
    pub const EMPTY: Self = Self {
        metrics: &[],
        node: &[],
        uuid: &[],
        index: &[],
        model: &[],
        pod: &[],
        container: &[],
        own_containers: &[],
        slice: None,
        of_first_slice: &[],
    };
}

/// Labels that name a part of a device.
#[derive(Clone, Copy, Debug)]
pub enum SliceLabels {
    /// One label with the profile and one with the number.
    Profile {
        /// Its value is the profile, such as `1g.10gb`.
        profile: &'static str,
        /// The part's number on the device.
        number: &'static str,
    },
    /// The modes in which compute units and memory are partitioned, and the number of the
    /// partition.
    Modes {
        /// Compute partitioning; `spx` is a whole device.
        compute: &'static str,
        /// Memory partitioning.
        memory: &'static str,
        /// The partition's number on the device.
        number: &'static str,
    },
}

/// A metric of an exporter.
#[derive(Clone, Copy, Debug)]
pub struct ExporterMetric {
    /// The name in Prometheus.
    pub name: &'static str,
    /// What it measures.
    pub quantity: Quantity,
    /// Of several metrics for one quantity of a device the lowest counts.
    pub rank: u8,
    /// What turns its unit into ours.
    pub scale: f64,
}

/// Returns one row of a table of metrics.
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

/// Turns bytes into MiB.
pub(super) const BYTES: f64 = 1.0 / 1_048_576.0;

impl ExporterMetric {
    /// Returns the lowest and the highest value that a device can have, in the exporter's unit.
    pub fn range(&self) -> (f64, f64) {
        let (lowest, highest) = self.quantity.range();
        (lowest / self.scale, highest / self.scale)
    }

    /// Returns a sample in our unit; `None` when no device can have it: NaN, infinities, sentinels,
    /// a utilization over 100.
    pub fn read(&self, value: f64) -> Option<f64> {
        let (lowest, highest) = self.quantity.range();
        let value = value * self.scale;
        // A ratio that a float brought to 100.00000001 is whole.
        (value.is_finite() && value >= lowest && value <= highest + 1e-6)
            .then(|| value.min(highest))
    }
}
