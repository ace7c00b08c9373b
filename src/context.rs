//! The context of a command: the terminal, the cluster connection, the metrics source and the
//! clock. Connections open on demand, so commands such as `explain` work without a cluster.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;

use crate::config::{Config, KubeContexts, MetricsFlags, MetricsSource, Origin, folder_warnings};
use crate::terminal::Terminal;
use gpuctl_cluster::{Access, Connection, DryRun, ReadOnly};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::values::omissions;
use gpuctl_local::bundle::Bundle;

pub(crate) struct Context {
    pub terminal: Terminal,
    pub access: Access,
    /// Whether missing metrics are an error instead of empty cells (`--require-metrics`).
    pub require_metrics: bool,
    /// Whether the command covers all namespaces (`-A`).
    pub all_namespaces: bool,
    /// The metrics source from flags, environment and config file. An invalid source is an error
    /// only when a command uses metrics, so `get queues` works with a broken setting.
    metrics: RefCell<Result<MetricsSource, Error>>,
    /// The metrics settings from the command line.
    flags: MetricsFlags,
    /// Whether the user has already been warned about unknown keys in the config file.
    has_warned_of_unknown_keys: Cell<bool>,
}

impl Context {
    pub(crate) fn new(
        terminal: Terminal,
        access: Access,
        flags: MetricsFlags,
        require_metrics: bool,
    ) -> Self {
        let metrics = RefCell::new(
            MetricsSource::resolve(&flags, || contexts_of(&access)).map_err(Error::usage),
        );
        Self {
            terminal,
            access,
            require_metrics,
            all_namespaces: false,
            metrics,
            flags,
            has_warned_of_unknown_keys: Cell::new(false),
        }
    }

    /// Creates a context that reads from a bundle and prints nothing.
    pub(crate) fn silent(&self, bundle: Arc<Bundle>) -> Self {
        let access = Access {
            bundle: Some(bundle),
            ..self.access.clone()
        };
        Self::new(Terminal::silent(), access, self.flags.clone(), false)
    }

    /// Creates the context of a command for one of several kubeconfig contexts, whose settings
    /// apply. Messages name it.
    pub(crate) fn for_kube_context(&self, name: &str, access: Access) -> Self {
        // The file is the same for all of them.
        self.warn_of_settings();
        let context = Self {
            all_namespaces: self.all_namespaces,
            ..Self::new(
                self.terminal.for_context(name),
                access,
                self.flags.clone(),
                self.require_metrics,
            )
        };
        context.has_warned_of_unknown_keys.set(true);
        context
    }

    /// Fails if a bundle replaces the cluster: a bundle never changes, so a command that waits for
    /// a change would wait forever.
    pub(crate) fn must_change(&self, hint: &str) -> Result<(), Error> {
        let Some(bundle) = &self.access.bundle else {
            return Ok(());
        };
        let error = Error::new(
            ErrorName::NotInBundle,
            format!(
                "the bundle was created at {} and does not change",
                bundle.at
            ),
        );
        Err(error.hint(hint))
    }

    pub(crate) async fn connect(&self) -> Result<Connection, Error> {
        self.connect_with(None).await
    }

    /// Connects for writing. With a dry run, the API server processes the writes but does not
    /// persist them.
    pub(crate) async fn connect_with(&self, dry_run: Option<DryRun>) -> Result<Connection, Error> {
        // Warn before the first write: an unknown key may be a misspelled safety setting.
        self.warn_of_settings();
        let access = Access {
            read_only: self.read_only(),
            dry_run,
            default_namespace: self.default_namespace()?,
            ..self.access.clone()
        };
        let connection = Connection::open(&access).await?;
        self.terminal.detail(&format!(
            "cluster {}, namespace {}",
            connection.server(),
            connection.namespace
        ));
        // A login program may have used the terminal until here.
        self.terminal.allow_waiting_line();
        Ok(connection)
    }

    /// The namespace from the config file, or `None` if the config file is unreadable. An
    /// unreadable config file also makes the session read-only, see [`Self::read_only`].
    pub(crate) fn default_namespace(&self) -> Result<Option<String>, Error> {
        match self.config() {
            Ok(config) => config.text("namespace").map_err(Error::usage),
            Err(_) => Ok(None),
        }
    }

    /// Warns about objects and values that were omitted from the output because they are unreadable
    /// or implausible.
    pub(crate) fn warn_of_omissions(&self) {
        omissions::messages()
            .iter()
            .for_each(|message| self.terminal.warn(message));
    }

