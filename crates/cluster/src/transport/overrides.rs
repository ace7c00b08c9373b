//! Applies the options that replace parts of the kubeconfig, such as `--server` and `--token`.

use std::fmt;
use std::path::PathBuf;

use kube::config::{
    AuthInfo, Cluster, Config, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};

use super::failure::Failure;

/// Name of the entries that options create if the kubeconfig has none to change.
const COMMAND_LINE: &str = "command-line";

/// Options that replace parts of the kubeconfig.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Name of a cluster of the kubeconfig.
    pub cluster: Option<String>,
    /// Name of a user of the kubeconfig.
    pub user: Option<String>,
    /// URL of the API server.
    pub server: Option<String>,
    /// Token that replaces all credentials of the user.
    pub token: Option<AccessToken>,
    /// Whether to accept any certificate of the server.
    pub is_insecure: bool,
    /// File with CA certificates that verify the server.
    pub certificate_authority: Option<PathBuf>,
}

/// A bearer token for the API server.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessToken(String);

impl AccessToken {
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    /// Returns the token, which must not be printed, logged, or passed to a program as an argument.
    pub fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken(***)")
    }
}

impl Overrides {
    fn is_empty(&self) -> bool {
        let texts = [&self.cluster, &self.user, &self.server];
        texts.into_iter().all(Option::is_none)
            && self.token.is_none()
            && !self.is_insecure
            && self.certificate_authority.is_none()
    }

    /// Changes the entries of `context`, or of the current context if it is `None`. Creates missing
    /// entries, because `--server` needs no kubeconfig.
    pub(super) fn apply(
        &self,
        kubeconfig: Option<Kubeconfig>,
        context: Option<&str>,
    ) -> Result<Option<Kubeconfig>, Failure> {
        if self.is_empty() {
            return Ok(kubeconfig);
        }
        self.check_token()?;
        let mut kubeconfig = match kubeconfig {
            Some(kubeconfig) => kubeconfig,
            None if self.server.is_some() => Kubeconfig::default(),
            None => return Ok(None),
        };
        let current = kubeconfig.current_context.clone();
        let name = match context.map(ToOwned::to_owned).or(current) {
            Some(name) => name,
            None => new_context(&mut kubeconfig),
        };
        let entries = &mut kubeconfig.contexts;
        // A missing context is reported later, as without these options.
        if let Some(entry) = entries.iter_mut().find(|entry| entry.name == name) {
            let mut selected = entry.context.clone().unwrap_or_default();
            self.select_cluster(&mut kubeconfig.clusters, &mut selected)?;
            self.select_user(&mut kubeconfig.auth_infos, &mut selected)?;
            entry.context = Some(selected);
        }
        Ok(Some(kubeconfig))
    }

