//! Reads the cockpit's data: objects after a change, metrics at every refresh, and once the curves
//! of the last half hour.

use std::cell::{Cell, RefCell};

use futures::future::join3;
use tokio::sync::OnceCell;

use crate::context::Context;
use crate::observe::live::OF_DEVICES;
use crate::observe::optional_metrics::OptionalMetrics;
use crate::observe::workloads::KeptObjects;
use gpuctl_cluster::{Connection, OtherPods, OwnersAndStock, ServedQueueing};
use gpuctl_core::error::Error;
use gpuctl_core::model::Queue;
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::exporters::identity::ApiFacts;
use gpuctl_core::stats::exporters::query;
use gpuctl_core::stats::history::curves as history;
use gpuctl_core::stats::history::curves::Lifetimes;
use gpuctl_prometheus::Window;
use gpuctl_view::cockpit::{CockpitSnapshot, Curves};

/// Seconds between two points of the curves.
const STEP: i64 = 60;

/// Reads snapshots for the cockpit.
pub(super) struct SnapshotReader<'c> {
    context: &'c Context,
    connection: &'c Connection,
    cells: OptionalMetrics<'c>,
    kept: KeptObjects,
    served: OnceCell<ServedQueueing>,
    /// The queues of the last successful read. A failed read does not clear them.
    queues: RefCell<Option<Vec<Queue>>>,
    /// Whether the user was already warned about missing rights.
    told: Cell<bool>,
}

impl<'c> SnapshotReader<'c> {
    pub(super) fn new(context: &'c Context, connection: &'c Connection) -> Self {
        Self {
            context,
            connection,
            cells: OptionalMetrics::new(context, connection),
            kept: KeptObjects::new(true),
            served: OnceCell::new(),
            queues: RefCell::default(),
            told: Cell::default(),
        }
    }

    /// Reads a snapshot. Objects are read again if `fresh` is set.
    pub(super) async fn look(&self, fresh: bool) -> Result<CockpitSnapshot, Error> {
        let connection = self.connection;
        let namespace = connection
            .namespace_is_explicit
            .then_some(connection.namespace.as_str());
        let (objects, moment, ()) = join3(
            self.kept.or(
                fresh,
                connection
                    .workloads()
                    .owners_and_stock(namespace, OtherPods::Named),
            ),
            self.cells.now(&OF_DEVICES),
            self.read_queues(namespace),
        )
        .await;
        let (OwnersAndStock { owners, stock }, moment) = (objects?, moment?);
        let mut stock = stock.ok();
        let mut lacks = Vec::new();
        if let Some(namespace) = &owners.narrowed_to {
            lacks.push(format!(
                "you may not list pods of all namespaces; only `{namespace}` is shown"
            ));
        }
        lacks.extend(
            owners
                .unreadable
                .iter()
                .map(|kind| format!("you may not list {kind}s: those without pods are not shown")),
        );
        if stock.is_none() {
            lacks.push("you may not list nodes: nodes and GPUs are not shown".to_owned());
        }
        if !self.told.replace(true) {
            lacks
                .iter()
                .for_each(|lack| self.context.terminal.warn_missing_permission(lack));
        }
        let readings = stock
            .as_mut()
            .and_then(|stock| self.cells.measure(stock, moment.as_ref()));
        let (inventory, consumers) = stock
            .map(|stock| (stock.inventory, stock.consumers))
            .unzip();
        let (inventory, consumers) = (inventory.unwrap_or_default(), consumers.flatten());
        let workloads = owners.forest.workloads(&inventory);
        let queues = self.queues.borrow().clone();
        let snapshot = CockpitSnapshot::of(
            inventory,
            consumers.as_ref(),
            &workloads,
            readings,
            queues,
            self.context.now(),
        );
        Ok(CockpitSnapshot {
            narrowed_to: owners.narrowed_to,
            ..snapshot
        })
    }

    async fn read_queues(&self, namespace: Option<&str>) {
        let Ok(served) = self
            .served
            .get_or_try_init(|| self.connection.queues().served())
            .await
        else {
            return;
        };
        if served.systems().next().is_none() {
            return;
        }
        if let Ok((found, _)) = self.connection.queues().list(served, namespace).await {
            self.queues.replace(Some(found));
        }
    }

    /// Reads the curves before the first snapshot; empty without metrics.
    pub(super) async fn past(&self, snapshot: &CockpitSnapshot) -> Curves {
        let window = Window {
            start: snapshot.begin(),
            end: snapshot.at.into(),
            step: STEP,
        };
        let query = query::recent(&[Quantity::Utilization], 2 * STEP);
        let found = self
            .cells
            .optional(async |prometheus| Ok(prometheus.range(&query, window).await?))
            .await;
        found.ok().flatten().map_or_else(Curves::default, |series| {
            snapshot.curves(&history::read(
                &series,
                &ApiFacts::default(),
                &Lifetimes::new(),
            ))
        })
    }
}
