//! Converts failures of API requests into user-facing errors with a name, a cause and a hint.

use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_core::model::contract::refusal::RefusalCause;

use super::failure::Failure;
use super::read_only::ReadOnly;

/// Hint for a cluster that is possibly the wrong one.
const CHOOSE_CONTEXT: &str =
    "`gpuctl get clusters` lists the contexts; `--context NAME` selects one";

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let message = failure.to_string();
        match failure {
            Failure::NoKubeconfig => Self::new(ErrorName::NoCluster, message)
                .hint("set `--kubeconfig` or KUBECONFIG to a file from your cluster's administrator"),
            Failure::Kubeconfig { cause } => {
                let is_about_context = cause.starts_with("context `");
                let error = Self::new(ErrorName::InvalidKubeconfig, message).cause(cause);
                if is_about_context { error.hint(CHOOSE_CONTEXT) } else { error }
            }
            Failure::Credentials { cause, hint } => {
                let error = Self::new(ErrorName::Unauthenticated, message).cause(cause);
                hint.map_or(error.clone(), |hint| error.hint(hint))
            }
            Failure::Unreachable { cause, .. } => Self::new(ErrorName::Unreachable, message)
                .cause(cause)
                .hint("check the network or VPN")
                .hint(CHOOSE_CONTEXT),
            Failure::TimedOut { .. } => {
                Self::new(ErrorName::RequestTimeout, message).hint("try again, or raise `--request-timeout`")
            }
            Failure::TooLarge { .. } => {
                Self::new(ErrorName::AnswerTooLarge, message).hint("limit the request to one namespace: `-n NAMESPACE`")
            }
            Failure::EndlessList { .. } => Self::new(ErrorName::EndlessList, message)
                .hint("limit the request to one namespace (`-n NAMESPACE`); if the server is only slow, raise `--request-timeout`"),
            Failure::NotKubernetes { .. } => Self::new(ErrorName::NotKubernetes, message)
                .hint("a login page or proxy is responding; log in again, or correct `server:` in the kubeconfig"),
            Failure::UnreadableObject { .. } => Self::new(ErrorName::UnreadableObject, message)
                .hint("inspect it with `kubectl get -o yaml`, and fix the program that writes it"),
            Failure::ReadOnly { by } => read_only(message, &by),
            Failure::NotInBundle(_) => Error::not_in_bundle(message),
            Failure::Api { code, reason, message: text, .. } => api(code, &reason, text),
        }
    }
}

/// Builds the error for a change over a read-only connection, with a hint on how to allow changes.
pub fn read_only(message: String, by: &ReadOnly) -> Error {
    let error = Error::new(ErrorName::ReadOnly, message).cause(by.to_string());
    match by {
        ReadOnly::Flag => error.hint("remove `--read-only`"),
        ReadOnly::Environment => error.hint("unset GPUCTL_READ_ONLY"),
        ReadOnly::File => error.hint("to allow changes, run `gpuctl config set safety.read_only false`, or change the setting for this context"),
        ReadOnly::Unclear(_) => error.hint("`gpuctl config view` shows what is wrong"),
    }
}

/// Returns the error name and hint for a rejection by admission control, or `None` for other
/// causes, which are explained elsewhere.
fn admission(cause: RefusalCause) -> Option<(ErrorName, &'static str)> {
    Some(match cause {
        RefusalCause::QuotaExceeded => (
            ErrorName::QuotaExceeded,
            "request less, or delete jobs that use the quota: `gpuctl get jobs`",
        ),
        RefusalCause::QuotaUnset => (
            ErrorName::QuotaExceeded,
            "the quota requires `resources.cpu` and `resources.memory` in every job",
        ),
        RefusalCause::LimitRange => (
            ErrorName::LimitExceeded,
            "a LimitRange in the namespace limits what a job may request",
        ),
        RefusalCause::PodSecurity => (
            ErrorName::PodSecurity,
            "set `security: restricted`, and replace node folders with `size:` or `pvc:`",
        ),
        RefusalCause::WebhookDenied => (ErrorName::WebhookDenied, "a cluster policy rejected it"),
        RefusalCause::PolicyDenied => (ErrorName::PolicyDenied, "a cluster policy rejected it"),
        RefusalCause::WebhookUnreachable => (
            ErrorName::WebhookFailed,
            "an admission webhook in the cluster is unreachable; contact its administrator",
        ),
        RefusalCause::NamespaceTerminating => (
            ErrorName::NamespaceTerminating,
            "the namespace is being deleted; choose another with `-n`",
        ),
        RefusalCause::NoServiceAccount => (
            ErrorName::ServiceAccountNotFound,
            "correct `pod.serviceAccountName`",
        ),
        RefusalCause::NoPriorityClass
        | RefusalCause::NoRightToPods
        | RefusalCause::NoDryRun
        | RefusalCause::NoSuchContainer => {
            return None;
        }
    })
}

/// Converts an error response of the API server. A 403 from RBAC has the reason `Forbidden`, but
/// quotas, webhooks and Pod Security answer 403 too.
fn api(code: u16, reason: &str, message: String) -> Error {
    // Admission webhooks can choose the status code.
    if matches!(code, 400 | 403 | 422 | 500)
        && let Some((name, hint)) = RefusalCause::from_message(&message).and_then(admission)
    {
        return Error::new(name, message).hint(hint);
    }
    let kind = match code {
        401 | 403 => ErrorKind::Access,
        404 => ErrorKind::NotFound,
        429 | 502..=504 => ErrorKind::Unreachable,
        _ => ErrorKind::Request,
    };
    let name = match (code, reason) {
        (401, _) => ErrorName::Unauthenticated,
        (403, "Forbidden") => ErrorName::Forbidden,
        (404, "NotFound") => ErrorName::NotFound,
        (409, "AlreadyExists") => ErrorName::AlreadyExists,
        (_, "") => ErrorName::reported(kind, "RequestFailed"),
        (_, reason) => ErrorName::reported(kind, reason),
    };
    let error = Error::new(name, message);
    match code {
        401 => error.hint("the server rejected the kubeconfig's credentials; log in again"),
        _ => error,
    }
}
