//! Analyzes a window: reads Prometheus and the API server concurrently and scores every device.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join;
use jiff::Timestamp;

use crate::commands::score::settings::Settings;
use crate::context::Context;
use crate::lookup;
use crate::observe::live::{self, NODE_QUANTITIES};
use crate::observe::metrics::{self, StoreUse};
use crate::observe::nodes;
use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::model::facts::reading::PodKey;
use gpuctl_core::model::{Series, UnixSeconds};
use gpuctl_core::stats::exporters::devices;
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::exporters::identity::ApiFacts;
use gpuctl_core::stats::exporters::query;
use gpuctl_core::stats::history::curves as history;
use gpuctl_core::stats::history::curves::Lifetimes;
use gpuctl_core::stats::score::selection::{Rules, Scored, held_by_pod, scored};
use gpuctl_core::stats::score::serving;
use gpuctl_prometheus::Window;

/// Metrics that determine a score.
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

/// Prometheus' default lookback in seconds: the age up to which it repeats a series' last value.
const MAX_LOOKBACK: i64 = 300;

/// All devices with their scores at one time.
#[derive(Clone, Debug)]
pub(crate) struct Analysis {
    pub devices: Vec<Scored>,
    /// Whole devices and instances of each pod in the inventory.
    pub held: BTreeMap<PodKey, u64>,
    pub rules: Rules,
    /// Truncated to seconds.
    pub at: Timestamp,
    pub took: Duration,
    /// The label `cluster` of exported scores.
    pub cluster: Option<String>,
}

/// Number of seconds for which a sample is valid: two scrape intervals, but at least two steps.
fn lookback(sample_counts: &[Series], step: i64) -> i64 {
    let intervals = sample_counts
        .iter()
        .filter_map(|series| query::interval(series.last()?.value));
    #[expect(clippy::cast_possible_truncation, reason = "at most five minutes")]
    let scrapes = intervals.fold(0.0, f64::max).ceil() as i64;
    (2 * scrapes + 1).max(2 * step).min(MAX_LOOKBACK)
}

/// Data from Prometheus for one window.
struct Measurements {
    reading: devices::ExporterReading,
    series: Vec<Series>,
    requests: Vec<Series>,
    lookback: i64,
}

/// Reads the window from Prometheus. Sets `connected` after Prometheus' first response.
async fn measure(
    connection: &Connection,
    context: &Context,
    window: Window,
    connected: &Cell<bool>,
) -> Result<Measurements, Error> {
    let timeout = context.access.request_timeout;
    let store_use = StoreUse::Sums {
        since: window.start,
    };
    let prometheus = metrics::find(context, connection, timeout, store_use).await?;
    let sample_counts = query::samples_counted(&query::names(&[Quantity::Utilization]));
    let (reading, sample_counts) = join(
        live::read(&prometheus, &NODE_QUANTITIES, None),
        prometheus.now(&sample_counts),
    )
    .await;
    let (reading, lookback) = (reading?, lookback(&sample_counts?, window.step));
    let recent = query::recent(&QUANTITIES, lookback);
    let requests = serving::query(window.end - window.start);
    let (series, requests) = join(
        prometheus.range(&recent, window),
        prometheus.query_at(&requests, window.end),
    )
    .await;
    let (series, requests) = (series?, requests?);
    metrics::print_warnings(context, &prometheus);
    connected.set(true);
    if reading.values.is_empty() && !prometheus.matchers().is_empty() {
        let (server, suffix) = (&prometheus.server, prometheus.matchers().suffix());
        context.terminal.warn(&format!(
            "Prometheus at {server} has no GPU series{suffix}: check `--match` and \
             `prometheus.matchers`"
        ));
    }
    Ok(Measurements {
        reading,
        series,
        requests,
        lookback,
    })
}

/// Runs one analysis. `connected` is set if Prometheus responded, even if the analysis fails later.
pub(crate) async fn analyze(
    settings: &Settings,
    context: &Context,
    connected: &Cell<bool>,
) -> Result<Analysis, Error> {
    connected.set(false);
    let connection = context.connect().await?;
    let now = context.now();
    let Settings {
        window,
        step,
        weights,
        thresholds,
        ..
    } = *settings;
    let (start, end) = (UnixSeconds::from(now) - window, UnixSeconds::from(now));
    let range = Window { start, end, step };
    let measurement = measure(&connection, context, range, connected);
    let (measurements, snapshot) = join(measurement, connection.inventory().snapshot()).await;
    let (measurements, snapshot) = (measurements?, snapshot?);
    let rules = Rules {
        start,
        end,
        step,
        lookback: measurements.lookback,
        weights,
        thresholds,
    };
    nodes::warn_of_missing_rights(&snapshot, context);
    let facts = ApiFacts::from_inventory(&snapshot.inventory, snapshot.consumers.as_ref());
    let readings = devices::read(&measurements.reading, &snapshot.inventory, &facts);
    let history = history::read(&measurements.series, &facts, &Lifetimes::new());
    let namespace_consumers = match snapshot.consumers {
        Some(_) => None,
        // The user may at least read the start times of pods in the current namespace.
        None => connection
            .inventory()
            .consumers(&connection.namespace)
            .await
            .ok(),
    };
    let pods = snapshot.consumers.as_ref().or(namespace_consumers.as_ref());
    if snapshot.consumers.is_none() {
        context.terminal.warn(
            "start times of pods in other namespaces are unknown, so their GPUs are not scored",
        );
    }
    let mut devices = scored(&readings, &history, &snapshot.inventory, pods, &rules);
    if let Some(namespace) = lookup::explicit_namespace(&connection) {
        // Drop holders in other namespaces from shared devices.
        for device in &mut devices {
            let holders = &mut device.reading.holders;
            holders.retain(|(holder, _)| holder == namespace);
        }
        devices.retain(|device| !device.reading.holders.is_empty());
    }
    let requests = serving::read(&measurements.requests);
    devices
        .iter_mut()
        .for_each(|device| device.set_serving(&requests));
    let time = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let duration = Duration::try_from(context.now().duration_since(now)).unwrap_or_default();
    Ok(Analysis {
        devices,
        held: held_by_pod(&snapshot.inventory),
        rules,
        at: time,
        took: duration,
        cluster: settings.cluster.clone(),
    })
}
