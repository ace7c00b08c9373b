//! Reads what the devices of one job did lately and when it told its last step, for `why` of a job
//! that runs.

use std::collections::BTreeMap;

use futures::future::join;

use crate::context::Context;
use crate::observe::curves::lifetimes;
use crate::observe::optional_metrics::OptionalMetrics;
use crate::observe::progress::tail_of;
use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::model::{Job, PodPhase, UnixSeconds};
use gpuctl_core::stats::exporters::identity::{ApiFacts, IdentityReader};
use gpuctl_core::stats::exporters::query;
use gpuctl_core::stats::exporters::query::Pods;
use gpuctl_core::stats::history::curves as history;
use gpuctl_core::stats::logs::progress;
use gpuctl_core::stats::score::{bottlenecks, peers};
use gpuctl_diagnosis::RunningFacts;
use gpuctl_prometheus::Window;

/// Seconds that are looked at, and between two samples.
const WINDOW: i64 = 600;
const STEP: i64 = 15;
const SHORTEST_STEP: i64 = 5;
const POINTS: i64 = 40;
/// Lines of a log in which steps are looked for.
const LINES: u32 = 200;

/// Returns what is known of a job that runs; `None` for one without a pod that holds devices.
pub(crate) async fn running(
    context: &Context,
    connection: &Connection,
    job: &Job,
) -> Result<Option<RunningFacts>, Error> {
    let holding: Vec<&str> = job
        .pods
        .iter()
        .filter(|pod| pod.holds())
        .map(|pod| pod.name.as_str())
        .collect();
    if holding.is_empty() {
        return Ok(None);
    }
    let now = context.now();
    let end = UnixSeconds::from(now);
    let begin = job
        .started_at()
        .map_or(end - WINDOW, |at| UnixSeconds::from(at).max(end - WINDOW));
    // A job that has just begun has few samples, and the newest one is at the end.
    let step = ((end - begin) / POINTS).clamp(SHORTEST_STEP, STEP);
    let window = Window {
        start: end - (end - begin) / step * step,
        end,
        step,
    };
    let pods = Pods::named(&job.namespace, holding);
    let cells = OptionalMetrics::by_names(context, connection, WINDOW);
    let asked = query::gauges(&peers::READ, Some(&pods));
    let nodes = names_of_nodes(job);
    let beside = bottlenecks::query(&pods, &nodes);
    let answer = cells.optional(async |prometheus| {
        let (series, beside) =
            join(prometheus.range(&asked, window), prometheus.now(&beside)).await;
        Ok((
            series?,
            beside.ok().map(|answer| bottlenecks::read(&answer, &nodes)),
        ))
    });
    let (answer, lines) = join(answer, tail_of(connection, job, None, LINES)).await;
    let (series, bottlenecks) = answer?.unwrap_or_default();
    let traces = history::read(&series, &ApiFacts::default(), &lifetimes(job)).traces;
    let report = peers::compare(&traces, end.millis());
    let cadence = progress::cadence(
        lines
            .iter()
            .filter_map(|line| Some((line.at?, line.text.as_str()))),
    );
    let mut facts = RunningFacts {
        traces,
        report,
        bottlenecks,
        cadence,
        last_line: None,
    };
    let odd = facts
        .waited_for()
        .and_then(|device| facts.traces[device].pods.iter().next().cloned());
    if let Some((_, pod)) = odd {
        let last = tail_of(connection, job, Some(&pod), 1).await.pop();
        facts.last_line = last.map(|line| (line.at, line.text));
    }
    Ok(Some(facts))
}

/// Returns the nodes of the job by their names and addresses.
fn names_of_nodes(job: &Job) -> BTreeMap<String, String> {
    let named = job
        .pods
        .iter()
        .filter(|pod| pod.holds())
        .filter_map(|pod| Some((pod.node.clone()?, pod.host_ip.clone())));
    named
        .flat_map(|(node, address)| {
            address
                .map(|address| (address, node.clone()))
                .into_iter()
                .chain([(node.clone(), node)])
        })
        .collect()
}

/// Seconds around an end in which a device's error may have caused it.
const AROUND: i64 = 300;

/// Returns the errors that devices told around the end of the pod that failed first, by device;
/// none where no metrics tell.
pub(crate) async fn faults(
    context: &Context,
    connection: &Connection,
    job: &Job,
) -> Result<Vec<(String, u32)>, Error> {
    let failed = job
        .pods
        .iter()
        .filter(|pod| pod.phase == PodPhase::Failed)
        .filter_map(|pod| Some((pod.ended_at?, pod)));
    let Some((ended, pod)) = failed.min_by_key(|(ended, _)| *ended) else {
        return Ok(Vec::new());
    };
    let end = (UnixSeconds::from(ended) + AROUND).min(UnixSeconds::from(context.now()));
    let cells = OptionalMetrics::by_names(context, connection, WINDOW);
    let asked = query::xids(2 * AROUND);
    let Some(series) = cells
        .optional(async |prometheus| Ok(prometheus.at(&asked, end).await?))
        .await?
    else {
        return Ok(Vec::new());
    };
    let facts = ApiFacts::default();
    let reader = IdentityReader::new(&facts, &series);
    let own = |one: &&gpuctl_core::model::Series| {
        reader
            .named_pod(one)
            .is_some_and(|(space, name)| space == job.namespace && name == pod.name)
    };
    let fault = |one: &gpuctl_core::model::Series| {
        let (place, value) = (reader.place(one)?, one.points.last()?.value);
        let code =
            (value.is_finite() && (1.0..100_000.0).contains(&value)).then_some(value as u32)?;
        Some((
            format!("{}/gpu-{}", place.node, place.index.unwrap_or(0)),
            code,
        ))
    };
    Ok(series.iter().filter(own).filter_map(fault).collect())
}
