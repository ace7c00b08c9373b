//! Reads a running job's recent device metrics and the time of its last logged step, for `why`.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::{join, try_join_all};

use crate::context::Context;
use crate::observe::curves::lifetimes;
use crate::observe::optional_metrics::OptionalMetrics;
use crate::observe::progress::{readable_tail, tail_pod};
use gpuctl_cluster::{Connection, LogLine};
use gpuctl_core::error::Error;
use gpuctl_core::model::{Job, Series, UnixSeconds};
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::exporters::identity::{ApiFacts, IdentityReader, SeriesDevice};
use gpuctl_core::stats::exporters::query;
use gpuctl_core::stats::exporters::query::Pods;
use gpuctl_core::stats::exporters::xid_history::{self, XidReport};
use gpuctl_core::stats::history::curves as history;
use gpuctl_core::stats::history::curves::Trace;
use gpuctl_core::stats::logs::steps;
use gpuctl_core::stats::logs::steps::Cadence;
use gpuctl_core::stats::score::{bottlenecks, own_power, peers};
use gpuctl_diagnosis::{DeviceError, LogFacts, RunningFacts, first_failed};
use gpuctl_prometheus::Window;

/// Length of the metrics window, default step and minimum step, in seconds.
const WINDOW: i64 = 600;
const STEP_SECONDS: i64 = 15;
const MIN_STEP_SECONDS: i64 = 5;
const MAX_POINTS: i64 = 40;
/// Number of log lines to search for steps.
const LOG_LINES: u32 = 200;

/// Reads the facts about a running job, or returns `None` if no pod of the job holds devices.
pub(crate) async fn running(
    context: &Context,
    connection: &Connection,
    job: &Job,
) -> Result<Option<RunningFacts>, Error> {
    let pod_names: Vec<&str> = job
        .pods
        .iter()
        .filter(|pod| pod.holds())
        .map(|pod| pod.name.as_str())
        .collect();
    if pod_names.is_empty() {
        return Ok(None);
    }
    let now = context.now();
    let end = UnixSeconds::from(now);
    let start = job
        .started_at()
        .map_or(end - WINDOW, |at| UnixSeconds::from(at).max(end - WINDOW));
    // For a job that has just started, use a shorter step to get enough samples. Move the start, so
    // that a whole number of steps ends at `end`.
    let step = ((end - start) / MAX_POINTS).clamp(MIN_STEP_SECONDS, STEP_SECONDS);
    let window = Window {
        start: end - (end - start) / step * step,
        end,
        step,
    };
    let pods = Pods::by_name(&job.namespace, pod_names);
    let metrics = OptionalMetrics::for_names(context, connection, WINDOW);
    let query = query::gauges(&peers::READ, Some(&pods));
    let nodes = node_names(job);
    let bottleneck_query = bottlenecks::query(&pods, &nodes);
    let answer = metrics.optional(async |prometheus| {
        let (series, bottlenecks) = join(
            prometheus.range(&query, window),
            prometheus.now(&bottleneck_query),
        )
        .await;
        Ok((
            series?,
            bottlenecks
                .ok()
                .map(|answer| bottlenecks::read(&answer, &nodes)),
        ))
    });
    let (answer, lines) = join(answer, readable_tail(connection, job, None, LOG_LINES)).await;
    let (series, bottlenecks) = answer?.unwrap_or_default();
    let traces = history::read(&series, &ApiFacts::default(), &lifetimes(job)).traces;
    let report = peers::compare(&traces, end.millis());
    let mut facts = RunningFacts {
        traces,
        report,
        bottlenecks,
        cadence: lines.as_deref().and_then(cadence),
        log: lines.as_deref().map(log_facts),
        ..RunningFacts::default()
    };
    if facts.stalled(now).is_some() && !facts.traces.is_empty() {
        let earlier = earlier_power(&metrics, &pods, job, &facts).await?;
        own_power::compare_with_earlier(&mut facts.report, &facts.traces, &earlier, end.millis());
    }
    let waited_device = facts
        .blocking_device()
        .and_then(|device| facts.traces[device].pods.iter().next().cloned());
    if let Some((_, pod)) = waited_device {
        let lines = tail_pod(connection, job, Some(&pod), LOG_LINES).await;
        facts.waited_phase = log_facts(&lines).phase;
        facts.last_line = lines.last().map(|line| (line.at, line.text.clone()));
    }
    Ok(Some(facts))
}

fn cadence(lines: &[LogLine]) -> Option<Cadence> {
    let timed = lines.iter();
    steps::cadence(timed.filter_map(|line| Some((line.at?, line.text.as_str()))))
}

