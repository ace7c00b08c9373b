//! Failures of requests to the API server.
//!
//! Messages contain no credentials, because they quote neither requests nor the output of plugins.

use thiserror::Error;

use gpuctl_core::model::contract::refusal::RefusalCause;
use gpuctl_core::model::values::excerpt::{SERVER_MESSAGE, excerpt};
use gpuctl_local::bundle::NotInBundle;

use crate::ReadOnly;

#[derive(Clone, Debug, Error)]
pub enum Failure {
    #[error("no cluster is configured")]
    NoKubeconfig,
    #[error("cannot use the kubeconfig")]
    Kubeconfig { cause: String },
    #[error("no credentials for the cluster")]
    Credentials { cause: String, hint: Option<String> },
    #[error("cannot reach the cluster at {server}")]
    Unreachable { server: String, cause: String },
    #[error("the cluster at {server} did not answer within {seconds} s")]
    TimedOut { server: String, seconds: u64 },
    #[error("a response from the cluster at {server} is larger than 64 MiB")]
    TooLarge { server: String },
    #[error("the list `{path}` from the cluster at {server} never ends: {reason}")]
    EndlessList {
        server: String,
        path: String,
        reason: String,
    },
    #[error("{server} is not a Kubernetes API server: {found}")]
    NotKubernetes { server: String, found: String },
    #[error(
        "{object} has a field with a wrong type or an invalid value, at byte {byte} of its JSON"
    )]
    UnreadableObject { object: String, byte: usize },
    #[error("this would change the cluster, but gpuctl is in read-only mode")]
    ReadOnly { by: ReadOnly },
    #[error(transparent)]
    NotInBundle(#[from] NotInBundle),
    #[error("{message}")]
    Api {
        code: u16,
        /// CamelCase reason in the response, such as `AlreadyExists`.
        reason: String,
        message: String,
        /// Continue token that resumes an expired list. The rest of the list is not consistent with
        /// the pages read before.
        resume: Option<String>,
        /// Fields that the API server reports as invalid.
        fields: Vec<Blame>,
        /// Resource that the error is about, such as `namespaces`.
        resource: Box<str>,
    },
}

/// An invalid field of an object, and the problem with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blame {
    pub field: String,
    pub message: String,
}

/// Converts a failure caused by missing permissions to `None`.
pub fn unless_forbidden<T>(answer: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match answer {
        Err(failure) if failure.is_forbidden() => Ok(None),
        other => other.map(Some),
    }
}

impl Failure {
    /// Creates a failure for a conflict that gpuctl detected, like those that the API server
    /// reports.
    pub fn conflict(reason: &str, message: String) -> Self {
        Self::Api {
            code: 409,
            reason: reason.to_owned(),
            message,
            resume: None,
            fields: Vec::new(),
            resource: Box::default(),
        }
    }

    /// Creates the failure for a path with a name that Kubernetes does not accept.
    pub(crate) fn no_path(path: &str) -> Self {
        let message = format!(
            "`{}` contains a name that Kubernetes does not accept",
            excerpt(path, SERVER_MESSAGE)
        );
        Self::Api {
            code: 400,
            reason: "BadRequest".to_owned(),
            message,
            resume: None,
            fields: Vec::new(),
            resource: Box::default(),
        }
    }

    pub fn fields(&self) -> &[Blame] {
        match self {
            Self::Api { fields, .. } => fields,
            _ => &[],
        }
    }

    pub fn reason(&self) -> &str {
        match self {
            Self::Api { reason, .. } => reason,
            _ => "",
        }
    }

    /// Classifies the failure by the API server's message, because some causes have no `reason` of
    /// their own.
    pub fn cause(&self) -> Option<RefusalCause> {
        match self {
            Self::Api { message, .. } => RefusalCause::from_message(message),
            _ => None,
        }
    }

    /// Returns true if the request failed because the namespace does not exist.
    pub fn lacks_namespace(&self) -> bool {
        matches!(self, Self::Api { code: 404, resource, .. } if &**resource == "namespaces")
    }

    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Api { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Returns true if a retry may succeed, for example after a server restart or a network outage.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::TimedOut { .. } => true,
            Self::Api { code, .. } => matches!(code, 429 | 500 | 502..=504),
            _ => false,
        }
    }

    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    pub fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    /// Returns true if a request with a UID failed because another object has the name now.
    /// Deletions and evictions have a UID precondition and fail with 409. A merge patch of
    /// `metadata.uid` counts as a change of an immutable field and fails with 422
    /// (`ValidateObjectMetaAccessorUpdate` in apimachinery).
    pub(crate) fn is_other_uid(&self) -> bool {
        match self.code() {
            Some(409) => self.fields().is_empty(),
            Some(422) => self
                .fields()
                .iter()
                .any(|blame| blame.field == "metadata.uid"),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: u16, fields: &[&str]) -> Failure {
        let blame = |field: &&str| Blame {
            field: (*field).to_owned(),
            message: "Invalid value: \"1\": field is immutable".to_owned(),
        };
        Failure::Api {
            code,
            reason: String::new(),
            message: String::new(),
            resume: None,
            fields: fields.iter().map(blame).collect(),
            resource: Box::default(),
        }
    }

    #[test]
    fn another_uid_is_recognized_in_patches_and_preconditions() {
        assert!(failure(409, &[]).is_other_uid());
        assert!(failure(422, &["metadata.uid"]).is_other_uid());
        // A conflict between field managers lists the fields.
        assert!(!failure(409, &[".spec.replicas"]).is_other_uid());
        assert!(!failure(422, &["spec.replicas"]).is_other_uid());
        assert!(!failure(404, &[]).is_other_uid());
    }
}
