//! Recognizes causes that Kubernetes, container runtimes and `tar` report only as text.
//!
//! All other decisions in gpuctl are independent of other programs' wording. Where the API has a
//! code, a reason or a field, gpuctl uses that. If one of these texts changes, gpuctl reports the
//! general error.

/// Cause of a rejected request, recognized from the API server's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCause {
    QuotaExceeded,
    /// A quota limits a resource, but the object sets no amount of it.
    QuotaUnset,
    LimitRange,
    PodSecurity,
    WebhookDenied,
    PolicyDenied,
    WebhookUnreachable,
    NamespaceTerminating,
    NoServiceAccount,
    NoPriorityClass,
    /// The user may create the object but not its pods.
    NoRightToPods,
    /// A webhook has side effects and does not support dry runs.
    NoDryRun,
    NoSuchContainer,
}

/// Parts of error messages and the causes that they indicate. The status code is not enough:
/// quotas, Pod Security and webhooks all respond with 403, and a webhook may choose any code.
const REFUSALS: [(&str, RefusalCause); 17] = [
    // Webhooks and policies come first, because the text that follows is their author's and may
    // contain any of the other texts.
    ("\" denied the request", RefusalCause::WebhookDenied),
    (
        "is forbidden: ValidatingAdmissionPolicy '",
        RefusalCause::PolicyDenied,
    ),
    // k8s.io/apiserver, plugin/resourcequota/controller.go.
    ("exceeded quota", RefusalCause::QuotaExceeded),
    ("failed quota", RefusalCause::QuotaUnset),
    // Kubernetes before 1.16.
    ("Failed quota", RefusalCause::QuotaUnset),
    // kubernetes, plugin/pkg/admission/limitranger: "maximum cpu usage per Container is …".
    ("usage per", RefusalCause::LimitRange),
    ("limit to request ratio per", RefusalCause::LimitRange),
    // k8s.io/pod-security-admission, admission/admission.go.
    ("violates PodSecurity", RefusalCause::PodSecurity),
    // k8s.io/apiserver, plugin/webhook/errors/statuserror.go.
    ("does not support dry run", RefusalCause::NoDryRun),
    ("admission webhook", RefusalCause::WebhookDenied),
    // k8s.io/apiserver, plugin/policy/validating.
    ("ValidatingAdmissionPolicy", RefusalCause::PolicyDenied),
    // k8s.io/apiserver, plugin/webhook: the webhook is down and has failure policy `Fail`.
    ("failed calling webhook", RefusalCause::WebhookUnreachable),
    // k8s.io/apiserver, plugin/namespace/lifecycle.
    ("being terminated", RefusalCause::NamespaceTerminating),
    // kubernetes, plugin/pkg/admission/serviceaccount.
    (
        "error looking up service account",
        RefusalCause::NoServiceAccount,
    ),
    // kubernetes, plugin/pkg/admission/priority.
    ("no PriorityClass", RefusalCause::NoPriorityClass),
    // k8s.io/apiserver, pkg/endpoints/handlers/responsewriters/errors.go.
    (
        "cannot create resource \"pods\"",
        RefusalCause::NoRightToPods,
    ),
    // kubernetes, pkg/registry/core/pod/strategy.go: "container x is not valid for pod y". Its
    // status, 400, also occurs for a container that has not started yet.
    ("is not valid for pod", RefusalCause::NoSuchContainer),
];

impl RefusalCause {
    /// Recognizes the cause in a message from the API server. The first match in the table wins.
    pub fn from_message(message: &str) -> Option<Self> {
        REFUSALS
            .iter()
            .find(|(words, _)| message.contains(words))
            .map(|(_, cause)| *cause)
    }
}

/// Returns true if a message reports that another pod uses a volume on another node, or
/// exclusively.
pub fn is_volume_in_use(message: &str) -> bool {
    let words = [
        // kubernetes, pkg/controller/volume/attachdetach/reconciler: FailedAttachVolume.
        "Multi-Attach error",
        // kubernetes, pkg/scheduler/framework/plugins/volumerestrictions.
        "same name and ReadWriteOncePod access mode",
    ];
    words.iter().any(|words| message.contains(words))
}

