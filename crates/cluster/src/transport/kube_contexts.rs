//! Lists the contexts of a kubeconfig with the API servers that they select, for commands that read
//! all contexts.

use kube::config::{Cluster, Kubeconfig};

use super::connect::{Access, Connection};
use super::failure::Failure;
use super::kubeconfig::{self, user_and_cluster};
use gpuctl_core::model::secrets::shown_url;

/// A context of a kubeconfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeContext {
    pub name: String,
    /// Identifies the API server. `None` if the context selects no server.
    pub server: Option<String>,
}

impl Connection {
    /// Lists the contexts in the order of the kubeconfig. A bundle has one context, and a pod
    /// without a kubeconfig has none.
    pub fn kube_contexts(access: &Access) -> Result<Vec<KubeContext>, Failure> {
        if let Some(bundle) = &access.bundle {
            return Ok(vec![KubeContext {
                name: bundle.cluster.clone(),
                server: Some(bundle.server.clone()),
            }]);
        }
        let kubeconfig = kubeconfig::read(&access.kubeconfig)?;
        Ok(kubeconfig.as_ref().map(contexts).unwrap_or_default())
    }
}

fn contexts(kubeconfig: &Kubeconfig) -> Vec<KubeContext> {
    let context = |entry: &kube::config::NamedContext| KubeContext {
        name: entry.name.clone(),
        server: user_and_cluster(kubeconfig, entry.context.as_ref())
            .1
            .as_ref()
            .and_then(server),
    };
    kubeconfig.contexts.iter().map(context).collect()
}

/// Returns the address of the server and how to reach it. Proxies and TLS names can lead to
/// different clusters behind one address.
fn server(cluster: &Cluster) -> Option<String> {
    let address = shown_url(cluster.server.as_ref()?);
    // Paths are case-sensitive, and identify clusters behind gateways such as Rancher's.
    let path = address
        .find("://")
        .and_then(|scheme| address[scheme + 3..].find('/').map(|at| scheme + 3 + at))
        .unwrap_or(address.len());
    let (origin, path) = address.split_at(path);
    let origin = origin.to_lowercase();
    let default_port = match origin.starts_with("https") {
        true => ":443",
        false => ":80",
    };
    let origin = origin.strip_suffix(default_port).unwrap_or(&origin);
    let route = [&cluster.tls_server_name, &cluster.proxy_url];
    Some(
        route
            .into_iter()
            .flatten()
            .fold(format!("{origin}{path}"), |text, part| {
                format!("{text} {part}")
            }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_of_one_server_are_recognized() {
        let cluster = |server: &str, tls: Option<&str>| Cluster {
            server: Some(server.to_owned()),
            tls_server_name: tls.map(ToOwned::to_owned),
            ..Cluster::default()
        };
        let plain = |address: &str| server(&cluster(address, None));
        let same = plain("https://prod.example.com");
        assert_eq!(plain("https://PROD.example.com:443/"), same);
        for other in [
            "http://prod.example.com",
            "https://prod.example.com:6443",
            "https://prod.example.com/k8s/clusters/c-1",
            "https://lab.example.com",
        ] {
            assert_ne!(plain(other), same, "{other}");
        }
        assert_ne!(
            plain("https://gate.example.com/a"),
            plain("https://gate.example.com/A")
        );
        let behind = server(&cluster("https://prod.example.com", Some("a.internal")));
        assert_ne!(behind, same);
        assert_eq!(server(&Cluster::default()), None);
    }

    #[test]
    fn contexts_keep_the_order_of_the_file() {
        let text = r#"{"clusters": [{"name": "c", "cluster": {"server": "https://c.example.com"}}],
            "contexts": [{"name": "b", "context": {"cluster": "c", "user": "u"}},
                {"name": "a", "context": {"cluster": "missing", "user": "u"}}]}"#;
        let kubeconfig = Kubeconfig::from_yaml(text).unwrap();
        let context = |name: &str, server: Option<&str>| KubeContext {
            name: name.to_owned(),
            server: server.map(ToOwned::to_owned),
        };
        assert_eq!(
            contexts(&kubeconfig),
            [
                context("b", Some("https://c.example.com")),
                context("a", None)
            ]
        );
    }
}
