//! Errors from requests to Prometheus.
//!
//! URLs in messages never contain a user or password.

use gpuctl_core::error::{Error, ErrorName};
use gpuctl_local::bundle::NotInBundle;

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum QueryError {
    #[error("no Prometheus was found in the cluster")]
    NotFound,
    /// The user may not list Services, and no Service with a usual name responded. None of them may
    /// exist.
    #[error("you are not allowed to look for Prometheus; tried {tried} usual places")]
    NotSeen { tried: usize },
    #[error("the search for Prometheus in the cluster took longer than {seconds} s")]
    SearchTimedOut { seconds: u64 },
    #[error(transparent)]
    NotInBundle(#[from] NotInBundle),
    #[error("`{url}` is not a valid Prometheus address")]
    BadAddress { url: String, cause: String },
    #[error("`prometheus.token_command` did not provide a token")]
    TokenCommand { cause: String },
    #[error("cannot sign requests for AWS")]
    AwsKeys { cause: String },
    #[error("cannot reach Prometheus at {server}")]
    Unreachable { server: String, cause: String },
    #[error("Prometheus at {server} did not answer within {seconds} s")]
    TimedOut { server: String, seconds: u64 },
    #[error("{server} is not a Prometheus server: {problem}")]
    NotPrometheus { server: String, problem: String },
    #[error("Prometheus at {server} redirects to another host")]
    Redirected { server: String, to: String },
    #[error("Prometheus at {server} denied access")]
    Forbidden {
        server: String,
        message: String,
        /// True if the API server denied the request, so that Prometheus did not receive it.
        by_api_server: bool,
    },
    #[error("Prometheus at {server} rejected the query: {message}")]
    Refused {
        server: String,
        /// HTTP status code.
        code: u16,
        /// Prometheus' error type, such as `execution`, `bad_data` or `timeout`.
        kind: String,
        message: String,
    },
}

impl From<QueryError> for Error {
    fn from(trouble: QueryError) -> Self {
        let message = trouble.to_string();
        let new = |name| Self::new(name, message);
        match trouble {
            QueryError::NotFound => new(ErrorName::PrometheusNotFound)
                .hint("set `--prometheus URL` or GPUCTL_PROMETHEUS; `--prometheus none` disables metrics"),
            QueryError::NotSeen { .. } => new(ErrorName::PrometheusForbidden).hint(
                "ask which Prometheus to use, and set `--prometheus URL`, GPUCTL_PROMETHEUS or `prometheus.url` in the config file; `--prometheus none` disables metrics",
            ),
            QueryError::SearchTimedOut { .. } => new(ErrorName::PrometheusTimeout)
                .hint("set its address with `--prometheus URL`, or raise `--request-timeout`"),
            QueryError::NotInBundle(missing) => Error::not_in_bundle(missing),
            QueryError::BadAddress { cause, .. } => new(ErrorName::InvalidPrometheus).cause(cause),
            QueryError::TokenCommand { cause } => new(ErrorName::PrometheusForbidden).cause(cause),
            QueryError::AwsKeys { cause } => new(ErrorName::PrometheusForbidden)
                .cause(cause)
                .hint("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or log in so that the `aws` command has credentials"),
            QueryError::Unreachable { cause, .. } if cause.contains("CertificateRequired") => new(ErrorName::PrometheusUnreachable)
                .cause(cause)
                .hint("it requires a client certificate: set `prometheus.cert_file` and `prometheus.key_file` in the config file"),
            QueryError::Unreachable { cause, .. } => new(ErrorName::PrometheusUnreachable)
                .cause(cause)
                .hint("set a different address with `--prometheus URL`; `-v` shows where this one was found"),
            QueryError::TimedOut { .. } => {
                new(ErrorName::PrometheusTimeout).hint("try again, raise `--request-timeout`, or query a shorter period")
            }
            QueryError::NotPrometheus { .. } => new(ErrorName::NotPrometheus)
                .hint("a login page or another program is responding; correct `--prometheus URL`, or authenticate with `--prometheus-header`"),
            QueryError::Redirected { to, .. } => new(ErrorName::PrometheusRedirect)
                .cause(format!("credentials are not sent to {to}"))
                .hint("use the redirect target: `--prometheus URL`"),
            QueryError::Forbidden { message, by_api_server: true, .. } => new(ErrorName::PrometheusForbidden).cause(message).hint(
                "reach it with `--prometheus URL` and `--prometheus-token-file FILE`, or ask for `get services/proxy` in its namespace",
            ),
            QueryError::Forbidden { message, .. } => new(ErrorName::PrometheusForbidden).cause(message).hint(
                "reach it with `--prometheus URL`, and with credentials such as `--prometheus-token-file FILE`",
            ),
            QueryError::Refused { message, .. } if message.contains("__name__") => new(ErrorName::PrometheusRefused)
                .hint("for a store without regex matchers on metric names, set `prometheus.exact_names: true` in the config file"),
            QueryError::Refused { kind, .. } => match kind.as_str() {
                "timeout" | "canceled" | "unavailable" => {
                    new(ErrorName::PrometheusTimeout).hint("try again, or use a shorter period or a larger `--step`")
                }
                _ => new(ErrorName::PrometheusRefused).hint("use a shorter period or a larger `--step`"),
            },
        }
    }
}
