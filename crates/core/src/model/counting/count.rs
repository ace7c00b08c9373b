//! Counts of device units, with one meaning in every command. Sums saturate.
//!
//! The numbers partition the capacity:
//!
//! ```text
//! total (capacity) = allocatable + lost
//! allocatable      = usable + cordoned
//! usable           = free + starved + held on nodes that accept new pods
//! ```

/// Units of one kind on one or several nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// The capacity: units that the nodes have, whether or not they work.
    pub total: u64,
    /// Units that the kubelet or a DRA driver took out of service.
    pub lost: u64,
    /// Allocatable units on nodes that accept no new pods, held or not.
    pub cordoned: u64,
    /// Units that pods hold. `None` when the user cannot list the pods of all namespaces.
    pub used: Option<u64>,
    /// Units that a job can get now: usable, no pod holds them, and their node has CPU and memory
    /// for it. The value is summed over nodes
    /// and cannot be computed from the sums above, because a pod can hold a lost unit.
    free: Option<u64>,
    /// Usable units that no pod holds, on nodes without CPU or memory for a job.
    starved: Option<u64>,
    /// Allocatable units that no pod holds, on nodes that accept no new pods.
    blocked: Option<u64>,
}

impl Count {
    /// Creates the count of units that are all usable.
    pub fn usable_units(total: u64, used: Option<u64>) -> Self {
        Self {
            total,
            used,
            free: used.map(|used| total.saturating_sub(used)),
            starved: used.map(|_| 0),
            blocked: used.map(|_| 0),
            ..Self::default()
        }
    }

    /// Returns the number of units that the kubelet offers to pods.
    pub fn allocatable(self) -> u64 {
        self.total.saturating_sub(self.lost)
    }

    /// Returns the number of allocatable units on nodes that accept new pods.
    pub fn usable(self) -> u64 {
        self.allocatable().saturating_sub(self.cordoned)
    }

    /// Returns the number of units that a job can get now.
    pub fn free(self) -> Option<u64> {
        self.free
    }

    /// Returns the number of units that only a lack of CPU or memory withholds from jobs.
    pub fn starved(self) -> Option<u64> {
        self.starved
    }

    /// Returns the number of usable units that no pod holds, with or without CPU and memory.
    pub(super) fn unheld(self) -> Option<u64> {
        Some(self.free?.saturating_add(self.starved?))
    }

    /// Returns the number of allocatable units that no pod holds and no job can get.
    pub fn stranded(self) -> Option<u64> {
        Some(self.starved?.saturating_add(self.blocked?))
    }

    /// Returns the number of units that only the state of their nodes withholds from jobs.
    pub fn blocked(self) -> Option<u64> {
        self.blocked
    }

