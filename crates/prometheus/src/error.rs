//! Errors between gpuctl and Prometheus.
//!
//! URLs in messages contain no user and no password.

use gpuctl_core::error::{Error, ErrorName};
use gpuctl_local::bundle::NotInBundle;

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum QueryError {
    #[error("no Prometheus was found in the cluster")]
    NotFound,
    #[error(transparent)]
    NotInBundle(#[from] NotInBundle),
    #[error("`{url}` is no address of a Prometheus")]
    BadAddress { url: String, cause: String },
    #[error("`prometheus.token_command` gave no token")]
    TokenCommand { cause: String },
    #[error("requests cannot be signed for AWS")]
    AwsKeys { cause: String },
    #[error("cannot reach Prometheus at {server}")]
    Unreachable { server: String, cause: String },
    #[error("Prometheus at {server} did not answer within {seconds} s")]
    TimedOut { server: String, seconds: u64 },
    #[error("{server} does not speak Prometheus' language: {found}")]
    NotPrometheus { server: String, found: String },
    #[error("Prometheus at {server} sends us on to another host")]
    Redirected { server: String, to: String },
    #[error("Prometheus at {server} does not let you in")]
    Forbidden { server: String, told: String },
    #[error("Prometheus at {server} refuses the query: {told}")]
    Refused {
        server: String,
        /// HTTP status.
        code: u16,
        /// Prometheus' error type: `execution`, `bad_data`, `timeout`.
        kind: String,
        told: String,
    },
}

impl From<QueryError> for Error {
    fn from(trouble: QueryError) -> Self {
        let message = trouble.to_string();
        let new = |name| Self::new(name, message);
        match trouble {
            QueryError::NotFound => new(ErrorName::PrometheusNotFound)
                .hint("set `--prometheus URL` or GPUCTL_PROMETHEUS; `--prometheus none` disables metrics"),
            QueryError::NotInBundle(missing) => Error::not_in_bundle(missing),
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
