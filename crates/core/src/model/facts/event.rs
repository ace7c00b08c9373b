//! Kubernetes events about a job or its pods, and their causal order.

use std::cmp::Ordering;

use jiff::Timestamp;

/// An event about a job or its pods.
#[derive(Clone, Debug)]
pub struct Event {
    pub at: Option<Timestamp>,
    pub warning: bool,
    pub reason: String,
    pub message: String,
    /// Kind and name of the object, such as `Pod/name` or `Job/name`.
    pub object: String,
    pub count: u32,
    /// The resource version as a number, which is higher for later writes, or 0 if it is not a
    /// number.
    pub version: u64,
}

impl Event {
    /// Orders events by causality. Kubelets report whole seconds, and the scheduler microseconds,
    /// so events within one second are ordered by their step in the life of a pod, and then by
    /// resource version (comparable numbers, KEP-5504). The step takes precedence because
    /// controllers report after the scheduler has acted.
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

    /// Returns an event's step in the life of a pod. Events that can happen at any time count as
    /// the last step.
    fn step(&self) -> usize {
        const STEPS: [&str; 7] = [
            "SuccessfulCreate",
            "FailedScheduling",
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