    pub(crate) fn add(&mut self, other: Self) {
        let sum = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a.saturating_add(b));
        *self = Self {
            total: self.total.saturating_add(other.total),
            lost: self.lost.saturating_add(other.lost),
            cordoned: self.cordoned.saturating_add(other.cordoned),
            used: sum(self.used, other.used),
            free: sum(self.free, other.free),
            starved: sum(self.starved, other.starved),
            blocked: sum(self.blocked, other.blocked),
        };
    }

    /// Adds units. The kubelet offers `allocatable` of them to pods.
    pub(crate) fn add_capacity(&mut self, capacity: u64, allocatable: u64) {
        let lost = capacity.saturating_sub(allocatable);
        self.total = self.total.saturating_add(capacity);
        self.lost = self.lost.saturating_add(lost);
        self.free = self.free.map(|free| free.saturating_add(allocatable));
    }

    /// Adds units that a pod holds. They reduce the allocatable units, even if the pod holds a lost
    /// one: the scheduler subtracts requests from what the kubelet offers.
    pub(crate) fn hold(&mut self, amount: u64) {
        self.used = self.used.map(|used| used.saturating_add(amount));
        self.free = self.free.map(|free| free.saturating_sub(amount));
    }

    /// Marks the units as those of a node that accepts no new pods.
    pub(crate) fn close(&mut self) {
        self.cordoned = self.allocatable();
        self.blocked = self.free;
        self.free = self.free.map(|_| 0);
    }

    /// Marks the free units as those of a node without CPU or memory for a job.
    pub(crate) fn starve(&mut self) {
        self.starved = self.free;
        self.free = self.free.map(|_| 0);
    }

    /// Adds a device that a DRA driver offers. A lost device can be held.
    pub(crate) fn add_device(&mut self, is_lost: bool, is_held: Option<bool>) {
        self.add(Self {
            total: 1,
            lost: u64::from(is_lost),
            cordoned: 0,
            used: is_held.map(u64::from),
            free: is_held.map(|is_held| u64::from(!is_held && !is_lost)),
            starved: Some(0),
            blocked: Some(0),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_partition_the_capacity() {
        // A node of 8 GPUs: 1 is lost, and pods hold 3 of the other 7.
        let mut open = Count::usable_units(0, Some(0));
        open.add_capacity(8, 7);
        open.hold(3);
        // A cordoned node with 8 GPUs. Pods hold 2 of them.
        let mut closed = Count::usable_units(0, Some(0));
        closed.add_capacity(8, 8);
        closed.hold(2);
        closed.close();
        let mut sum = open;
        sum.add(closed);
        // 16 = 15 allocatable + 1 lost; 15 = 7 usable + 8 cordoned; 7 - 3 = 4 are free; 8 - 2 = 6
        // would be free if the node were not cordoned.
        assert_eq!(
            (sum.total, sum.allocatable(), sum.lost, sum.cordoned),
            (16, 15, 1, 8)
        );
        assert_eq!(
            (sum.usable(), sum.used, sum.free(), sum.blocked()),
            (7, Some(5), Some(4), Some(6))
        );
    }

    #[test]
    fn held_units_of_one_node_do_not_reduce_the_free_units_of_another() {
        // All 8 GPUs of a node are held when 1 of them is lost: 7 - 8 is 0 and not -1.
        let mut full = Count::usable_units(0, Some(0));
        full.add_capacity(8, 7);
        full.hold(8);
        full.add(Count::usable_units(8, Some(0)));
        assert_eq!((full.used, full.free()), (Some(8), Some(8)));
    }

    #[test]
    fn a_lost_device_is_never_free_and_unknown_holders_leave_the_number_unknown() {
        let mut devices = Count::usable_units(0, Some(0));
        for (is_lost, is_held) in [(true, true), (true, false), (false, true), (false, false)] {
            devices.add_device(is_lost, Some(is_held));
        }
        assert_eq!(
            (devices.total, devices.lost, devices.used, devices.free()),
            (4, 2, Some(2), Some(1))
        );
        devices.add_device(false, None);
        devices.close();
        assert_eq!(
            (devices.total, devices.free(), devices.blocked()),
            (5, None, None)
        );
    }

    #[test]
    fn units_without_cpu_or_memory_are_not_free() {
        // Pods hold 3 of 8 GPUs, and the node has no CPU for more: 8 = 3 + 0 + 5.
        let mut node = Count::usable_units(8, Some(3));
        node.starve();
        assert_eq!(
            (node.free(), node.starved(), node.unheld(), node.stranded()),
            (Some(0), Some(5), Some(5), Some(5))
        );
        // A cordoned node with 8 free GPUs strands 8 more.
        let mut closed = Count::usable_units(8, Some(0));
        closed.close();
        node.add(closed);
        assert_eq!(
            (node.usable(), node.free(), node.starved(), node.stranded()),
            (8, Some(0), Some(5), Some(13))
        );
        let mut unknown = Count::usable_units(8, None);
        unknown.starve();
        assert_eq!((unknown.free(), unknown.stranded()), (None, None));
    }
}
