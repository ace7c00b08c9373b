//! Counts of device units and of the used ones. Sums saturate.

use schemars::JsonSchema;
use serde::Serialize;

/// Units of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Count {
    pub total: u64,
    /// `None` when the user cannot list the pods of all namespaces.
    pub used: Option<u64>,
}

impl Count {
    pub fn free(self) -> Option<u64> {
        self.used.map(|used| self.total.saturating_sub(used))
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.total = self.total.saturating_add(other.total);
        self.used = self.used.zip(other.used).map(|(a, b)| a.saturating_add(b));
    }
}