/// An error of a container runtime, or of `tar` in a container, recognized from its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerComplaint {
    /// The image does not contain the program. Reported by runc and crun.
    NoProgram,
    /// The file or directory does not exist or cannot be entered. Reported by GNU tar and BusyBox
    /// tar.
    NoFile,
    /// A file changed while `tar` read it. GNU tar archives the file anyway and exits with 1.
    Changed,
}

impl ContainerComplaint {
    /// Recognizes why a container runtime did not start a command.
    pub fn from_runtime_message(message: &str) -> Option<Self> {
        let words = ["executable file not found", "no such file"];
        words
            .iter()
            .any(|words| message.contains(words))
            .then_some(Self::NoProgram)
    }

    /// Recognizes the cause of an error in the output of `tar`.
    pub fn from_tar_output(output: &str) -> Option<Self> {
        let missing = ["No such file", "can't open", "can't change"];
        if missing.iter().any(|words| output.contains(words)) {
            return Some(Self::NoFile);
        }
        output
            .contains("changed as we read it")
            .then_some(Self::Changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_causes_are_recognized_in_server_messages() {
        for (message, cause) in [
            (
                "pods \"x\" is forbidden: exceeded quota: team, requested: requests.nvidia.com/gpu=9",
                RefusalCause::QuotaExceeded,
            ),
            (
                "pods \"x\" is forbidden: failed quota: team: must specify cpu for: main",
                RefusalCause::QuotaUnset,
            ),
            (
                "pods \"x\" is forbidden: maximum cpu usage per Container is 4, but limit is 8",
                RefusalCause::LimitRange,
            ),
            (
                "pods \"x\" is forbidden: violates PodSecurity \"baseline:latest\": hostPath volumes",
                RefusalCause::PodSecurity,
            ),
            (
                "admission webhook \"a.example.com\" denied the request: no",
                RefusalCause::WebhookDenied,
            ),
            (
                "admission webhook \"a.example.com\" denied the request: exceeded quota of the team",
                RefusalCause::WebhookDenied,
            ),
            (
                "pods \"x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied \
                 request: usage per team is violated",
                RefusalCause::PolicyDenied,
            ),
            (
                "pods \"x\" is forbidden: cpu max limit to request ratio per Container is 1, but \
                 provided ratio is 2.000000",
                RefusalCause::LimitRange,
            ),
            (
                "admission webhook \"a.example.com\" does not support dry run",
                RefusalCause::NoDryRun,
            ),
            (
                "pods \"x\" is forbidden: no PriorityClass with name high was found",
                RefusalCause::NoPriorityClass,
            ),
            (
                "container nope is not valid for pod x-0",
                RefusalCause::NoSuchContainer,
            ),
        ] {
            assert_eq!(
                RefusalCause::from_message(message),
                Some(cause),
                "{message}"
            );
        }
        assert_eq!(
            RefusalCause::from_message("container main in pod x-0 is waiting to start"),
            None
        );
    }

    #[test]
    fn volumes_in_use_are_recognized() {
        assert!(is_volume_in_use(
            "FailedAttachVolume: Multi-Attach error for volume \"pvc-1\" Volume is already used \
             by pod(s) a-0"
        ));
        assert!(is_volume_in_use(
            "0/3 nodes are available: 3 node has pod using PersistentVolumeClaim with the same \
             name and ReadWriteOncePod access mode."
        ));
        assert!(!is_volume_in_use(
            "0/3 nodes are available: 3 Insufficient cpu."
        ));
    }

    #[test]
    fn messages_of_runtimes_and_tar_are_classified() {
        let runtime = "exec: \"bash\": executable file not found in $PATH: unknown";
        assert_eq!(
            ContainerComplaint::from_runtime_message(runtime),
            Some(ContainerComplaint::NoProgram)
        );
        assert_eq!(
            ContainerComplaint::from_tar_output("tar: x: Cannot stat: No such file or directory"),
            Some(ContainerComplaint::NoFile)
        );
        assert_eq!(
            ContainerComplaint::from_tar_output("tar: x: file changed as we read it"),
            Some(ContainerComplaint::Changed)
        );
        assert_eq!(
            ContainerComplaint::from_tar_output("tar: x: Permission denied"),
            None
        );
    }
}
