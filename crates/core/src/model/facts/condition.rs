//! Conditions of nodes, and which of them report a fault. The kubelet writes five conditions; every
//! other one comes from a problem detector of a cloud or a vendor, whose names are not known in
//! advance.

use jiff::Timestamp;

/// A condition that the kubelet or a problem detector reports.
#[derive(Clone, Debug, Default)]
pub struct HostCondition {
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    pub reason: String,
    pub message: String,
    pub heartbeat_at: Option<Timestamp>,
    /// When the condition got its current status.
    pub changed_at: Option<Timestamp>,
}

/// The label in which NVSentinel records how far the repair of a node is: `quarantined`,
/// `draining`, `drain-succeeded`, `drain-failed`, `remediating`, `remediation-succeeded` or
/// `remediation-failed` (NVIDIA/NVSentinel, package `statemanager`).
pub const REMEDIATION_LABEL: &str = "dgxc.nvidia.com/nvsentinel-state";

/// Conditions that are true on healthy nodes although their names do not say so. K3s and RKE2 set
/// `EtcdIsVoter` on servers (k3s-io/k3s, pkg/etcd).
const GOOD: [&str; 1] = ["EtcdIsVoter"];

/// Last words of names and reasons that describe a healthy state: `AcceleratedHardwareReady` of
/// EKS, `GPUBurnInPassed`, or the reason `GpuNvlinkWatchIsHealthy` of NVSentinel.
const HEALTH_WORDS: [&str; 26] = [
    "accessible",
    "alive",
    "allocatable",
    "available",
    "configured",
    "consistent",
    "functional",
    "good",
    "healthy",
    "installed",
    "normal",
    "ok",
    "online",
    "operational",
    "passed",
    "present",
    "reachable",
    "ready",
    "responsive",
    "stable",
    "succeeded",
    "sufficient",
    "usable",
    "valid",
    "validated",
    "working",
];

/// Last words that are good news if they are true, but that are also false before something has
/// happened: `DriverUpgradeCompleted`.
const PROGRESS_WORDS: [&str; 29] = [
    "accepted",
    "active",
    "applied",
    "attached",
    "attested",
    "complete",
    "completed",
    "compliant",
    "connected",
    "converged",
    "deployed",
    "done",
    "enabled",
    "finished",
    "initialized",
    "loaded",
    "provisioned",
    "reconciled",
    "registered",
    "running",
    "success",
    "successful",
    "supported",
    "synced",
    "synchronized",
    "up",
    "updated",
    "upgraded",
    "verified",
];

/// Endings of several words with the same meaning. Their last words alone mean nothing, because a
/// clock can be out of sync.
const PROGRESS_ENDINGS: [&[&str]; 2] = [&["in", "sync"], &["up", "to", "date"]];

/// Words that reverse the meaning of a name: `GPUNotReady`, `KernelHasNoDeadlock`.
const NEGATIONS: [&str; 4] = ["no", "non", "not", "without"];

impl HostCondition {
    /// Returns the fault that the condition reports, or `None` if it reports none.
    ///
    /// Node-problem-detector and most vendors report a fault as a condition that is true, for
    /// example `KernelDeadlock` or `GpuXidError`. Others report it as a condition with a good name
    /// that is false, for example `AcceleratedHardwareReady` of EKS. A true condition whose name
    /// is not known to be good is a fault, unless its reason denies that.
    pub fn fault(&self) -> Option<String> {
        let kind = self.kind.as_str();
        match (self.status.as_str(), describes_health(kind)) {
            ("True", Some(true)) => None,
            ("True", _) if GOOD.contains(&kind) => None,
            // A name such as `GpuHealthCheck` says nothing, but the reason `GpuCheckPassed` does.
            ("True", None) if describes_health(&self.reason) == Some(true) => None,
            ("True", _) => Some(self.kind.clone()),
            // The node controller sets `Unknown` when the kubelet stops reporting its status.
            ("False" | "Unknown", _) if kind == "Ready" => Some("NotReady".to_owned()),
            ("False", Some(true)) if !describes_progress(kind) => Some(format!("not {kind}")),
            _ => None,
        }
    }
}

/// Returns whether a name describes a healthy state (`GPUHealthy`, `HasNoIssues`) or an unhealthy
/// one (`GPUNotReady`). `None` if its words do not say, as in `XIDErrors`.
fn describes_health(name: &str) -> Option<bool> {
    let words = words(name);
    let is_negated = words.iter().any(|word| NEGATIONS.contains(&word.as_str()));
    match words.last() {
        Some(last) if HEALTH_WORDS.contains(&last.as_str()) || describes_progress(name) => {
            Some(!is_negated)
        }
        Some(_) if is_negated => Some(true),
        _ => None,
    }
}

fn describes_progress(name: &str) -> bool {
    let words = words(name);
    let ends_with = |ending: &&[&str]| {
        let last = words.iter().rev().map(String::as_str);
        ending.iter().rev().copied().eq(last.take(ending.len()))
    };
    words
        .last()
        .is_some_and(|last| PROGRESS_WORDS.contains(&last.as_str()))
        || PROGRESS_ENDINGS.iter().any(ends_with)
}

