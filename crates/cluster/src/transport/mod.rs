//! Sends requests to the API server and decodes its responses.

pub(crate) mod capture;
pub(crate) mod connect;
pub(crate) mod credentials;
pub(crate) mod decode;
pub(crate) mod dry_run;
pub(crate) mod error;
pub(crate) mod failure;
pub(crate) mod http;
pub(crate) mod kubeconfig;
pub(crate) mod lenient;
pub(crate) mod list;
pub(crate) mod notify;
pub(crate) mod outage_retry;
pub(crate) mod overrides;
pub(crate) mod path;
pub(crate) mod pod;
pub(crate) mod protobuf;
pub(crate) mod proxy;
pub(crate) mod read_only;
pub(crate) mod refusal;
mod rehearsal;
pub(crate) mod replay;
pub(crate) mod retry;
pub(crate) mod shared_texts;
pub(crate) mod socket;
pub(crate) mod stream;
pub(crate) mod warnings;