fn log_facts(lines: &[LogLine]) -> LogFacts {
    let timed = lines.iter().map(|line| (line.at, line.text.as_str()));
    LogFacts {
        last_at: lines.iter().rev().find_map(|line| line.at),
        phase: steps::current_phase(timed),
    }
}

/// Reads the power of the job's devices before its last step. Returns none without metrics.
async fn earlier_power(
    metrics: &OptionalMetrics<'_>,
    pods: &Pods,
    job: &Job,
    facts: &RunningFacts,
) -> Result<Vec<Trace>, Error> {
    let Some(last_step) = facts.cadence.as_ref().map(|cadence| cadence.last) else {
        return Ok(Vec::new());
    };
    let end = UnixSeconds::from(last_step);
    let started = job.started_at().map_or(end, UnixSeconds::from);
    let window = Window {
        start: (end - WINDOW).max(started.min(end)),
        end,
        step: STEP_SECONDS,
    };
    let query = query::gauges(&[Quantity::Power], Some(pods));
    let series = metrics
        .optional(async |prometheus| Ok(prometheus.range(&query, window).await?))
        .await?;
    let series = series.unwrap_or_default();
    Ok(history::read(&series, &ApiFacts::default(), &lifetimes(job)).traces)
}

/// Maps names and addresses of the job's nodes to node names.
fn node_names(job: &Job) -> BTreeMap<String, String> {
    let addresses = job
        .pods
        .iter()
        .filter(|pod| pod.holds())
        .filter_map(|pod| Some((pod.node.clone()?, pod.host_ip.clone())));
    addresses
        .flat_map(|(node, address)| {
            address
                .map(|address| (address, node.clone()))
                .into_iter()
                .chain([(node.clone(), node)])
        })
        .collect()
}

/// A device error can explain a failure if it comes at most this many seconds before it.
const BEFORE_SECONDS: i64 = 300;
/// Exporters may report an error this many seconds after it ended a pod: a sampling interval and a
/// scrape interval.
const AFTER_SECONDS: i64 = 120;
/// Length of the history in seconds that shows whether an error is older.
const HISTORY_SECONDS: i64 = 3600;

/// Queries the XID errors that the devices of the pod that failed first reported around its end.
/// Returns none without metrics.
pub(crate) async fn faults(
    context: &Context,
    connection: &Connection,
    job: &Job,
) -> Result<Vec<DeviceError>, Error> {
    let Some((pod, ended)) = first_failed(job).and_then(|pod| Some((pod, pod.ended_at?))) else {
        return Ok(Vec::new());
    };
    let ended = UnixSeconds::from(ended);
    let end = (ended + AFTER_SECONDS).min(UnixSeconds::from(context.now()));
    let begin = pod.started_at.map_or(ended - BEFORE_SECONDS, |started| {
        UnixSeconds::from(started).max(ended - BEFORE_SECONDS)
    });
    let facts = ApiFacts::default();
    let metrics = OptionalMetrics::for_names(context, connection, WINDOW);
    let query = query::xids(BEFORE_SECONDS + AFTER_SECONDS);
    let errors = metrics.optional(async |prometheus| {
        let nonzero = prometheus.query_at(&query, end).await?;
        let reader = IdentityReader::new(&facts, &nonzero);
        let is_of_pod = |series: &&Series| {
            reader
                .named_pod(series)
                .is_some_and(|(namespace, name)| namespace == job.namespace && name == pod.name)
        };
        let of_pod: Vec<&Series> = nonzero.iter().filter(is_of_pod).collect();
        if of_pod.is_empty() {
            return Ok(Vec::new());
        }
        let queries = xid_history::queries(&of_pod, HISTORY_SECONDS);
        let reads = queries.iter().map(|query| prometheus.query_at(query, end));
        let samples = try_join_all(reads).await?.concat();
        let boards: BTreeSet<SeriesDevice> = of_pod
            .into_iter()
            .filter_map(|series| reader.device(series))
            .map(SeriesDevice::without_slice)
            .collect();
        let reader = IdentityReader::new(&facts, &samples);
        let mut reports = xid_history::reports(&samples, &reader, begin.millis(), end.millis());
        reports.retain(|device, _| boards.contains(device));
        Ok(device_errors(reports))
    });
    Ok(errors.await?.unwrap_or_default())
}

fn device_errors(reports: BTreeMap<SeriesDevice, Vec<XidReport>>) -> Vec<DeviceError> {
    let error = |(device, report): (&SeriesDevice, XidReport)| DeviceError {
        device: format!("{}/gpu-{}", device.node, device.index.unwrap_or(0)),
        code: report.code,
        is_dated: report.is_dated,
    };
    let errors = reports
        .iter()
        .flat_map(|(device, reports)| reports.iter().map(move |report| error((device, *report))));
    errors.collect()
}