/// Splits a key or a CamelCase name into lower-case words: `GPUHealthy` becomes `gpu` and
/// `healthy`. Comparing whole words prevents false matches, such as `fault` in `default`.
pub(super) fn words(text: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let letters: Vec<char> = text.chars().collect();
    for (place, letter) in letters.iter().enumerate() {
        let before = place.checked_sub(1).map(|place| letters[place]);
        let next_is_lower = letters.get(place + 1).is_some_and(char::is_ascii_lowercase);
        // A capital starts a word if it follows a lower-case letter, or if a lower-case letter
        // follows it, as with the `H` in `GPUHealthy`.
        let begins = letter.is_ascii_uppercase()
            && before.is_some_and(|before| !before.is_ascii_uppercase() || next_is_lower);
        if (begins || !letter.is_ascii_alphanumeric()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if letter.is_ascii_alphanumeric() {
            word.push(letter.to_ascii_lowercase());
        }
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(kind: &str, status: &str, reason: &str) -> Option<String> {
        let condition = HostCondition {
            kind: kind.into(),
            status: status.into(),
            reason: reason.into(),
            ..HostCondition::default()
        };
        condition.fault()
    }

    #[test]
    fn true_conditions_of_problem_detectors_are_faults() {
        // The names come from the documentation of Kubernetes, node-problem-detector, AKS, ACK,
        // OKE, Nebius and NVSentinel.
        let faults = [
            "MemoryPressure",
            "DiskPressure",
            "PIDPressure",
            "NetworkUnavailable",
            "KernelDeadlock",
            "ReadonlyFilesystem",
            "FrequentContainerdRestart",
            "FilesystemCorruptionProblem",
            "VMEventScheduled",
            "GPUMissing",
            "XIDErrors",
            "NVLinkStatusInactive",
            "NVLinkB200Inactive",
            "IBLinkFlapping",
            "GPUECCErrors",
            "UnhealthyNvidiaDevicePlugin",
            "NvidiaXid79Error",
            "GpuCount",
            "GpuNvlinkWatch",
            "SysLogsXIDError",
            "NVSwitchFatalError",
            "NVLinkError",
            "NVSwitchDown",
            "InfiniBandStateCheck",
            "CSPMaintenance",
            "AMDGPUUnhealthy",
            "FabricManagerDown",
            "GPUNotReady",
            "GPUUnavailable",
            "ClockOutOfSync",
            "DriverOutOfDate",
            "PowerOverCurrent",
            "NetworkUnreachable",
        ];
        for kind in faults {
            assert_eq!(fault(kind, "True", "").as_deref(), Some(kind));
            assert_eq!(fault(kind, "False", ""), None, "{kind}");
            assert_eq!(fault(kind, "Unknown", ""), None, "{kind}");
        }
    }

    #[test]
    fn conditions_with_a_good_name_are_faults_only_when_they_are_false() {
        let good = [
            "AcceleratedHardwareReady",
            "KernelReady",
            "StorageReady",
            "GPUHealthy",
            "NVLinkHealthy",
            "GPUBurnInPassed",
            "GPUOperatorValidated",
            "GPUDevicesAllocatable",
            "GpuDriverInstalled",
            "GpuSelfTestSucceeded",
            "RdmaAvailable",
            "GpuFabricReachable",
        ];
        for kind in good {
            assert_eq!(fault(kind, "True", ""), None, "{kind}");
            assert_eq!(fault(kind, "False", ""), Some(format!("not {kind}")));
            assert_eq!(fault(kind, "Unknown", ""), None, "{kind}");
        }
        for status in ["False", "Unknown"] {
            assert_eq!(fault("Ready", status, "").as_deref(), Some("NotReady"));
        }
        assert_eq!(fault("Ready", "True", "KubeletReady"), None);
        for kind in ["EtcdIsVoter", "NoXidErrors", "GpuHasNoIssues"] {
            assert_eq!(fault(kind, "True", ""), None, "{kind}");
        }
        assert_eq!(fault("EtcdIsVoter", "False", ""), None);
        // Something that has not happened yet is no fault.
        for status in ["True", "False", "Unknown"] {
            for kind in [
                "DriverUpgradeCompleted",
                "SriovConfigSynced",
                "GpuDriverUpToDate",
                "FirmwareInSync",
                "GpuSetupComplete",
                "GpuBurnInSuccessful",
            ] {
                assert_eq!(fault(kind, status, ""), None, "{kind} {status}");
            }
        }
    }

    #[test]
    fn the_reason_decides_if_the_name_says_nothing() {
        for reason in ["GpuCheckPassed", "GpuCountHasNoIssues", "GpuIsHealthy"] {
            assert_eq!(fault("GpuHealthCheck", "True", reason), None, "{reason}");
        }
        for reason in ["GpuCheckFailed", "GpuIsNotHealthy", "Unknown", ""] {
            let kind = fault("GpuHealthCheck", "True", reason);
            assert_eq!(kind.as_deref(), Some("GpuHealthCheck"), "{reason}");
        }
        // A name that is bad by itself needs no confirmation.
        let kind = fault("GPUNotReady", "True", "GpuIsHealthy");
        assert_eq!(kind.as_deref(), Some("GPUNotReady"));
    }

    #[test]
    fn names_are_split_into_words() {
        assert_eq!(
            words("nvidia.com/GPUXidErrors-now2"),
            ["nvidia", "com", "gpu", "xid", "errors", "now2"]
        );
    }
}
