//! What the cluster reported about a job or its pods, and the order in which it happened.

use std::cmp::Ordering;

use jiff::Timestamp;

/// Something that the cluster reported about a job or its pods.
#[derive(Clone, Debug)]
pub struct Event {
    pub at: Option<Timestamp>,
    pub warning: bool,
    pub reason: String,
    pub message: String,
    /// `Pod/name`, `Job/name`.
    pub object: String,
    pub count: u32,
    /// Higher for what the API server heard later; 0 when it says no number.
    pub version: u64,
}

impl Event {
    /// Orders events by what caused what. Kubelets tell whole seconds and the scheduler
    /// microseconds, so within a second the steps of a pod's life count, then the order in which
    /// the API server heard of them (resource versions are comparable numbers, KEP-5504):
    /// controllers report later than the scheduler acts.
    pub fn in_order(a: &Self, b: &Self) -> Ordering {
        let key = |event: &Self| {
            (
                event.at.map(Timestamp::as_second),
                event.step(),
                event.version,
            )
        };
        key(a).cmp(&key(b)).then_with(|| a.message.cmp(&b.message))
    }

    /// Returns how far in the life of a pod this happens. What may happen at any time is beside a
    /// running container.
    fn step(&self) -> usize {
        const STEPS: [&str; 6] = [
            "SuccessfulCreate",
            "Scheduled",
            "Pulling",
            "Pulled",
            "Created",
            "Started",
        ];
        STEPS
            .iter()
            .position(|step| *step == self.reason)
            .unwrap_or(STEPS.len())
    }
}
