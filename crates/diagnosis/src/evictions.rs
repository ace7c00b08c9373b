//! Classifies evictions by the kubelet: what the node ran out of, or which limit the pod exceeded.

use super::answer::Cause;
use super::facts::Facts;
use super::pod_texts::ended_other;
use gpuctl_core::model::Pod;
use gpuctl_core::model::facts::state::pod_name;

/// Why a kubelet evicts a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Eviction {
    Memory,
    Disk,
    Inodes,
    Pids,
    /// The limit of a container or of the pod for ephemeral storage.
    StorageLimit,
    /// The size limit of an emptyDir.
    VolumeLimit,
}

/// Names of resources and node conditions in the kubelet's messages. The first forms are those of
/// kubernetes 1.36, pkg/kubelet/eviction/helpers.go, and the last ones those of older versions.
const RESOURCES: [(&str, Eviction); 14] = [
    ("memory", Eviction::Memory),
    ("MemoryPressure", Eviction::Memory),
    ("allocatableMemory", Eviction::Memory),
    ("ephemeral-storage", Eviction::Disk),
    ("DiskPressure", Eviction::Disk),
    ("nodefs", Eviction::Disk),
    ("imagefs", Eviction::Disk),
    ("containerfs", Eviction::Disk),
    ("inodes", Eviction::Inodes),
    ("nodefsInodes", Eviction::Inodes),
    ("imagefsInodes", Eviction::Inodes),
    ("pids", Eviction::Pids),
    ("pid", Eviction::Pids),
    ("PIDPressure", Eviction::Pids),
];

impl Eviction {
    /// Parses the kubelet's message. `None` for a message of an unknown form.
    pub(super) fn parse(message: &str) -> Option<Self> {
        let message = message
            .strip_prefix("Pod was rejected: ")
            .unwrap_or(message);
        let named = message
            .strip_prefix("The node was low on resource: ")
            .or_else(|| message.strip_prefix("The node had condition: "));
        if let Some(rest) = named {
            // Names of containers may follow.
            let names = rest.split('.').next().unwrap_or(rest);
            let name = names
                .trim_matches(['[', ']', ' '])
                .split([',', ' '])
                .next()?;
            return RESOURCES
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, kind)| *kind);
        }
        let is_container = message.starts_with("Container ")
            && message.contains(" exceeded its local ephemeral storage limit ");
        let is_pod =
            message.starts_with("Pod ephemeral local storage usage exceeds the total limit");
        let is_volume = message.starts_with("Usage of EmptyDir volume ")
            && message.contains(" exceeds the limit ");
        match () {
            () if is_container || is_pod => Some(Self::StorageLimit),
            () if is_volume => Some(Self::VolumeLimit),
            () => None,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Memory => "evicted-memory",
            Self::Disk | Self::Inodes | Self::StorageLimit | Self::VolumeLimit => "evicted-disk",
            Self::Pids => "evicted-pids",
        }
    }

    /// What the node or the pod lacked, as a clause.
    fn reason(self) -> &'static str {
        match self {
            Self::Memory => "which ran low on memory",
            Self::Disk => "which ran low on disk space",
            Self::Inodes => "which ran low on inodes: too many files",
            Self::Pids => "which ran low on process IDs",
            Self::StorageLimit => "because it used more disk space than its limit",
            Self::VolumeLimit => "because a volume used more space than its limit",
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Self::Memory => "request the memory that it uses, so that the scheduler reserves it",
            Self::Disk => "write to a volume instead",
            Self::Inodes => "write fewer files to the node's disk, or write to a volume instead",
            Self::Pids => "start fewer processes and threads, such as data loader workers",
            Self::StorageLimit => "raise its limit, or write to a volume instead",
            Self::VolumeLimit => "raise the limit of the volume, or write less to it",
        }
    }

    /// The field of a gpuctl file and the one of a pod that the advice is about.
    fn fields(self) -> (&'static str, &'static str) {
        match self {
            Self::Memory => ("resources.memory", "pod.spec.containers.resources"),
            Self::Disk | Self::Inodes | Self::StorageLimit => {
                ("storage.workdirs", "pod.spec.containers.resources")
            }
            Self::Pids => ("resources.cpu", "pod.spec.containers.resources"),
            Self::VolumeLimit => ("resources.shm", "pod.spec.volumes.emptyDir"),
        }
    }
}

/// Builds the cause for an eviction, classified by the kubelet's message.
pub(super) fn evicted(facts: &Facts<'_>, pod: &Pod, message: &str, source: &'static str) -> Cause {
    let Some(kind) = Eviction::parse(message) else {
        let text = format!("{}: {message}", headline(pod));
        return ended_other(facts, pod, &text, source);
    };
    let cause = classified(pod, kind, message, source);
    let (field, pod_field) = kind.fields();
    let command = match (kind, facts.subject.is_managed) {
        (Eviction::Pids, _) => pod
            .node
            .as_ref()
            .map(|node| format!("gpuctl describe node {node}")),
        (_, true) => Some(format!("gpuctl explain {field}")),
        (_, false) => Some(format!("kubectl explain {pod_field}")),
    };
    cause.helps(kind.advice(), command)
}

/// Builds the cause for an eviction of a deleted pod. `None` for a message of an unknown form.
pub(super) fn past_eviction(pod: &Pod, message: &str) -> Option<Cause> {
    Some(classified(
        pod,
        Eviction::parse(message)?,
        message,
        "events",
    ))
}

fn classified(pod: &Pod, kind: Eviction, message: &str, source: &'static str) -> Cause {
    let text = format!("{}, {}: {message}", headline(pod), kind.reason());
    Cause::new(kind.word(), text, source)
}

fn headline(pod: &Pod) -> String {
    let place = pod
        .node
        .as_ref()
        .map_or(String::new(), |node| format!(" {node}"));
    format!("{} was evicted by its node{place}", pod_name(pod))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_kubelets_name_the_resource() {
        let kind = |message: &str| Eviction::parse(message);
        let low = "The node was low on resource: ";
        assert_eq!(
            kind(&format!(
                "{low}memory. Threshold quantity: 100Mi, available: 20Mi. Container pids was using 9Gi."
            )),
            Some(Eviction::Memory)
        );
        assert_eq!(
            kind(&format!(
                "{low}ephemeral-storage. Container memory-hog was using 28Ki, request is 0."
            )),
            Some(Eviction::Disk)
        );
        assert_eq!(
            kind(&format!("{low}inodes. Threshold quantity: 5.")),
            Some(Eviction::Inodes)
        );
        assert_eq!(
            kind(&format!("{low}pids. Threshold quantity: 1k.")),
            Some(Eviction::Pids)
        );
        assert_eq!(
            kind(&format!("{low}[DiskPressure]. ")),
            Some(Eviction::Disk)
        );
        assert_eq!(
            kind("The node had condition: [PIDPressure]. "),
            Some(Eviction::Pids)
        );
        assert_eq!(
            kind("Pod was rejected: The node had condition: [MemoryPressure]. "),
            Some(Eviction::Memory)
        );
        assert_eq!(
            kind("Container main exceeded its local ephemeral storage limit \"1Gi\". "),
            Some(Eviction::StorageLimit)
        );
        assert_eq!(
            kind("Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. "),
            Some(Eviction::StorageLimit)
        );
        assert_eq!(
            kind("Usage of EmptyDir volume \"dshm\" exceeds the limit \"16Gi\". "),
            Some(Eviction::VolumeLimit)
        );
        assert_eq!(kind(&format!("{low}hugepages. ")), None);
        assert_eq!(kind("memory and disk are fine, but the pod must go"), None);
    }
}
