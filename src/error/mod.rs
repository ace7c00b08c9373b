//! Every failure as one value: kind, name, message, causes and hints. The kind alone decides the exit code.

mod name;

pub(crate) use name::ErrorName;

use crate::model::excerpt::{ERROR_PART, shortened};
use crate::model::refusal::RefusalCause;
use std::fmt;

use crate::cluster::{Failure, ReadOnly};
use crate::prometheus::QueryError;
use crate::render::Refusal;
use crate::spec::{Problem, Problems};

/// What went wrong in general. Each kind is one exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    Request,
    Usage,
    Specification,
    NotFound,
    Access,
    Unreachable,
    Timeout,
    Interrupted,
}

impl ErrorKind {
    pub(crate) const ALL: [Self; 8] = [
        Self::Request,
        Self::Usage,
        Self::Specification,
        Self::NotFound,
        Self::Access,
        Self::Unreachable,
        Self::Timeout,
        Self::Interrupted,
    ];

    #[must_use]
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Request => 1,
            Self::Usage => 2,
            Self::Specification => 3,
            Self::NotFound => 4,
            Self::Access => 5,
            Self::Unreachable => 6,
            Self::Timeout => 7,
            Self::Interrupted => 130,
        }
    }

    /// Returns the word in JSON.
    #[must_use]
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Usage => "usage",
            Self::Specification => "specification",
            Self::NotFound => "not_found",
            Self::Access => "access",
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::Interrupted => "interrupted",
        }
    }

    /// Returns one sentence for the manual.
    #[must_use]
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Self::Request => "the request failed, or part of a batch did",
            Self::Usage => "wrong usage of the command line",
            Self::Specification => "the specification file is invalid",
            Self::NotFound => "what was asked for does not exist",
            Self::Access => "forbidden or not authenticated",
            Self::Unreachable => "the cluster or Prometheus cannot be reached, or a bundle does not hold the answer",
            Self::Timeout => "timed out while waiting",
            Self::Interrupted => "interrupted",
        }
    }
}

/// A failure as the user meets it.
#[derive(Clone, Debug)]
pub(crate) struct Error {
    pub kind: ErrorKind,
    pub name: ErrorName,
    /// Lower-case fragment without a final period.
    pub message: String,
    pub causes: Vec<String>,
    pub hints: Vec<String>,
    /// Problems of a file; then the message counts them.
    pub problems: Option<Box<Problems>>,
}

impl Error {
    pub(crate) fn new(name: ErrorName, message: impl fmt::Display) -> Self {
        let message = shortened(message.to_string(), ERROR_PART);
        Self { kind: name.kind(), name, message, causes: Vec::new(), hints: Vec::new(), problems: None }
    }

    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(ErrorName::Usage, message)
    }

    /// Returns true when a right is missing, and not a login.
    #[must_use]
    pub(crate) fn is_forbidden(&self) -> bool {
        self.name == ErrorName::Forbidden
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hints.push(shortened(hint.to_string(), ERROR_PART));
        self
    }

    #[must_use]
    pub(crate) fn cause(mut self, cause: impl fmt::Display) -> Self {
        self.causes.push(shortened(cause.to_string(), ERROR_PART));
        self
    }

    /// Says what was being done when it failed.
    #[must_use]
    pub(crate) fn during(mut self, what: impl Into<String>) -> Self {
        let message = std::mem::replace(&mut self.message, what.into());
        self.causes.insert(0, message);
        self
    }

    /// Returns a refusal of the renderer, at its place in the file.
    #[must_use]
    pub(crate) fn refused(refusal: Refusal, file: &str, text: &str) -> Self {
        let Refusal { name, message, hints, at } = refusal;
        let error = Self { hints, ..Self::new(ErrorName::reported(ErrorKind::Specification, name), message) };
        let Some(at) = at else { return error };
        let problem = Problem::error(at, error.message.clone(), error.hints.join("; "));
        let problems = Problems { file: file.to_owned(), text: text.to_owned(), list: vec![problem] };
        Self { name: ErrorName::reported(ErrorKind::Specification, name), hints: Vec::new(), ..Self::from(problems) }
    }
}

