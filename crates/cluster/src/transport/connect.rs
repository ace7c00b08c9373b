//! Connects to a cluster like kubectl does, with `KUBECONFIG` lists, contexts, `--as` and
//! in-cluster configuration.
//!
//! A connection has two clients: one whose requests time out, and one for streams that may stay
//! silent.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Method, Uri};
use jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::sync::Mutex;

use super::credentials::CredentialAccess;
use super::dry_run::DryRun;
use super::failure::Failure;
use super::kubeconfig::{find_context, unusable, user_and_cluster};
use super::overrides::Overrides;
use super::proxy::ProxyEnvironment;
use super::read_only::{ReadOnly, only_reads};
use super::{credentials, kubeconfig, replay};
use gpuctl_core::model::secrets::{shown_error, shown_url};
use gpuctl_local::bundle::Bundle;
use gpuctl_local::kuberc::Kuberc;

/// Removes the user, password and query from a server's address. Works on the parsed address, so
/// that an `@` in the path cannot change the host.
fn without_user(server: &Uri) -> Uri {
    let Some(authority) = server.authority() else {
        return server.clone();
    };
    let host = authority.as_str().rsplit('@').next().unwrap_or_default();
    let parts = Uri::builder()
        .scheme(server.scheme_str().unwrap_or("https"))
        .authority(host)
        .path_and_query(server.path());
    parts.build().unwrap_or_else(|_| server.clone())
}

/// Settings of a connection, from flags and the environment.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Kubeconfig files in order of precedence. If empty, gpuctl uses the default file or, inside a
    /// pod, the pod's own configuration.
    pub kubeconfig: Vec<PathBuf>,
    pub context: Option<String>,
    /// Options that replace parts of the kubeconfig.
    pub overrides: Overrides,
    /// The policy for the kubeconfig's credential plugins.
    pub kuberc: Kuberc,
    pub namespace: Option<String>,
    /// Namespace to use if neither `namespace` nor the context sets one.
    pub default_namespace: Option<String>,
    pub impersonate: Option<String>,
    pub impersonate_groups: Vec<String>,
    /// Time limit for one request, including its response.
    pub request_timeout: Duration,
    /// Whether a user can answer the prompts of a credential plugin.
    pub interactive: bool,
    /// Why changes are forbidden, or `None` if they are allowed.
    pub read_only: Option<ReadOnly>,
    /// Where to rehearse changes, or `None` to make them.
    pub dry_run: Option<DryRun>,
    /// A bundle that answers the requests instead of a cluster.
    pub bundle: Option<Arc<Bundle>>,
}

/// The clients of one server: one for requests with a timeout, and one for streams that may stay
/// silent.
#[derive(Clone)]
pub(crate) struct Clients {
    pub requests: Client,
    pub streams: Client,
    /// Time at which the credentials were obtained.
    pub since: Instant,
}

/// A connection to one API server, or to a bundle.
pub struct Connection {
    pub(crate) clients: RefCell<Clients>,
    renewing: Mutex<()>,
    pub(crate) access: Access,
    pub(crate) server: String,
    pub(crate) request_timeout: Duration,
    /// The server's time according to the `Date` header of its last response, in whole seconds.
    pub(crate) server_time: Cell<Option<Timestamp>>,
    /// Current namespace: from `-n`, the context or the config file, in this order, or `default`.
    pub namespace: String,
    /// Whether `-n` set the namespace.
    pub namespace_is_explicit: bool,
}

/// Time limit for connecting to the server.
const CONNECT: Duration = Duration::from_secs(5);
/// Maximum silence between two parts of a response.
const IDLE: Duration = Duration::from_secs(15);
/// Age below which credentials are not renewed. If the server rejects such new credentials, newer
/// ones would not help.
const FRESH: Duration = Duration::from_secs(5);

impl Connection {
    pub async fn open(access: &Access) -> Result<Self, Failure> {
        if let Some(bundle) = &access.bundle {
            return Ok(Self {
                clients: RefCell::new(Clients::for_bundle(bundle)),
                renewing: Mutex::new(()),
                access: access.clone(),
                server: bundle.server.clone(),
                request_timeout: access.request_timeout,
                server_time: Cell::default(),
                namespace: access
                    .namespace
                    .clone()
                    .unwrap_or_else(|| bundle.namespace.clone()),
                namespace_is_explicit: access.namespace.is_some(),
            });
        }
        let config = config(access).await?;
        let namespace = access
            .namespace
            .clone()
            .unwrap_or_else(|| config.default_namespace.clone());
        let server = shown_url(&config.cluster_url.to_string());
        Ok(Self {
            clients: RefCell::new(Clients::new(config)?),
            renewing: Mutex::new(()),
            access: access.clone(),
            server,
            request_timeout: access.request_timeout,
            server_time: Cell::default(),
            namespace,
            namespace_is_explicit: access.namespace.is_some(),
        })
    }

