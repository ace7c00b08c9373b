//! Builds GPU-hours for tests of other modules.

use super::GpuHours;

impl GpuHours {
    /// One GPU held for a number of hours, with its utilization in percent if it was measured.
    pub fn of_one_gpu(hours: f64, utilization: Option<f64>) -> Self {
        Self {
            held: hours,
            measured: utilization.map_or(0.0, |_| hours),
            used: utilization.map_or(0.0, |percent| hours * percent / 100.0),
            ..Self::default()
        }
    }
}
