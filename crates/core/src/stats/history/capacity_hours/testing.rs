//! Builds GPU-hours that no pod held, for tests of other modules.

use super::CapacityHours;

impl CapacityHours {
    /// GPUs that were idle and unseen for some hours.
    pub fn of_hours(idle: f64, unseen: f64) -> Self {
        Self {
            idle,
            unseen,
            ..Self::default()
        }
    }
}
