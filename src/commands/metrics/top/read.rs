//! Reads the cockpit's data: objects after each change, metrics at each refresh, and half an hour
//! of curves at startup.

use std::cell::{Cell, RefCell};

use futures::future::join3;
use tokio::sync::OnceCell;

use crate::context::Context;
use crate::observe::live::DEVICE_QUANTITIES;
use crate::observe::optional_metrics::OptionalMetrics;
use crate::observe::workloads::CachedObjects;
use gpuctl_cluster::{Connection, OtherPods, OwnersAndInventory, ServedQueueing};
use gpuctl_core::error::Error;
use gpuctl_core::model::{Inventory, Queue};
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::exporters::identity::ApiFacts;
use gpuctl_core::stats::exporters::query;
use gpuctl_core::stats::history::curves as history;
use gpuctl_core::stats::history::curves::Lifetimes;
use gpuctl_prometheus::Window;
use gpuctl_view::cockpit::{CockpitSnapshot, Curves};

/// Resolution of the curves in seconds.
const STEP: i64 = 60;

/// Reads snapshots for the cockpit.
pub(super) struct SnapshotReader<'c> {
    context: &'c Context,
    connection: &'c Connection,
    /// How to read pods without devices. Only the dashboard shows their names.
    others: OtherPods,
    metrics: OptionalMetrics<'c>,
    cached_objects: CachedObjects,
    served: OnceCell<ServedQueueing>,
    /// Queues from the last successful read, which remain after a failed read.
    queues: RefCell<Option<Vec<Queue>>>,
    /// Whether missing permissions were reported.
    has_warned: Cell<bool>,
}

impl<'c> SnapshotReader<'c> {
    pub(super) fn new(context: &'c Context, connection: &'c Connection, others: OtherPods) -> Self {
        Self {
            context,
            connection,
            others,
            metrics: OptionalMetrics::new(context, connection),
            cached_objects: CachedObjects::new(others == OtherPods::Named),
            served: OnceCell::new(),
            queues: RefCell::default(),
            has_warned: Cell::default(),
        }
    }

    /// Reads a snapshot. Rereads objects if `fresh` is true.
    pub(super) async fn read(&self, fresh: bool) -> Result<CockpitSnapshot, Error> {
        let connection = self.connection;
        let namespace = connection
            .namespace_is_explicit
            .then_some(connection.namespace.as_str());
        let (objects, reading, ()) = join3(
            self.cached_objects.get_or_read(
                fresh,
                connection.workloads().snapshot(namespace, self.others),
            ),
            self.metrics.now(&DEVICE_QUANTITIES),
            self.read_queues(namespace),
        )
        .await;
        let (
            OwnersAndInventory {
                owners,
                inventory: stock,
            },
            reading,
        ) = (objects?, reading?);
        let mut snapshot = stock.ok();
        let mut missing_rights = Vec::new();
        if let Some(namespace) = &owners.narrowed_to {
            missing_rights.push(format!(
                "you are not allowed to list pods in all namespaces; only `{namespace}` is shown"
            ));
        }
        missing_rights.extend(owners.unreadable.iter().map(|kind| {
            format!("you are not allowed to list {kind}s: those without pods are not shown")
        }));
        if snapshot.is_none() {
            missing_rights
                .push("you are not allowed to list nodes: nodes and GPUs are not shown".to_owned());
        }
        if !self.has_warned.replace(true) {
            missing_rights.iter().for_each(|missing_right| {
                self.context.terminal.warn_missing_permission(missing_right);
            });
        }
        let readings = snapshot
            .as_mut()
            .and_then(|snapshot| self.metrics.measure(snapshot, reading.as_ref()));
        let (inventory, consumers) = snapshot
            .map(|snapshot| (snapshot.inventory, snapshot.consumers))
            .unzip();
        let consumers = consumers.flatten();
        let no_nodes = Inventory::default();
        let workloads = owners
            .forest
            .workloads(inventory.as_ref().unwrap_or(&no_nodes));
        let queues = self.queues.borrow().clone();
        let snapshot = CockpitSnapshot::new(
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
        // Only the dashboard shows queues.
        if self.others != OtherPods::Named {
            return;
        }
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
        if let Ok((queues, _)) = self.connection.queues().list(served, namespace).await {
            self.queues.replace(Some(queues));
        }
    }

    /// Reads the curves before the first snapshot. Returns empty curves without metrics.
    pub(super) async fn past(&self, snapshot: &CockpitSnapshot) -> Curves {
        let window = Window {
            start: snapshot.begin(),
            end: snapshot.at.into(),
            step: STEP,
        };
        let query = query::recent(&[Quantity::Utilization], 2 * STEP);
        let series = self
            .metrics
            .optional(async |prometheus| Ok(prometheus.range(&query, window).await?))
            .await;
        series
            .ok()
            .flatten()
            .map_or_else(Curves::default, |series| {
                snapshot.curves(&history::read(
                    &series,
                    &ApiFacts::default(),
                    &Lifetimes::new(),
                ))
            })
    }
}
