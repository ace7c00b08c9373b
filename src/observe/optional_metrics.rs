//! Reads metrics for table cells that may stay empty. If Prometheus is unavailable, warns once or
//! reads the exporters directly.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join;
use tokio::sync::OnceCell;

use crate::context::Context;
use crate::observe::exporters::{self, DirectReading};
use crate::observe::live;
use crate::observe::metrics::{StoreUse, find, print_warnings, timed_out};
use gpuctl_cluster::{Connection, InventorySnapshot};
use gpuctl_core::error::Error;
use gpuctl_core::model::{NodeUsage, Readings, UnixSeconds};
use gpuctl_core::stats::exporters::devices;
use gpuctl_core::stats::exporters::devices::ExporterReading;
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::exporters::identity::ApiFacts;
use gpuctl_prometheus::Prometheus;

/// Timeout for optional metrics, which must not delay the rest of the answer.
const CELLS_TIMEOUT: Duration = Duration::from_secs(10);

/// Metrics for the cells of an inventory. Without metrics, the cells stay empty and one warning is
/// printed.
pub(crate) struct OptionalMetrics<'c> {
    context: &'c Context,
    connection: &'c Connection,
    prometheus: OnceCell<Prometheus<'c>>,
    has_warned: Cell<bool>,
    store_use: StoreUse,
    /// Whether to query the exporters if Prometheus does not respond. `failure` holds the reason
    /// why Prometheus did not respond.
    uses_exporters: Cell<bool>,
    failure: RefCell<Option<String>>,
}

impl<'c> OptionalMetrics<'c> {
    pub(crate) fn new(context: &'c Context, connection: &'c Connection) -> Self {
        Self {
            context,
            connection,
            prometheus: OnceCell::new(),
            has_warned: Cell::new(false),
            store_use: StoreUse::Devices,
            uses_exporters: Cell::new(false),
            failure: RefCell::default(),
        }
    }

    /// Allows [`Self::or_read_exporters`] to query the exporters, except in a watch, where every
    /// refresh would query them again.
    pub(crate) fn with_exporters(self, watch: bool) -> Self {
        self.uses_exporters.set(!watch);
        self
    }

    /// Returns `reading`, or reads the exporters on these nodes and prints a warning if it is
    /// `None`.
    pub(crate) async fn or_read_exporters(
        &self,
        reading: Option<ExporterReading>,
        nodes: BTreeSet<String>,
    ) -> Option<ExporterReading> {
        // Query the exporters at most once per command.
        if !self.uses_exporters.replace(false) {
            return reading;
        }
        let reason = self.failure.take();
        let (None, Some(reason)) = (&reading, reason) else {
            return reading;
        };
        if nodes.len() > exporters::MAX_NODES {
            let maximum = exporters::MAX_NODES;
            self.report(&format!(
                "{reason}; exporters are queried directly for at most {maximum} nodes, but {} are shown",
                nodes.len()
            ));
            return None;
        }
        match exporters::read(self.context, self.connection, &nodes).await {
            Ok(DirectReading { reading, nodes }) => {
                let source = if nodes == 1 {
                    "the exporter of 1 node".to_owned()
                } else {
                    format!("the exporters of {nodes} nodes")
                };
                self.report(&format!("{reason}; values are read directly from {source}"));
                Some(reading)
            }
            Err(error) => {
                self.context.terminal.detail(&format!("exporters: {error}"));
                self.report(&reason);
                None
            }
        }
    }

    /// Creates metrics for pods or jobs, which are identified by name. Other clusters can use the
    /// same names, so a store with ambiguous cluster labels yields no metrics.
    pub(crate) fn for_names(
        context: &'c Context,
        connection: &'c Connection,
        seconds: i64,
    ) -> Self {
        let since = UnixSeconds::from(context.now()) - seconds;
        Self {
            store_use: StoreUse::Sums { since },
            ..Self::new(context, connection)
        }
    }

