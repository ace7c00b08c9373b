//! `gpuctl eff`: reports how well a job or workload used its GPUs, even after its pods were
//! deleted.

mod target;

use std::collections::BTreeSet;
use std::process::ExitCode;

use futures::future::try_join;
use jiff::Timestamp;

use crate::cli::history::eff::Eff;
use crate::concurrent::OrderedConcurrent;
use crate::context::Context;
use crate::observe::history::{ClusterHistory, clusters, pieces};
use crate::observe::past_namespace;
use crate::observe::past_queries::HistoryScope;
use crate::observe::times;
use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::model::facts::reading::PodKey;
use gpuctl_core::model::{Series, UnixSeconds, Watts};
use gpuctl_core::stats::exporters::kube_state;
use gpuctl_core::stats::exporters::kube_state::created;
use gpuctl_core::stats::history::allocations::{Allocation, AllocationHistory};
use gpuctl_core::stats::history::gpu_hours::{GpuHours, Spread, Works, add_work, advice};
use gpuctl_core::stats::history::serving_hours::ServingHours;
use gpuctl_core::stats::history::top_owner::TopOwner;
use gpuctl_core::stats::history::usage::Usage;
use gpuctl_prometheus::Window;
use gpuctl_view::history::efficiency as view;
use gpuctl_view::history::efficiency::Efficiency;
use gpuctl_view::{Format, document};

use target::{EffTarget, ambiguous, read_target};

/// Seconds between two samples in the search for the workload's lifetime.
const STEP: i64 = 300;

/// How far back to search by default.
const DEFAULT_START: &str = "7d";

/// Longest range in seconds to extend to, because each hour needs several requests: 92 days.
const MAX_SECONDS: i64 = 92 * 86_400;

/// Number of hours to read concurrently.
const MAX_CONCURRENT: usize = 3;