    /// Applies the options to the in-cluster configuration, which has no kubeconfig.
    pub(super) fn apply_in_cluster(&self, config: &mut Config) -> Result<(), Failure> {
        self.check_token()?;
        if self.token.is_some() {
            config.auth_info = self.credentials(&AuthInfo::default());
        }
        config.accept_invalid_certs |= self.is_insecure;
        let refused = [
            ("--cluster", self.cluster.is_some()),
            ("--user", self.user.is_some()),
            (
                "--certificate-authority",
                self.certificate_authority.is_some(),
            ),
        ];
        match refused.into_iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(Failure::Kubeconfig {
                cause: format!("`{option}` needs a kubeconfig, and there is none"),
            }),
            None => Ok(()),
        }
    }

    fn select_cluster(
        &self,
        clusters: &mut Vec<NamedCluster>,
        context: &mut Context,
    ) -> Result<(), Failure> {
        if let Some(name) = &self.cluster {
            let names = clusters.iter().map(|entry| entry.name.as_str());
            check_name("cluster", name, names)?;
            context.cluster.clone_from(name);
        }
        if !clusters.iter().any(|entry| entry.name == context.cluster) {
            clusters.push(NamedCluster {
                name: context.cluster.clone(),
                ..NamedCluster::default()
            });
        }
        let entry = clusters
            .iter_mut()
            .find(|entry| entry.name == context.cluster);
        let Some(entry) = entry else { return Ok(()) };
        let cluster: &mut Cluster = entry.cluster.get_or_insert_default();
        if let Some(server) = &self.server {
            cluster.server = Some(server.clone());
        }
        if let Some(file) = &self.certificate_authority {
            cluster.certificate_authority = Some(file.display().to_string());
            cluster.certificate_authority_data = None;
            cluster.insecure_skip_tls_verify = None;
        }
        if self.is_insecure {
            // As in kubectl, the option replaces the certificates of the kubeconfig.
            cluster.insecure_skip_tls_verify = Some(true);
            cluster.certificate_authority = None;
            cluster.certificate_authority_data = None;
        }
        Ok(())
    }

    fn select_user(
        &self,
        users: &mut Vec<NamedAuthInfo>,
        context: &mut Context,
    ) -> Result<(), Failure> {
        if let Some(name) = &self.user {
            check_name("user", name, users.iter().map(|entry| entry.name.as_str()))?;
            context.user = Some(name.clone());
        }
        if self.token.is_none() {
            return Ok(());
        }
        let name = context.user.get_or_insert_with(|| COMMAND_LINE.to_owned());
        if !users.iter().any(|entry| entry.name == *name) {
            users.push(NamedAuthInfo {
                name: name.clone(),
                ..NamedAuthInfo::default()
            });
        }
        for entry in users.iter_mut().filter(|entry| entry.name == *name) {
            let auth_info = self.credentials(&entry.auth_info.take().unwrap_or_default());
            entry.auth_info = Some(auth_info);
        }
        Ok(())
    }

    /// Returns credentials with only the token and the user's impersonation. Other credentials are
    /// dropped, so that no plugin runs needlessly.
    fn credentials(&self, previous: &AuthInfo) -> AuthInfo {
        AuthInfo {
            token: self.token.as_ref().map(|token| token.0.clone().into()),
            impersonate: previous.impersonate.clone(),
            impersonate_groups: previous.impersonate_groups.clone(),
            ..AuthInfo::default()
        }
    }

    /// Rejects a token that is not valid in an HTTP header, without quoting it.
    fn check_token(&self) -> Result<(), Failure> {
        let is_valid = |token: &AccessToken| {
            !token.0.is_empty() && token.0.chars().all(|c| c.is_ascii_graphic())
        };
        if self.token.as_ref().is_none_or(is_valid) {
            return Ok(());
        }
        Err(Failure::Credentials {
            cause: "the token of `--token` or GPUCTL_TOKEN is empty, or contains characters that \
                    are not allowed in an HTTP header"
                .to_owned(),
            hint: None,
        })
    }
}

/// Creates a context and selects it as the current one.
fn new_context(kubeconfig: &mut Kubeconfig) -> String {
    kubeconfig.contexts.push(NamedContext {
        name: COMMAND_LINE.to_owned(),
        context: Some(Context {
            cluster: COMMAND_LINE.to_owned(),
            user: Some(COMMAND_LINE.to_owned()),
            ..Context::default()
        }),
        ..NamedContext::default()
    });
    let user = NamedAuthInfo {
        name: COMMAND_LINE.to_owned(),
        auth_info: Some(AuthInfo::default()),
        ..NamedAuthInfo::default()
    };
    kubeconfig.auth_infos.push(user);
    kubeconfig.current_context = Some(COMMAND_LINE.to_owned());
    COMMAND_LINE.to_owned()
}

