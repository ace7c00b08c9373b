//! The fault that a node reports in its conditions, with the time at which it began.

use jiff::Timestamp;

use super::condition::HostCondition;

/// A fault that a node or its node controller reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFault {
    /// Type of the condition: `Ready`, or one of a problem detector.
    pub condition: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    pub reason: String,
    pub message: String,
    pub since: Option<Timestamp>,
}

impl NodeFault {
    /// Returns the most serious fault: of `Ready` if the node is not ready, or else the first one.
    pub fn of_conditions(conditions: &[HostCondition]) -> Option<Self> {
        let faults = || conditions.iter().filter(|one| one.fault().is_some());
        let condition = faults()
            .find(|condition| condition.kind == "Ready")
            .or_else(|| faults().next())?;
        Some(Self {
            condition: condition.kind.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            since: condition.changed_at,
        })
    }

    /// Returns true if the kubelet no longer reports its status. The node controller then sets
    /// `Ready` to `Unknown`.
    pub fn is_silence(&self) -> bool {
        self.condition == "Ready" && self.status == "Unknown"
    }

    /// Returns true if the node is not ready, silent or not.
    pub fn is_unready(&self) -> bool {
        self.condition == "Ready"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(kind: &str, status: &str) -> HostCondition {
        HostCondition {
            kind: kind.into(),
            status: status.into(),
            ..HostCondition::default()
        }
    }

    #[test]
    fn an_unready_node_is_the_most_serious_fault() {
        let fault = |conditions: &[HostCondition]| NodeFault::of_conditions(conditions);
        let unready = fault(&[
            condition("DiskPressure", "True"),
            condition("Ready", "False"),
        ]);
        let unready = unready.unwrap();
        assert!(unready.is_unready() && !unready.is_silence());
        assert!(
            fault(&[condition("Ready", "Unknown")])
                .unwrap()
                .is_silence()
        );
        // The node controller sets all conditions of the kubelet to `Unknown`.
        let conditions = [
            condition("DiskPressure", "Unknown"),
            condition("Ready", "Unknown"),
        ];
        assert!(fault(&conditions).unwrap().is_silence());
        let pressure = fault(&[condition("Ready", "True"), condition("GPUMissing", "True")]);
        assert_eq!(pressure.unwrap().condition, "GPUMissing");
        assert_eq!(fault(&[condition("Ready", "True")]), None);
        assert_eq!(fault(&[]), None);
    }
}
