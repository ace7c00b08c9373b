//! Reads what the cockpit shows: objects when they have changed, metrics every time, and once the curves of the last half hour.

use std::collections::BTreeMap;

use futures::future::join4;

use crate::cluster::{Connection, ServedQueueing};
use crate::cockpit::{Curves, Snapshot, gpu_name};
use crate::context::Context;
use crate::error::Error;
use crate::model::{Point, Queue};
use crate::observe::metrics::OF_DEVICES;
use crate::observe::optional_metrics::OptionalMetrics;
use crate::observe::workloads::KeptObjects;
use crate::prometheus::Window;
use crate::stats::dialect::Quantity;
use crate::stats::history::{self, Lifetimes};
use crate::stats::identity::ApiFacts;
use crate::stats::query;

/// Seconds between two points of the curves.
const STEP: i64 = 60;

/// Where snapshots come from.
pub(super) struct Reader<'c> {
    context: &'c Context,
    connection: &'c Connection,
    cells: OptionalMetrics<'c>,
    kept: KeptObjects,
    /// `None` where no queueing system is served, or that may not be seen.
    queueing: Option<ServedQueueing>,
}

impl<'c> Reader<'c> {
    pub(super) async fn new(context: &'c Context, connection: &'c Connection) -> Self {
        let queueing = connection.served_queueing().await.ok().filter(|served| served.systems().next().is_some());
        Self { context, connection, cells: OptionalMetrics::new(context, connection), kept: KeptObjects::new(), queueing }
    }

    /// Reads a snapshot. Objects are read again when `fresh` ones are wanted.
    pub(super) async fn look(&self, fresh: bool) -> Result<Snapshot, Error> {
        let connection = self.connection;
        let namespace = connection.namespace_is_explicit.then_some(connection.namespace.as_str());
        let (owners, stock, moment, queues) = join4(
            self.kept.owners.or(fresh, connection.owners(namespace)),
            self.kept.stock.or(fresh, connection.stock()),
            self.cells.now(&OF_DEVICES),
            self.queues(namespace),
        )
        .await;
        let (owners, mut stock, moment) = (owners?, stock?, moment?);
        let readings = self.cells.measure(&mut stock, moment.as_ref());
        let workloads = owners.forest.workloads(&stock.inventory);
        Ok(Snapshot::of(stock.inventory, &workloads, readings, queues, self.context.now()))
    }

    async fn queues(&self, namespace: Option<&str>) -> Option<Vec<Queue>> {
        let (found, _) = self.connection.queues(self.queueing.as_ref()?, namespace).await.ok()?;
        Some(found)
    }

    /// Reads the curves before the first snapshot; empty without metrics.
    pub(super) async fn past(&self, snapshot: &Snapshot) -> Curves {
        let window = Window { start: snapshot.begin(), end: snapshot.at.into(), step: STEP };
        let query = query::recent(&[Quantity::Utilization], 2 * STEP);
        let found = self.cells.optional(async |prometheus| Ok(prometheus.range(&query, window).await?)).await;
        found.ok().flatten().map_or_else(Curves::default, |series| {
            curves(snapshot, &history::read(&series, &ApiFacts::default(), &Lifetimes::new()))
        })
    }
}

/// Means of the devices of each node and each job, and each device's own curve. A device counts to a job since the job runs.
fn curves(snapshot: &Snapshot, history: &history::History) -> Curves {
    let mut sums: BTreeMap<String, BTreeMap<i64, (f64, f64)>> = BTreeMap::new();
    let mut add = |line: String, points: &[Point], since: i64| {
        let line = sums.entry(line).or_default();
        for point in points.iter().filter(|point| point.at >= since) {
            let (sum, number) = line.entry(point.at).or_default();
            (*sum, *number) = (*sum + point.value, *number + 1.0);
        }
    };
    let traces: BTreeMap<String, &history::Trace> =
        history.traces.iter().map(|trace| (format!("{}/{}", trace.node, trace.id()), trace)).collect();
    for gpu in &snapshot.gpus {
        let Some(trace) = traces.get(&gpu_name(gpu)) else { continue };
        let points = trace.curve(Quantity::Utilization);
        add(gpu_name(gpu), points, 0);
        add(gpu.node.clone(), points, 0);
        let jobs = gpu.holders.iter().filter_map(|(namespace, pod)| snapshot.job_of(namespace, pod));
        let jobs: BTreeMap<String, i64> =
            jobs.map(|job| (job.full_name(), job.since.map_or(i64::MAX, jiff::Timestamp::as_millisecond))).collect();
        jobs.into_iter().for_each(|(name, since)| add(name, points, since));
    }
    let mut curves = Curves::default();
    for (line, points) in sums {
        let mean = |(at, (sum, number)): (i64, (f64, f64))| Point { at, value: sum / number };
        curves.prepend(line, points.into_iter().map(mean).collect());
    }
    curves
}
