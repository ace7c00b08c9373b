//! Options on an incomplete command line that override parts of the kubeconfig, for completion.

use std::path::PathBuf;

use gpuctl_cluster::{AccessToken, Overrides};

/// Collects the options. `typed` returns the value of an option by its long and short name.
pub(super) fn typed_overrides(
    typed: impl Fn(&str, Option<&str>) -> Option<String>,
    is_insecure: bool,
    token: Option<AccessToken>,
) -> Overrides {
    let server = typed("--api-server", Some("-s")).or_else(|| typed("--server", None));
    Overrides {
        cluster: typed("--cluster", None),
        user: typed("--kube-user", None).or_else(|| typed("--user", None)),
        server: server.filter(|server| server.contains("://")),
        token: typed("--token", None).map(AccessToken::new).or(token),
        is_insecure,
        certificate_authority: typed("--certificate-authority", None).map(PathBuf::from),
    }
}
