//! Defines what can fail between gpuctl and Prometheus.
//!
//! Note: URLs are shown without user and password.

use thiserror::Error;

use crate::bundle::NotInBundle;

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum QueryError {
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
        /// Prometheus' word: `execution`, `bad_data`, `timeout`.
        kind: String,
        told: String,
    },
}
