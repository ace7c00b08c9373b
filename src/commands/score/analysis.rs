//! Analyzes a window once: reads Prometheus and the API server concurrently, and scores every
//! device.

use std::cell::Cell;
use std::time::Duration;

use futures::future::join;
use jiff::Timestamp;

use crate::commands::score::settings::Settings;
use crate::context::Context;
use crate::observe::live::{self, OF_NODES};
use crate::observe::metrics::{self, StoreUse};
use crate::observe::nodes;
use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::model::{Series, UnixSeconds};
use gpuctl_core::stats::exporters::devices;
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::exporters::identity::ApiFacts;
use gpuctl_core::stats::exporters::query;
use gpuctl_core::stats::history::curves as history;
use gpuctl_core::stats::history::curves::Lifetimes;
use gpuctl_core::stats::score::selection::{Rules, Scored, scored};
use gpuctl_core::stats::score::serving;
use gpuctl_prometheus::Window;

/// The quantities that determine a score.
const QUANTITIES: [Quantity; 8] = [
    Quantity::Utilization,
    Quantity::MemoryCopy,
    Quantity::MemoryUsed,
    Quantity::MemoryFree,
    Quantity::MemoryTotal,
    Quantity::Power,
    Quantity::PowerLimit,
    Quantity::Clock,
];

/// The default lookback delta of Prometheus in seconds, for which it repeats a value.
const LONGEST_LOOKBACK: i64 = 300;

/// Devices with their scores at one time.
#[derive(Clone, Debug)]
pub(crate) struct Analysis {
    pub devices: Vec<Scored>,
    pub rules: Rules,
    /// Truncated to seconds.
    pub at: Timestamp,
    pub took: Duration,
}

/// Computes for how many seconds a sample remains valid: two intervals of recent scrapes, but at
/// least two steps.
fn lookback(counted: &[Series], step: i64) -> i64 {
    let intervals = counted
        .iter()
        .filter_map(|series| query::interval(series.last()?.value));
    #[expect(clippy::cast_possible_truncation, reason = "at most five minutes")]
    let scrapes = intervals.fold(0.0, f64::max).ceil() as i64;
    (2 * scrapes + 1).max(2 * step).min(LONGEST_LOOKBACK)
}

/// Data of Prometheus about a window.
struct Measured {
    moment: devices::ExporterReading,
    series: Vec<Series>,
    requests: Vec<Series>,
    lookback: i64,
}

/// Reads the window from Prometheus. Sets `connected` when it has responded.
async fn measured(
    connection: &Connection,
    context: &Context,
    span: Window,
    connected: &Cell<bool>,
) -> Result<Measured, Error> {
    let within = context.access.request_timeout;
    let used = StoreUse::Sums { since: span.start };
    let prometheus = metrics::find(context, connection, within, used).await?;
    let counted = query::samples_counted(&query::names(&[Quantity::Utilization]));
    let (moment, counted) = join(
        live::read(&prometheus, &OF_NODES, None),
        prometheus.now(&counted),
    )
    .await;
    let (moment, lookback) = (moment?, lookback(&counted?, span.step));
    let recent = query::recent(&QUANTITIES, lookback);
    let requests = serving::query(span.end - span.start);
    let (series, requests) = join(
        prometheus.range(&recent, span),
        prometheus.query_at(&requests, span.end),
    )
    .await;
    let (series, requests) = (series?, requests?);
    metrics::tell_warnings(context, &prometheus);
    connected.set(true);
    if moment.values.is_empty() && !prometheus.matchers().is_empty() {
        let (server, suffix) = (&prometheus.server, prometheus.matchers().suffix());
        context.terminal.warn(&format!(
            "Prometheus at {server} has no series of GPUs{suffix}: see `--match` and \
             `prometheus.matchers`"
        ));
    }
    Ok(Measured {
        moment,
        series,
        requests,
        lookback,
    })
}

/// Analyzes once. `connected` reports whether Prometheus responded, even if something else fails.
pub(crate) async fn analyze(
    settings: &Settings,
    context: &Context,
    connected: &Cell<bool>,
) -> Result<Analysis, Error> {
    connected.set(false);
    let connection = context.connect().await?;
    let begun = context.now();
    let Settings {
        window,
        step,
        weights,
        thresholds,
        ..
    } = *settings;
    let (start, end) = (UnixSeconds::from(begun) - window, UnixSeconds::from(begun));
    let span = Window { start, end, step };
    let asked = measured(&connection, context, span, connected);
    let (measured, stock) = join(asked, connection.inventory().stock()).await;
    let (measured, stock) = (measured?, stock?);
    let rules = Rules {
        start,
        end,
        step,
        lookback: measured.lookback,
        weights,
        thresholds,
    };
    nodes::warn_of(&stock, context);
    let facts = ApiFacts::from_inventory(&stock.inventory, stock.consumers.as_ref());
    let readings = devices::read(&measured.moment, &stock.inventory, &facts);
    let history = history::read(&measured.series, &facts, &Lifetimes::new());
    let own = match stock.consumers {
        Some(_) => None,
        // Start times of pods are readable at least in the own namespace.
        None => connection
            .inventory()
            .consumers(&connection.namespace)
            .await
            .ok(),
    };
    let pods = stock.consumers.as_ref().or(own.as_ref());
    if stock.consumers.is_none() {
        context.terminal.warn(
            "start times of pods in other namespaces are unknown, so their GPUs are not scored",
        );
    }
    let mut devices = scored(&readings, &history, &stock.inventory, pods, &rules);
    if connection.namespace_is_explicit {
        let namespace = &connection.namespace;
        // Of a shared device, count only the pods of this namespace.
        devices
            .iter_mut()
            .for_each(|device| device.reading.holders.retain(|(own, _)| own == namespace));
        devices.retain(|device| !device.reading.holders.is_empty());
    }
    let requests = serving::read(&measured.requests);
    devices
        .iter_mut()
        .for_each(|device| device.set_serving(&requests));
    let at = Timestamp::from_second(begun.as_second()).unwrap_or(begun);
    let took = Duration::try_from(context.now().duration_since(begun)).unwrap_or_default();
    Ok(Analysis {
        devices,
        rules,
        at,
        took,
    })
}