fn check_name<'n>(
    kind: &str,
    name: &str,
    names: impl Iterator<Item = &'n str>,
) -> Result<(), Failure> {
    let names: Vec<&str> = names.collect();
    if names.contains(&name) {
        return Ok(());
    }
    let available = match names.as_slice() {
        [] => "it has none".to_owned(),
        names => format!("available {kind}s: {}", names.join(", ")),
    };
    Err(Failure::Kubeconfig {
        cause: format!("{kind} `{name}` does not exist; {available}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
clusters:
- {name: lab, cluster: {server: 'https://lab', certificate-authority-data: abc}}
- {name: prod, cluster: {server: 'https://prod'}}
users:
- {name: eva, user: {exec: {command: login}, as: admin}}
- {name: ben, user: {token: old}}
contexts:
- {name: lab, context: {cluster: lab, user: eva, namespace: ml}}
current-context: lab
";

    fn applied(overrides: &Overrides) -> Kubeconfig {
        let kubeconfig = Kubeconfig::from_yaml(FILE).unwrap();
        overrides.apply(Some(kubeconfig), None).unwrap().unwrap()
    }

    #[test]
    fn names_select_other_entries() {
        let changed = applied(&Overrides {
            cluster: Some("prod".into()),
            user: Some("ben".into()),
            ..Overrides::default()
        });
        let context = changed.contexts[0].context.as_ref().unwrap();
        assert_eq!(
            (context.cluster.as_str(), context.user.as_deref()),
            ("prod", Some("ben"))
        );
        assert_eq!(context.namespace.as_deref(), Some("ml"));
        let unknown = Overrides {
            user: Some("eve".into()),
            ..Overrides::default()
        };
        let kubeconfig = Kubeconfig::from_yaml(FILE).unwrap();
        let Err(Failure::Kubeconfig { cause }) = unknown.apply(Some(kubeconfig), None) else {
            panic!("the user does not exist");
        };
        assert_eq!(
            cause,
            "user `eve` does not exist; available users: eva, ben"
        );
    }

    #[test]
    fn a_token_replaces_the_plugin_and_is_not_shown() {
        let overrides = Overrides {
            token: Some(AccessToken::new("canary")),
            ..Overrides::default()
        };
        assert!(!format!("{overrides:?}").contains("canary"));
        let changed = applied(&overrides);
        let user = changed.auth_infos[0].auth_info.as_ref().unwrap();
        assert!(user.exec.is_none() && user.token.is_some());
        assert_eq!(user.impersonate.as_deref(), Some("admin"));
        for invalid in ["", "a b", "a\nb"] {
            let overrides = Overrides {
                token: Some(AccessToken::new(invalid)),
                ..Overrides::default()
            };
            assert!(overrides.apply(None, None).is_err(), "{invalid:?}");
        }
    }

    #[test]
    fn the_certificate_checks_follow_kubectl() {
        let changed = applied(&Overrides {
            is_insecure: true,
            ..Overrides::default()
        });
        let cluster = changed.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.insecure_skip_tls_verify, Some(true));
        assert_eq!(cluster.certificate_authority_data, None);
        let changed = applied(&Overrides {
            certificate_authority: Some("/ca.pem".into()),
            ..Overrides::default()
        });
        let cluster = changed.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.certificate_authority.as_deref(), Some("/ca.pem"));
        assert_eq!(cluster.certificate_authority_data, None);
    }

    #[test]
    fn a_server_needs_no_kubeconfig() {
        let overrides = Overrides {
            server: Some("http://127.0.0.1:8080".into()),
            token: Some(AccessToken::new("t")),
            ..Overrides::default()
        };
        let made = overrides.apply(None, None).unwrap().unwrap();
        assert_eq!(made.current_context.as_deref(), Some(COMMAND_LINE));
        let cluster = made.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("http://127.0.0.1:8080"));
        assert!(
            made.auth_infos[0]
                .auth_info
                .as_ref()
                .unwrap()
                .token
                .is_some()
        );
        assert!(Overrides::default().apply(None, None).unwrap().is_none());
    }
}