    /// Obtains new credentials after the server rejected those obtained at `refused`. A plugin's
    /// tokens are valid for minutes, but a log can be followed for days. Returns false if the
    /// credentials are too recent to be renewed.
    pub(crate) async fn renew(&self, refused: Instant) -> Result<bool, Failure> {
        // Bundles have no credentials, and reading one must never contact a cluster.
        if self.access.bundle.is_some() {
            return Ok(false);
        }
        // If concurrent requests are rejected, the first one renews the credentials for all.
        let _guard = self.renewing.lock().await;
        let since = self.clients.borrow().since;
        if since > refused {
            return Ok(true);
        }
        if since.elapsed() < FRESH {
            return Ok(false);
        }
        let clients = Clients::new(config(&self.access).await?)?;
        self.clients.replace(clients);
        Ok(true)
    }

    /// Returns the client for streams, with the time at which its credentials were obtained.
    pub(crate) fn streaming(&self) -> (Client, Instant) {
        let clients = self.clients.borrow();
        (clients.streams.clone(), clients.since)
    }

    /// Lists the contexts of the kubeconfig in the order of the file, and the current context.
    pub fn contexts(access: &Access) -> Result<(Vec<String>, Option<String>), Failure> {
        if let Some(bundle) = &access.bundle {
            return Ok((vec![bundle.cluster.clone()], Some(bundle.cluster.clone())));
        }
        let Some(kubeconfig) = kubeconfig::read(&access.kubeconfig)? else {
            return Ok((Vec::new(), None));
        };
        Ok((
            kubeconfig
                .contexts
                .into_iter()
                .map(|context| context.name)
                .collect(),
            kubeconfig.current_context,
        ))
    }

    /// Returns the server, user and namespace that a connection would use. Returns `None` if the
    /// kubeconfig lacks one of them. Runs no plugin and sends no request.
    pub fn place(access: &Access) -> Option<String> {
        let kubeconfig = selected_kubeconfig(access).ok()??;
        let context = find_context(&kubeconfig, access.context.as_ref())?;
        let cluster = kubeconfig
            .clusters
            .iter()
            .find(|cluster| cluster.name == context.cluster)?
            .cluster
            .as_ref()?;
        let namespaces = [
            &access.namespace,
            &context.namespace,
            &access.default_namespace,
        ];
        let namespace = namespaces.into_iter().flatten().next();
        Some(format!(
            "{} {} {}",
            shown_url(cluster.server.as_ref()?),
            context.user.as_deref()?,
            namespace.map_or("default", String::as_str)
        ))
    }

    /// Returns the context that the user selected, or `None` for the kubeconfig's current context.
    pub fn context(&self) -> Option<&str> {
        self.access.context.as_deref()
    }

    /// Returns the address of the API server, without user, password and query.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Returns the server's time according to its last response, in whole seconds.
    pub fn server_time(&self) -> Option<Timestamp> {
        self.server_time.get()
    }

    pub async fn version(&self) -> Result<String, Failure> {
        let version: serde_json::Value = self.get("/version").await?;
        Ok(version["gitVersion"]
            .as_str()
            .unwrap_or("unknown")
            .to_owned())
    }
}

impl Clients {
    fn new(mut config: Config) -> Result<Self, Failure> {
        // Disable kube's retries, because `retry.rs` repeats requests.
        config.default_retry = false;
        config.connect_timeout = Some(CONNECT);
        config.read_timeout = Some(IDLE);
        // Compression costs more CPU time on loopback than it saves.
        config.disable_compression |= is_local(&config.cluster_url);
        let requests = client(config.clone())?;
        // A watch or followed log may stay silent for longer than `IDLE`.
        config.read_timeout = None;
        Ok(Self {
            requests,
            streams: client(config)?,
            since: Instant::now(),
        })
    }

