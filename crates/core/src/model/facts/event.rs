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
    /// The kind and name of the object: `Pod/name`, `Job/name`.
    pub object: String,
    pub count: u32,
    /// The resource version as a number, which is higher for later writes. It is 0 if the resource
    /// version is not a number.
    pub version: u64,
}

impl Event {
    /// Orders events by causality. Kubelets report times in whole seconds, and the scheduler in
    /// microseconds. Within one second, events are therefore ordered by their step in the life of a
    /// pod, and then by resource version (comparable numbers, KEP-5504). The step comes first
    /// because controllers report later than the scheduler acts.
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

    /// Returns the step in the life of a pod. Events that can happen at any time come after the
    /// start of the container.
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