    /// The reason why writes are refused, or `None` if they are allowed. An unreadable setting also
    /// refuses writes.
    pub(crate) fn read_only(&self) -> Option<ReadOnly> {
        if self.access.read_only.is_some() {
            return self.access.read_only.clone();
        }
        let config = Config::read(self.flags.config.as_deref(), || contexts_of(&self.access));
        match config.and_then(|config| config.read_only()) {
            Ok((false, _)) => None,
            Ok((_, Origin::Environment(_))) => Some(ReadOnly::Environment),
            Ok(_) => Some(ReadOnly::File),
            Err(error) => Some(ReadOnly::Unclear(error.to_string())),
        }
    }

    /// Warns once about unknown keys in the config file and about config folders that other users
    /// can write to.
    fn warn_of_settings(&self) {
        if self.has_warned_of_unknown_keys.replace(true) {
            return;
        }
        let unknown = self
            .config()
            .map(|config| config.file.unknown())
            .unwrap_or_default();
        unknown
            .iter()
            .chain(&folder_warnings())
            .for_each(|warning| self.terminal.warn(warning));
    }

    /// Returns the metrics source, after a one-time warning about unknown keys in the config file.
    pub(crate) fn metrics(&self) -> Result<MetricsSource, Error> {
        let source = self.metrics.borrow().clone()?;
        self.warn_of_settings();
        Ok(source)
    }

    /// Returns the metrics source for the connection's cluster, which may differ from the cluster
    /// of the current context (`--cluster`).
    pub(crate) fn metrics_of(&self, connection: &Connection) -> Result<MetricsSource, Error> {
        let default_source = self.metrics()?;
        match connection.context() {
            Some(name) if self.access.context.as_deref() != Some(name) => {
                let contexts = || KubeContexts {
                    current: Some(name.to_owned()),
                    ..contexts_of(&self.access)
                };
                MetricsSource::resolve(&self.flags, contexts).map_err(Error::usage)
            }
            _ => Ok(default_source),
        }
    }

    /// Returns true if one Prometheus address is configured for all clusters.
    pub(crate) fn has_one_address(&self) -> Result<bool, Error> {
        let source =
            MetricsSource::resolve(&self.flags, KubeContexts::default).map_err(Error::usage)?;
        Ok(source.url.is_some() && !source.is_off())
    }

    /// Reads the config file and the environment.
    pub(crate) fn config(&self) -> Result<Config, Error> {
        Config::read(self.flags.config.as_deref(), || contexts_of(&self.access))
            .map_err(Error::usage)
    }

    pub(crate) fn config_file(&self) -> Option<&Path> {
        self.flags.config.as_deref()
    }

    /// The value that a global flag sets for the setting `key`.
    pub(crate) fn flag(&self, key: &str) -> Option<serde_json::Value> {
        match key {
            "safety.read_only" => self.access.read_only.is_some().then_some(true.into()),
            "namespace" => self.access.namespace.clone().map(Into::into),
            _ => self.flags.value(key),
        }
    }

    /// The current context in the kubeconfig, or `None` if a bundle replaces the cluster.
    pub(crate) fn current_context(&self) -> Option<String> {
        if self.access.bundle.is_some() {
            return None;
        }
        Connection::contexts(&self.access)
            .ok()?
            .1
            .filter(|name| !name.is_empty())
    }

    /// Rereads token files, because tokens rotate while a long-running command is active. If a file
    /// is unreadable, the old credentials stay in use.
    pub(crate) fn renew_credentials(&self) {
        if let Ok(source) = MetricsSource::resolve(&self.flags, || contexts_of(&self.access)) {
            *self.metrics.borrow_mut() = Ok(source);
        }
    }

    /// Resolves the metrics source again after the config file has changed.
    pub(crate) fn reload(&self) -> Result<(), Error> {
        let source = MetricsSource::resolve(&self.flags, || contexts_of(&self.access))
            .map_err(Error::usage)?;
        self.has_warned_of_unknown_keys.set(false);
        *self.metrics.borrow_mut() = Ok(source);
        Ok(())
    }

    /// The reference time for ages: the current time, or a bundle's creation time.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where the program reads the clock"
    )]
    pub(crate) fn now(&self) -> Timestamp {
        self.access
            .bundle
            .as_ref()
            .map_or_else(Timestamp::now, |bundle| bundle.at)
    }
}

/// Returns the contexts of the kubeconfig, or none if the kubeconfig is unreadable.
fn contexts_of(access: &Access) -> KubeContexts {
    let (all, current) = Connection::contexts(access).unwrap_or_default();
    KubeContexts {
        current: access.context.clone().or(current),
        all,
    }
}