    /// Reads live metrics of devices. Returns `None` if they are unavailable, or an error with
    /// `--require-metrics`.
    pub(crate) async fn now(
        &self,
        quantities: &[Quantity],
    ) -> Result<Option<ExporterReading>, Error> {
        if quantities.is_empty() {
            return Ok(None);
        }
        self.optional(async |prometheus| live::read(prometheus, quantities, None).await)
            .await
    }

    /// Runs a query with its own timeout. Returns `None` if it fails, so that the cells stay empty.
    pub(crate) async fn optional<T>(
        &self,
        query: impl AsyncFnOnce(&Prometheus<'c>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let Self {
            context,
            connection,
            ..
        } = self;
        // With `--prometheus none`, empty cells are intended, so print no warning.
        if context.metrics()?.is_off() && !context.require_metrics {
            return Ok(None);
        }
        let timeout = CELLS_TIMEOUT.min(context.access.request_timeout);
        // Finding Prometheus may require probes, so reuse the result. Failures are not cached.
        let request = async {
            query(
                self.prometheus
                    .get_or_try_init(|| find(context, connection, timeout, self.store_use))
                    .await?,
            )
            .await
        };
        let found = || self.prometheus.get();
        let result = tokio::time::timeout(timeout, request)
            .await
            .unwrap_or_else(|_| Err(timed_out(context, connection, found(), timeout)));
        if let Some(prometheus) = self.prometheus.get() {
            print_warnings(context, prometheus);
        }
        match result {
            Ok(result) => Ok(Some(result)),
            Err(error) if context.require_metrics => Err(error),
            Err(error) => {
                self.report(&error.to_string());
                Ok(None)
            }
        }
    }

    fn report(&self, reason: &str) {
        // Delay the warning, because the exporters may still provide the metrics.
        if self.uses_exporters.get() {
            self.failure.replace(Some(reason.to_owned()));
            return;
        }
        self.warn_once(&format!("GPU metrics are unavailable: {reason}"));
    }

    /// Prints the first warning of a command. A watch would repeat it at every refresh.
    fn warn_once(&self, warning: &str) {
        if !self.has_warned.replace(true) {
            self.context.terminal.warn(warning);
        }
    }

    /// Adds the metrics to the devices of an inventory and returns the readings.
    pub(crate) fn measure(
        &self,
        snapshot: &mut InventorySnapshot,
        reading: Option<&ExporterReading>,
    ) -> Option<Readings> {
        let reading = reading?;
        let facts = ApiFacts::from_inventory(&snapshot.inventory, snapshot.consumers.as_ref());
        let readings = devices::read(reading, &snapshot.inventory, &facts);
        let mut hosts = snapshot.inventory.hosts.iter();
        let has_gpus = hosts.clone().any(NodeUsage::has_gpus);
        let is_silent = |host: &NodeUsage| {
            let mut devices = readings.devices.iter();
            host.has_gpus() && devices.all(|device| device.node != host.name())
        };
        let silent = hosts.find(|host| is_silent(host));
        if let (Some(host), false) = (silent, readings.unmatched.is_empty()) {
            self.warn_once(&format!(
                "no GPU series names node {}, but series with {} match no node of this cluster",
                host.name(),
                readings.unmatched_list()
            ));
        } else if readings.devices.is_empty() && has_gpus {
            self.report(
                "Prometheus has no samples of this cluster's GPUs; is a GPU exporter running \
                 and scraped?",
            );
        }
        snapshot.inventory.measure(&readings);
        Some(readings)
    }

    /// Reads the inventory and adds the live metrics to its devices.
    pub(crate) async fn snapshot(
        &self,
        quantities: &[Quantity],
    ) -> Result<(InventorySnapshot, Option<Readings>), Error> {
        let (snapshot, reading) =
            join(self.connection.inventory().snapshot(), self.now(quantities)).await;
        let (mut snapshot, reading) = (snapshot?, reading?);
        let readings = self.measure(&mut snapshot, reading.as_ref());
        Ok((snapshot, readings))
    }
}