    fn for_bundle(bundle: &Arc<Bundle>) -> Self {
        let client = replay::client(bundle);
        Self {
            requests: client.clone(),
            streams: client,
            since: Instant::now(),
        }
    }
}

/// Returns true if the server runs on this machine.
fn is_local(server: &http::Uri) -> bool {
    server
        .host()
        .is_some_and(|host| host == "localhost" || host.starts_with("127."))
}

fn client(config: Config) -> Result<Client, Failure> {
    Client::try_from(config).map_err(|error| Failure::Kubeconfig {
        cause: redacted(&error),
    })
}

/// Formats an error without secrets. kube's messages contain proxy URLs with passwords, and may
/// contain the output of a plugin.
fn redacted(error: &kube::Error) -> String {
    match error {
        kube::Error::Auth(_) => "cannot read its credentials".to_owned(),
        kube::Error::ProxyProtocolUnsupported { proxy_url }
        | kube::Error::ProxyProtocolDisabled { proxy_url, .. } => {
            super::proxy::unsupported(proxy_url)
        }
        other => shown_error(&other.to_string()),
    }
}

async fn config(access: &Access) -> Result<Config, Failure> {
    let mut config = own_config(access).await?;
    if access.impersonate.is_some() {
        config.auth_info.impersonate.clone_from(&access.impersonate);
        config.auth_info.impersonate_groups = Some(access.impersonate_groups.clone());
    }
    Ok(config)
}

/// Reads the kubeconfig, and applies the options that replace parts of it.
fn selected_kubeconfig(access: &Access) -> Result<Option<Kubeconfig>, Failure> {
    let kubeconfig = kubeconfig::read(&access.kubeconfig)?;
    access
        .overrides
        .apply(kubeconfig, access.context.as_deref())
}

async fn own_config(access: &Access) -> Result<Config, Failure> {
    let Some(mut kubeconfig) = selected_kubeconfig(access)? else {
        let mut config = Config::incluster().map_err(|_| Failure::NoKubeconfig)?;
        access.overrides.apply_in_cluster(&mut config)?;
        return Ok(config);
    };
    let options = KubeConfigOptions {
        context: access.context.clone(),
        ..KubeConfigOptions::default()
    };
    let context = find_context(&kubeconfig, access.context.as_ref());
    let has_namespace = context.is_some_and(|context| context.namespace.is_some());
    let (user, cluster) = user_and_cluster(&kubeconfig, context);
    if let Some(auth) = kubeconfig
        .auth_infos
        .iter_mut()
        .find(|auth| Some(&auth.name) == user.as_ref())
        .and_then(|auth| auth.auth_info.as_mut())
    {
        let access = CredentialAccess {
            interactive: access.interactive,
            kuberc: &access.kuberc,
        };
        credentials::resolve(auth, cluster.as_ref(), &access).await?;
    }
    // Hide `proxy-url` from kube, whose parse error does not name the field.
    let proxy = cluster
        .as_ref()
        .and_then(|cluster| cluster.proxy_url.clone());
    kubeconfig
        .clusters
        .iter_mut()
        .filter_map(|entry| entry.cluster.as_mut())
        .for_each(|cluster| cluster.proxy_url = None);
    let contexts: Vec<String> = kubeconfig
        .contexts
        .iter()
        .map(|context| context.name.clone())
        .collect();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|error| unusable(&error, &contexts))?;
    if let Some(namespace) = access.default_namespace.as_ref().filter(|_| !has_namespace) {
        config.default_namespace.clone_from(namespace);
    }
    // Drop a password in the server's address, so that it is never printed or sent. Requests are
    // authorized by other means.
    config.cluster_url = without_user(&config.cluster_url);
    // Bypass proxies for servers on this machine.
    config.proxy_url = match is_local(&config.cluster_url) {
        true => None,
        false => ProxyEnvironment::from_process()
            .proxy_to(&config.cluster_url, proxy.as_deref())
            .map_err(|error| Failure::Kubeconfig {
                cause: error.to_string(),
            })?,
    };
    Ok(config)
}

impl Connection {
    /// Rejects a request that would change the cluster if the connection is read-only.
    pub(crate) fn reject_writes(&self, method: &Method, path: &str) -> Result<(), Failure> {
        match &self.access.read_only {
            Some(by) if !only_reads(method, path) => Err(Failure::ReadOnly { by: by.clone() }),
            _ => Ok(()),
        }
    }
}