pub(crate) async fn run(args: &Eff, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    let now = context.now();
    let start = args.start.as_deref().unwrap_or(DEFAULT_START);
    let range = times::past(Some(start), args.end.as_deref(), now)?;
    let (cluster, access) = clusters(false, context)?.swap_remove(0);
    let connection = Connection::open(&access).await?;
    let mut history = ClusterHistory::open(cluster, context, &connection, range.0).await?;
    let target = read_target(args, &connection).await?;
    let Some((first, last)) = lifetime(&target, &history, range).await? else {
        return Err(missing(&target, start, &history, range, context).await);
    };
    // The first sample can be later than the workload, also inside the range: kube-state-metrics
    // may have been down.
    let created = created(&target, &history, range).await?;
    let earliest = match args.start {
        Some(_) => range.0,
        None => last - MAX_SECONDS,
    };
    let (first, began_before) = beginning(first, created, earliest);
    if let Some(created) = began_before {
        context.terminal.warn(&format!(
            "the workload began at {}, before the start of this range: its earlier hours are not \
             included",
            created.timestamp()
        ));
    }
    if first < range.0 {
        history.extend(first).await;
    }
    let sums = sum(&target, &history, pieces(first, last), context).await?;
    crate::observe::metrics::print_warnings(context, &history.prometheus);
    let Some(top) = sums.tops.first().cloned() else {
        return Err(missing(&target, start, &history, range, context).await);
    };
    if sums.tops.len() > 1 {
        return Err(ambiguous(&target.name, &sums.tops));
    }
    let answer = sums.efficiency(top, began_before.map(UnixSeconds::timestamp));
    context.terminal.print(
        &document(format, &view::document(&answer))
            .unwrap_or_else(|| view::text(&answer, context.terminal.style())),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Builds the error for a workload that held no GPUs in the range.
async fn missing(
    target: &EffTarget,
    start: &str,
    history: &ClusterHistory<'_>,
    range: (UnixSeconds, UnixSeconds),
    context: &Context,
) -> Error {
    let namespace = target.namespace.as_deref();
    match past_namespace::check(namespace, history, range, context).await {
        Ok(()) => target.not_found(start),
        Err(error) => error,
    }
}

/// Finds when the workload existed within a range. It may have started or ended between two
/// samples, so the result is one step longer at both ends.
async fn lifetime(
    target: &EffTarget,
    history: &ClusterHistory<'_>,
    (start, end): (UnixSeconds, UnixSeconds),
) -> Result<Option<(UnixSeconds, UnixSeconds)>, Error> {
    // A sample covers the step before it, so the last sample is at the end of the range.
    let sample_count = (end - start + STEP - 1) / STEP;
    let window = Window {
        start: end - sample_count * STEP,
        end,
        step: STEP,
    };
    let lifetime_series = history
        .prometheus
        .range(&kube_state::lifetimes(&target.name), window)
        .await?;
    let is_in_namespace = |series: &&Series| {
        target
            .namespace
            .as_deref()
            .is_none_or(|namespace| kube_state::label(series, "namespace") == Some(namespace))
    };
    let points = || {
        lifetime_series
            .iter()
            .filter(is_in_namespace)
            .flat_map(|series| &series.points)
            .map(|point| UnixSeconds(point.at / 1000))
    };
    Ok(points()
        .min()
        .zip(points().max())
        .map(|(first, last)| ((first - STEP).max(start), (last + STEP).min(end))))
}

/// Returns where to start reading, and when the workload was created if that is earlier. `first` is
/// the time of its first sample, and `earliest` the start of what may be read.
fn beginning(
    first: UnixSeconds,
    created: Option<UnixSeconds>,
    earliest: UnixSeconds,
) -> (UnixSeconds, Option<UnixSeconds>) {
    let start = created.map_or(first, |created| first.min(created.max(earliest)));
    (start, created.filter(|created| *created < start))
}

/// Reads when the workload or its first pod that existed in the range was created.
async fn created(
    target: &EffTarget,
    history: &ClusterHistory<'_>,
    (start, end): (UnixSeconds, UnixSeconds),
) -> Result<Option<UnixSeconds>, Error> {
    let query = created::query(&target.name, end - start);
    let series = history.prometheus.query_at(&query, end).await?;
    let is_in_namespace = |series: &&Series| {
        let namespace = kube_state::label(series, "namespace");
        target
            .namespace
            .as_deref()
            .is_none_or(|name| namespace == Some(name))
    };
    Ok(created::first(series.iter().filter(is_in_namespace)))
}

/// Reads the hours concurrently and adds them up.
async fn sum(
    target: &EffTarget,
    history: &ClusterHistory<'_>,
    pieces: Vec<(UnixSeconds, UnixSeconds)>,
    context: &Context,
) -> Result<Sums, Error> {
    let bar = context.terminal.progress(pieces.len() as u64, "hours");
    let scope = HistoryScope {
        memory: true,
        power: true,
        ..HistoryScope::default()
    };
    let read = async |(from, to): (UnixSeconds, UnixSeconds)| {
        let answers = try_join(history.read(from, to, scope), history.servers(from, to)).await?;
        bar.inc(1);
        Ok::<_, Error>(answers)
    };
    let mut hours = OrderedConcurrent::new(pieces.into_iter().map(read), MAX_CONCURRENT);
    let mut sums = Sums::default();
    while let Some(hour) = hours.next().await {
        let ((history, usage), servers) = hour?;
        let is_target = |allocation: &Allocation| target.matches(&allocation.top);
        sums.add(&history, &usage, is_target);
        if let Some(serving) = servers.hours(&history, is_target) {
            sums.serving.get_or_insert_default().add(serving);
        }
    }
    drop(hours);
    bar.finish_and_clear();
    Ok(sums)
}

/// Totals of all hours.
#[derive(Default)]
struct Sums {
    gpu_hours: GpuHours,
    works: Works,
    tops: BTreeSet<TopOwner>,
    /// Maximum number of devices that were held at the same time.
    max_held: u64,
    pods: BTreeSet<PodKey>,
    serving: Option<ServingHours>,
    wait: Wait,
    /// Start of the first and end of the last slot with a held device, in Unix milliseconds.
    lifetime: Option<(i64, i64)>,
    dropped: u64,
}

impl Sums {
    fn add(
        &mut self,
        history: &AllocationHistory,
        usage: &Usage,
        is_target: impl Fn(&Allocation) -> bool + Copy,
    ) {
        let matching = || {
            history
                .allocations
                .iter()
                .filter(|tenure| is_target(tenure))
        };
        self.tops
            .extend(matching().map(|tenure| tenure.top.clone()));
        self.gpu_hours.add(GpuHours::new(history, usage, is_target));
        add_work(&mut self.works, history, usage, is_target);
        self.wait.add(history, is_target);
        self.lifetime = extend_lifetime(self.lifetime, history, is_target);
        let members = history.group(is_target);
        self.dropped += usage.dropped_of(&members.whole.union(&members.parts).copied().collect());
        self.pods
            .extend(matching().map(|tenure| tenure.pod.clone()));
        let held = |slot: usize| {
            matching()
                .filter(|tenure| tenure.held[slot])
                .map(Allocation::units)
                .sum::<u64>()
        };
        self.max_held = (0..history.observed.len())
            .map(held)
            .fold(self.max_held, u64::max);
    }

    fn efficiency(self, top: TopOwner, began_before: Option<Timestamp>) -> Efficiency {
        let limit = usage_limit(&self.works);
        let spread = Spread {
            most: self.max_held,
            pods: self.pods.len(),
        };
        let timestamp =
            |milliseconds: i64| Timestamp::from_millisecond(milliseconds).unwrap_or_default();
        Efficiency {
            top,
            began_before,
            from: self.lifetime.map(|(from, _)| timestamp(from)),
            to: self.lifetime.map(|(_, to)| timestamp(to)),
            wait_seconds: self.wait.seconds,
            advice: advice(&self.works, spread, limit, self.serving),
            serving: self.serving,
            account: self.gpu_hours,
            works: self.works,
            dropped: self.dropped,
        }
    }
}

/// How long the workload waited from its first GPU request until it held its first GPU.
#[derive(Default)]
struct Wait {
    seconds: f64,
    has_ended: bool,
}

impl Wait {
    fn add(&mut self, history: &AllocationHistory, is_target: impl Fn(&Allocation) -> bool) {
        let matching: Vec<&Allocation> = history
            .allocations
            .iter()
            .filter(|tenure| is_target(tenure))
            .collect();
        for slot in 0..history.observed.len() {
            if matching.iter().any(|tenure| tenure.held[slot]) {
                self.has_ended = true;
            }
            if !self.has_ended && matching.iter().any(|tenure| tenure.requested[slot]) {
                self.seconds += history.slot as f64 / 1000.0;
            }
        }
    }
}

/// Extends the lifetime (Unix milliseconds) by the slots of an hour in which a device was held.
fn extend_lifetime(
    lifetime: Option<(i64, i64)>,
    history: &AllocationHistory,
    is_target: impl Fn(&Allocation) -> bool,
) -> Option<(i64, i64)> {
    let matching: Vec<&Allocation> = history
        .allocations
        .iter()
        .filter(|tenure| is_target(tenure))
        .collect();
    let held = |slot: &usize| matching.iter().any(|tenure| tenure.held[*slot]);
    let slots: Vec<usize> = (0..history.observed.len()).filter(held).collect();
    let (Some(first), Some(last)) = (slots.first(), slots.last()) else {
        return lifetime;
    };
    let time =
        |slot: usize| history.span.start + i64::try_from(slot).unwrap_or(i64::MAX) * history.slot;
    let (from, to) = (time(*first), time(last + 1).min(history.span.end));
    Some(lifetime.map_or((from, to), |(first_start, _)| (first_start, to)))
}

/// The power limit of the devices, if it is known and the same for all.
fn usage_limit(works: &Works) -> Option<Watts> {
    let mut limits = works.values().map(|work| {
        work.model
            .as_deref()
            .and_then(gpuctl_core::stats::exporters::limits::watts)
    });
    let first = limits.next()??;
    limits.all(|limit| limit == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_starts_at_the_creation_of_the_workload() {
        let day = |number: i64| UnixSeconds(number * 86_400);
        // A job of day 10. Its samples begin 20 minutes after the start of the range, on day 13,
        // because kube-state-metrics was down: days 10 to 13 belong to it too.
        let first = day(13) + 1200;
        assert_eq!(beginning(first, Some(day(10)), day(0)), (day(10), None));
        // With `--start`, they do not, and the workload began before the range.
        assert_eq!(
            beginning(first, Some(day(10)), day(13)),
            (day(13), Some(day(10)))
        );
        // A job inside the range, and one of unknown age.
        assert_eq!(
            beginning(first, Some(day(13) + 600), day(13)),
            (day(13) + 600, None)
        );
        assert_eq!(beginning(first, None, day(13)), (first, None));
        // A creation after the first sample is that of a later object of the same name.
        assert_eq!(beginning(first, Some(day(14)), day(13)), (first, None));
    }
}
