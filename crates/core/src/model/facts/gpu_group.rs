//! Pods that share a device in Run:ai and in the KAI scheduler. A pod in a namespace of its own
//! reserves the device, and the pods that use it have the same label.
//!
//! Source: kai-scheduler/KAI-Scheduler, docs/gpu-sharing and pkg/common/constants.

/// Namespaces of the pods that reserve devices: of the KAI scheduler, and of Run:ai and KAI before
/// version 0.6.
const RESERVATIONS: [&str; 2] = ["kai-resource-reservation", "runai-reservation"];

/// Label with the group of pods on one device. For several devices, a slash and the group follow.
const GROUP: &str = "runai-gpu-group";

/// Returns true for a label whose value is the group of a pod.
pub fn is_group(key: &str) -> bool {
    let rest = key.strip_prefix(GROUP);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns true for the namespace of pods that only reserve devices for the pods of their group.
pub fn reserves(namespace: &str) -> bool {
    RESERVATIONS.contains(&namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_one_label_per_device() {
        assert!(is_group("runai-gpu-group") && is_group("runai-gpu-group/b"));
        assert!(!is_group("runai-gpu-groups") && !is_group("app"));
    }
}
