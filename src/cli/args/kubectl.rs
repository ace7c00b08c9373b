//! Global options of kubectl that override parts of the kubeconfig.

use std::convert::Infallible;
use std::path::PathBuf;

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::value::Expected;
use crate::cli::candidates;
use gpuctl_cluster::{AccessToken, Overrides};

/// Options that replace parts of the kubeconfig
#[derive(Args, Clone, Debug)]
pub(crate) struct KubectlOptions {
    /// Kubeconfig cluster to use; `stats`, `report`, `eff`, `snapshot` and lists of dimensions also
    /// accept a context
    #[arg(long, global = true, value_name = "NAME", help_heading = "Global options", add = ArgValueCandidates::new(candidates::context_names))]
    pub cluster: Option<String>,
    /// Kubeconfig user to use; also `--user`, as in kubectl, except with `auth check`
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        help_heading = "Global options"
    )]
    pub kube_user: Option<String>,
    /// URL of the API server; also `--server`, as in kubectl, except with `validate` and
    /// `explain`
    #[arg(short = 's', long, global = true, value_name = "URL", value_parser = url, help_heading = "Global options")]
    pub api_server: Option<String>,
    /// Bearer token for the API server, instead of the user's credentials; prefer GPUCTL_TOKEN,
    /// because other users of this machine can see the options of a process
    #[arg(long, global = true, value_name = "TOKEN", value_parser = token, help_heading = "Global options")]
    pub token: Option<AccessToken>,
    /// Do not verify the API server's certificate, which lets others intercept the connection
    #[arg(long, global = true, help_heading = "Global options")]
    pub insecure_skip_tls_verify: bool,
    /// PEM file of CA certificates that verify the API server
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        conflicts_with = "insecure_skip_tls_verify",
        help_heading = "Global options"
    )]
    pub certificate_authority: Option<PathBuf>,
}

impl KubectlOptions {
    /// Converts the options to connection settings. `token` is the default of `--token`.
    pub(crate) fn overrides(&self, token: Option<AccessToken>) -> Overrides {
        Overrides {
            cluster: self.cluster.clone(),
            user: self.kube_user.clone(),
            server: self.api_server.clone(),
            token: self.token.clone().or(token),
            is_insecure: self.insecure_skip_tls_verify,
            certificate_authority: self.certificate_authority.clone(),
        }
    }
}

pub(crate) fn url(text: &str) -> Result<String, Expected> {
    match ["https://", "http://"]
        .iter()
        .any(|scheme| text.starts_with(scheme))
    {
        true => Ok(text.to_owned()),
        false => Err(Expected("a URL such as https://10.0.0.1:6443")),
    }
}

/// Accepts any text and leaves the check to the connection: an error of clap would quote the token.
fn token(text: &str) -> Result<AccessToken, Infallible> {
    Ok(AccessToken::new(text))
}
