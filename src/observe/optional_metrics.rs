//! Metrics for cells that may stay empty. Missing metrics are reported once, or are read directly
//! from the exporters.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join;
use tokio::sync::OnceCell;

use crate::context::Context;
use crate::observe::exporters::{self, Exposed};
use crate::observe::live;
use crate::observe::metrics::{StoreUse, find, tell_warnings};
use gpuctl_cluster::{Connection, InventorySnapshot};
use gpuctl_core::error::Error;
use gpuctl_core::model::{NodeUsage, Readings, UnixSeconds};
use gpuctl_core::stats::exporters::devices;
use gpuctl_core::stats::exporters::devices::ExporterReading;
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::exporters::identity::ApiFacts;
use gpuctl_prometheus::{Prometheus, QueryError};

/// Timeout for metrics of optional cells: the rest of the answer must not wait longer.
const CELLS_WITHIN: Duration = Duration::from_secs(10);

/// Metrics for the cells of an inventory, which is useful without them too. Missing metrics are
/// reported once.
pub(crate) struct OptionalMetrics<'c> {
    context: &'c Context,
    connection: &'c Connection,
    found: OnceCell<Prometheus<'c>>,
    told: Cell<bool>,
    used: StoreUse,
    /// Whether to query the exporters directly if Prometheus does not respond. The field below has
    /// the reason why it did not.
    by_exporters: Cell<bool>,
    failure: RefCell<Option<String>>,
}

impl<'c> OptionalMetrics<'c> {
    pub(crate) fn new(context: &'c Context, connection: &'c Connection) -> Self {
        Self {
            context,
            connection,
            found: OnceCell::new(),
            told: Cell::new(false),
            used: StoreUse::Devices,
            by_exporters: Cell::new(false),
            failure: RefCell::default(),
        }
    }

    /// Lets [`Self::or_exporters`] query the exporters directly, but not in a watch, which would
    /// repeat it at every refresh.
    pub(crate) fn with_exporters(self, watch: bool) -> Self {
        self.by_exporters.set(!watch);
        self
    }

    /// Returns the data from Prometheus, or else reads the exporters of these nodes and warns about
    /// it.
    pub(crate) async fn or_exporters(
        &self,
        moment: Option<ExporterReading>,
        nodes: BTreeSet<String>,
    ) -> Option<ExporterReading> {
        // The exporters are queried at most once.
        if !self.by_exporters.replace(false) {
            return moment;
        }
        let why = self.failure.take();
        let (None, Some(why)) = (&moment, why) else {
            return moment;
        };
        if nodes.len() > exporters::MOST {
            let most = exporters::MOST;
            self.tell(&format!(
                "{why}; exporters are queried directly for at most {most} nodes, but {} are shown",
                nodes.len()
            ));
            return None;
        }
        match exporters::read(self.context, self.connection, &nodes).await {
            Ok(Exposed { moment, nodes }) => {
                let from = if nodes == 1 {
                    "the exporter of 1 node".to_owned()
                } else {
                    format!("the exporters of {nodes} nodes")
                };
                self.tell(&format!("{why}; values are read directly from {from}"));
                Some(moment)
            }
            Err(lack) => {
                self.context.terminal.detail(&format!("exporters: {lack}"));
                self.tell(&why);
                None
            }
        }
    }

    /// Creates metrics that are identified by the names of pods or jobs. Other clusters may use the
    /// same names, so a store with unclear cluster labels yields none.
    pub(crate) fn by_names(context: &'c Context, connection: &'c Connection, seconds: i64) -> Self {
        let since = UnixSeconds::from(context.now()) - seconds;
        Self {
            used: StoreUse::Sums { since },
            ..Self::new(context, connection)
        }
    }

    /// Reads live metrics of devices. `None` when they are unavailable, which is an error with
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

    /// Runs a query with a separate timeout. After a failure, cells stay empty.
    pub(crate) async fn optional<T>(
        &self,
        ask: impl AsyncFnOnce(&Prometheus<'c>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let Self {
            context,
            connection,
            ..
        } = self;
        // `--prometheus none` requests empty cells, so it needs no warning.
        if context.metrics()?.is_off() && !context.require_metrics {
            return Ok(None);
        }
        let within = CELLS_WITHIN.min(context.access.request_timeout);
        // Finding Prometheus may need probes, so the result is reused. A failure is not stored.
        let answered = async {
            ask(self
                .found
                .get_or_try_init(|| find(context, connection, within, self.used))
                .await?)
            .await
        };
        let late = || {
            Error::from(QueryError::TimedOut {
                server: "the cluster's address".to_owned(),
                seconds: within.as_secs(),
            })
        };
        let answer = tokio::time::timeout(within, answered)
            .await
            .unwrap_or_else(|_| Err(late()));
        if let Some(prometheus) = self.found.get() {
            tell_warnings(context, prometheus);
        }
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if context.require_metrics => Err(error),
            Err(error) => {
                self.tell(&error.to_string());
                Ok(None)
            }
        }
    }

    fn tell(&self, why: &str) {
        // Delay the warning: the exporters may still provide the metrics.
        if self.by_exporters.get() {
            self.failure.replace(Some(why.to_owned()));
            return;
        }
        if !self.told.replace(true) {
            self.context
                .terminal
                .warn(&format!("GPU metrics are unavailable: {why}"));
        }
    }

    /// Adds the measured values to an inventory, and returns the readings that they come from.
    pub(crate) fn measure(
        &self,
        stock: &mut InventorySnapshot,
        moment: Option<&ExporterReading>,
    ) -> Option<Readings> {
        let moment = moment?;
        let facts = ApiFacts::from_inventory(&stock.inventory, stock.consumers.as_ref());
        let readings = devices::read(moment, &stock.inventory, &facts);
        if readings.devices.is_empty() && stock.inventory.hosts.iter().any(NodeUsage::has_gpus) {
            self.tell(
                "Prometheus has no samples of this cluster's GPUs; is a GPU exporter running \
                 and scraped?",
            );
        }
        stock.inventory.measure(&readings);
        Some(readings)
    }

    /// Reads the inventory together with the metrics of its devices.
    pub(crate) async fn stock(
        &self,
        quantities: &[Quantity],
    ) -> Result<(InventorySnapshot, Option<Readings>), Error> {
        let (stock, moment) = join(self.connection.inventory().stock(), self.now(quantities)).await;
        let (mut stock, moment) = (stock?, moment?);
        let readings = self.measure(&mut stock, moment.as_ref());
        Ok((stock, readings))
    }
}