impl Error {
    /// Makes the error for fields of a file that exceed what is allowed here.
    pub(crate) fn over_limits(problems: Problems) -> Self {
        let name = ErrorName::LimitExceeded;
        Self { kind: name.kind(), name, ..Self::from(problems) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.causes.iter().try_for_each(|cause| write!(f, ": {cause}"))
    }
}

impl std::error::Error for Error {}

impl From<Problems> for Error {
    fn from(problems: Problems) -> Self {
        let message = problems.to_string();
        Self { problems: Some(Box::new(problems)), ..Self::new(ErrorName::InvalidSpecification, message) }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let message = failure.to_string();
        match failure {
            Failure::NoKubeconfig => Self::new(ErrorName::NoCluster, message)
                .hint("point `--kubeconfig` or KUBECONFIG at a file from your cluster's administrator"),
            Failure::Kubeconfig { cause } => Self::new(ErrorName::InvalidKubeconfig, message).cause(cause),
            Failure::Credentials { cause, hint } => {
                let error = Self::new(ErrorName::Unauthenticated, message).cause(cause);
                hint.map_or(error.clone(), |hint| error.hint(hint))
            }
            Failure::Unreachable { cause, .. } => Self::new(ErrorName::Unreachable, message)
                .cause(cause)
                .hint("check the network or VPN, and `kubectl config current-context`"),
            Failure::TimedOut { .. } => {
                Self::new(ErrorName::RequestTimeout, message).hint("try again, or raise `--request-timeout`")
            }
            Failure::TooLarge { .. } => {
                Self::new(ErrorName::AnswerTooLarge, message).hint("ask for one namespace: `-n NAMESPACE`")
            }
            Failure::EndlessList { .. } => Self::new(ErrorName::EndlessList, message)
                .hint("ask for one namespace (`-n NAMESPACE`); a slow but honest server needs a longer `--request-timeout`"),
            Failure::NotKubernetes { .. } => Self::new(ErrorName::NotKubernetes, message)
                .hint("a login page or proxy answers there; log in again or correct `server:` in the kubeconfig"),
            Failure::UnreadableObject { .. } => Self::new(ErrorName::UnreadableObject, message)
                .hint("read it with `kubectl get -o yaml`, and have the program that writes it corrected"),
            Failure::ReadOnly { by } => read_only(message, &by),
            Failure::NotInBundle(_) => not_in_bundle(message),
            Failure::Api { code, reason, message: told, .. } => api(code, &reason, told),
        }
    }
}

/// Says what would lift a refusal.
pub(crate) fn read_only(message: String, by: &ReadOnly) -> Error {
    let error = Error::new(ErrorName::ReadOnly, message).cause(by.to_string());
    match by {
        ReadOnly::Flag => error.hint("omit `--read-only`; `--dry-run` shows what would be done"),
        ReadOnly::Environment => error.hint("unset GPUCTL_READ_ONLY; `--dry-run` shows what would be done"),
        ReadOnly::File => error.hint("`gpuctl config set safety.read_only false`, or its line for this context, allows changes"),
        ReadOnly::Unclear(_) => error.hint("`gpuctl config view` shows what is wrong"),
    }
}

fn not_in_bundle(message: String) -> Error {
    Error::new(ErrorName::NotInBundle, message)
        .hint("a bundle holds what lists, `why`, `doctor` and histories ask for with their usual windows; ask the cluster itself for the rest")
}

impl From<QueryError> for Error {
    fn from(trouble: QueryError) -> Self {
        let message = trouble.to_string();
        let new = |name| Self::new(name, message);
        match trouble {
            QueryError::NotFound => new(ErrorName::PrometheusNotFound)
                .hint("set `--prometheus URL` or GPUCTL_PROMETHEUS; `--prometheus none` disables metrics"),
            QueryError::NotInBundle(missing) => not_in_bundle(missing.to_string()),
            QueryError::BadAddress { cause, .. } => new(ErrorName::InvalidPrometheus).cause(cause),
            QueryError::TokenCommand { cause } => new(ErrorName::PrometheusForbidden).cause(cause),
            QueryError::AwsKeys { cause } => new(ErrorName::PrometheusForbidden)
                .cause(cause)
                .hint("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or log in so that the command `aws` has credentials"),
            QueryError::Unreachable { cause, .. } if cause.contains("CertificateRequired") => new(ErrorName::PrometheusUnreachable)
                .cause(cause)
                .hint("it wants a certificate of yours: set `prometheus.cert_file` and `prometheus.key_file` in the config file"),
            QueryError::Unreachable { cause, .. } => new(ErrorName::PrometheusUnreachable)
                .cause(cause)
                .hint("set another address with `--prometheus URL`; `-v` prints where it was found"),
            QueryError::TimedOut { .. } => {
                new(ErrorName::PrometheusTimeout).hint("try again, raise `--request-timeout`, or ask for less time")
            }
            QueryError::NotPrometheus { .. } => new(ErrorName::NotPrometheus)
                .hint("a login page or another program answers there; correct `--prometheus URL`, or log in with `--prometheus-header`"),
            QueryError::Redirected { to, .. } => new(ErrorName::PrometheusRedirect)
                .cause(format!("credentials are not sent to {to}"))
                .hint("use the target of the redirect: `--prometheus URL`"),
            QueryError::Forbidden { told, .. } => new(ErrorName::PrometheusForbidden).cause(told).hint(
                "reach it with `--prometheus URL` and `--prometheus-token-file FILE`, or ask for `get services/proxy` in its namespace",
            ),
            QueryError::Refused { told, .. } if told.contains("__name__") => new(ErrorName::PrometheusRefused)
                .hint("a store that takes no patterns of names of metrics needs `prometheus.exact_names: true` in the config file"),
            QueryError::Refused { kind, .. } => match kind.as_str() {
                "timeout" | "canceled" | "unavailable" => {
                    new(ErrorName::PrometheusTimeout).hint("try again, or ask for less time or a larger `--step`")
                }
                _ => new(ErrorName::PrometheusRefused).hint("ask for less time or a larger `--step`"),
            },
        }
    }
}

/// Returns the name of a refusal by whoever admits objects, and what to do about it; `None` for what is explained elsewhere.
fn admission(cause: RefusalCause) -> Option<(ErrorName, &'static str)> {
    Some(match cause {
        RefusalCause::QuotaExceeded => {
            (ErrorName::QuotaExceeded, "ask for less, or free what the quota counts: `gpuctl get jobs`")
        }
        RefusalCause::QuotaUnset => {
            (ErrorName::QuotaExceeded, "the quota wants `resources.cpu` and `resources.memory` in every job")
        }
        RefusalCause::LimitRange => (ErrorName::LimitExceeded, "a LimitRange of the namespace bounds what one job may ask for"),
        RefusalCause::PodSecurity => (
            ErrorName::PodSecurity,
            "`security: restricted` makes a pod that the namespace admits; folders of the node become `size:` or `pvc:`",
        ),
        RefusalCause::WebhookDenied => (ErrorName::WebhookDenied, "a policy of the cluster refuses it"),
        RefusalCause::PolicyDenied => (ErrorName::PolicyDenied, "a policy of the cluster refuses it"),
        RefusalCause::WebhookUnreachable => {
            (ErrorName::WebhookFailed, "a policy of the cluster cannot be asked; tell its administrator")
        }
        RefusalCause::NamespaceTerminating => {
            (ErrorName::NamespaceTerminating, "the namespace is being deleted; choose another with `-n`")
        }
        RefusalCause::NoServiceAccount => (ErrorName::ServiceAccountNotFound, "correct `pod.serviceAccountName`"),
        RefusalCause::NoPriorityClass | RefusalCause::NoRightToPods | RefusalCause::NoDryRun | RefusalCause::NoSuchContainer => {
            return None;
        }
    })
}

/// Returns the API server's own reasons; its message is a sentence already. A 403 is a matter of rights only when it says so:
/// quotas, webhooks and Pod Security refuse with the same code.
fn api(code: u16, reason: &str, told: String) -> Error {
    // Whoever admits may choose the code.
    if matches!(code, 400 | 403 | 422 | 500)
        && let Some((name, hint)) = RefusalCause::of(&told).and_then(admission)
    {
        return Error::new(name, told).hint(hint);
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
    let error = Error::new(name, told);
    match code {
        401 => error.hint("the credentials of the kubeconfig are not accepted; log in again"),
        _ => error,
    }
}
