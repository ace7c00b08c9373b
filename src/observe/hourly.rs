//! Builds the hourly rows of one cluster, from the cache for closed hours and from Prometheus for
//! all others.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use futures::stream::{self, StreamExt, TryStreamExt};

use crate::context::Context;
use crate::observe::history::{ClusterHistory, uids};
use crate::observe::past_namespace;
use crate::observe::past_queries::HistoryScope;
use gpuctl_cluster::{Access, Connection};
use gpuctl_core::error::Error;
use gpuctl_core::model::UnixSeconds;
use gpuctl_core::model::values::natural;
use gpuctl_core::stats::exporters::kube_state;
use gpuctl_core::stats::exporters::query;
use gpuctl_core::stats::history::allocations::{Allocation, AllocationHistory};
use gpuctl_core::stats::history::hourly::{sum, workloads};
use gpuctl_core::stats::history::usage::Usage;
use gpuctl_local::cache::Cache;
use gpuctl_view::history::hourly as view;
use gpuctl_view::history::hourly::{Hour, HourlyRow, RowKind};

/// Error if no series has the requested label or annotation.
pub(crate) const LABEL_NOT_EXPORTED: &str = "no pod with GPUs has this label or annotation; \
    kube-state-metrics must export them: --metric-labels-allowlist=pods=[*], \
    --metric-annotations-allowlist=pods=[*]";

const HOUR: i64 = 3600;

/// Number of hours to query concurrently.
const MAX_CONCURRENT: usize = 4;

/// Number of hours to query concurrently if the queries include memory, which returns far more
/// data.
const MAX_CONCURRENT_WITH_MEMORY: usize = 2;

/// Number of seconds after the end of an hour until all of its samples have arrived.
const SETTLE_SECONDS: i64 = 900;

/// Number of samples above which a note announces a long read.
const MANY_SAMPLES: f64 = 1e7;

/// Groups pods by a label or by an annotation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Dimension {
    #[default]
    Label,
    Annotation,
}

impl Dimension {
    pub(crate) fn word(self) -> &'static str {
        self.into()
    }
}

/// Which rows to build, and for which pods.
pub(crate) struct RowQuery<'a> {
    pub kind: RowKind,
    /// Limits the rows to this namespace, unless they have a namespace column.
    pub namespace: Option<&'a str>,
    pub dimension: Option<(Dimension, &'a str)>,
    /// The namespace of `-n`, which must exist or have existed.
    pub expected_namespace: Option<&'a str>,
}

impl RowQuery<'_> {
    /// The query as text, for the cache key.
    fn text(&self) -> String {
        let dimension = self.dimension.map_or(String::new(), |(dimension, key)| {
            format!(" {} {key}", dimension.word())
        });
        format!("{:?}{dimension} {:?}", self.kind, self.namespace)
    }

    fn scope(&self) -> HistoryScope {
        HistoryScope {
            memory: self.kind == RowKind::Workloads,
            names: matches!(self.kind, RowKind::Workloads | RowKind::Labels),
            ..HistoryScope::default()
        }
    }

    /// Whether the rows show that a namespace existed.
    fn covers(&self, rows: &[HourlyRow], namespace: &str) -> bool {
        match self.kind {
            RowKind::Labels => !rows.is_empty(),
            _ => rows.iter().any(|row| row.namespace() == Some(namespace)),
        }
    }

    fn concurrency(&self) -> usize {
        if self.scope().memory {
            MAX_CONCURRENT_WITH_MEMORY
        } else {
            MAX_CONCURRENT
        }
    }

    fn rows(&self, hour: &Hour<'_>, ledger: &AllocationHistory, usage: &Usage) -> Vec<HourlyRow> {
        match self.kind {
            RowKind::Cluster => {
                let total = sum(ledger, usage, &ledger.group(|_| true), true);
                vec![view::cluster_row(
                    hour,
                    ledger.capacity,
                    &ledger.part_capacity(),
                    total.as_ref(),
                    usage.dropped,
                )]
            }
            RowKind::Namespaces => {
                let names: BTreeSet<&str> = ledger
                    .allocations
                    .iter()
                    .map(|tenure| tenure.pod.0.as_str())
                    .collect();
                let sums = |name: &&str| {
                    sum(
                        ledger,
                        usage,
                        &ledger.group(|tenure| tenure.pod.0 == **name),
                        false,
                    )
                };
                let row = |name: &str| {
                    Some(view::namespace_row(
                        hour,
                        ledger.capacity,
                        name,
                        &sums(&name)?,
                    ))
                };
                natural::sorted(names).into_iter().filter_map(row).collect()
            }
            RowKind::Labels => {
                let Some((dimension, key)) = self.dimension else {
                    return Vec::new();
                };
                let label = kube_state::label_key(key);
                let is_selected =
                    |tenure: &Allocation| self.namespace.is_none_or(|name| name == tenure.pod.0);
                let value = |tenure: &Allocation| {
                    metadata(tenure, dimension)
                        .filter(|_| is_selected(tenure))?
                        .get(&label)
                        .cloned()
                };
                let values: BTreeSet<String> =
                    ledger.allocations.iter().filter_map(value).collect();
                let row = |label_value: &String| {
                    let group = ledger.group(|tenure| value(tenure).as_ref() == Some(label_value));
                    let sum = sum(ledger, usage, &group, false)?;
                    Some(view::dimension_row(
                        hour,
                        [dimension.word(), key, label_value],
                        &sum,
                    ))
                };
                natural::sorted(&values)
                    .into_iter()
                    .filter_map(row)
                    .collect()
            }
            RowKind::Workloads => workloads(ledger, usage)
                .iter()
                .map(|workload| view::workload_row(hour, workload))
                .collect(),
        }
    }
}

fn metadata(tenure: &Allocation, dimension: Dimension) -> Option<&BTreeMap<String, String>> {
    match dimension {
        Dimension::Label => tenure.labels.as_ref(),
        Dimension::Annotation => tenure.annotations.as_ref(),
    }
}

/// Builds the rows of one cluster in order of time.
pub(crate) async fn read_cluster(
    query: &RowQuery<'_>,
    cluster: String,
    access: &Access,
    (first, last, now): (UnixSeconds, UnixSeconds, UnixSeconds),
    no_cache: bool,
    context: &Context,
) -> Result<Vec<HourlyRow>, Error> {
    let connection = Connection::open(access).await?;
    let history = ClusterHistory::open(cluster, context, &connection, first).await?;
    let cache = if no_cache {
        Cache::disabled()
    } else {
        Cache::hourly_rows()
    };
    let starts = (first.0..last.min(now).0)
        .step_by(usize::try_from(HOUR).expect("an hour has 3,600 seconds"))
        .map(UnixSeconds);
    let starts: Vec<UnixSeconds> = starts.collect();
    let hour_count = starts.len();
    // Skip hours before the store's first sample.
    let with_samples = starts
        .iter()
        .filter(|start| !history.is_before_first_sample((**start + HOUR).min(now)));
    warn_of_many_samples(&history, with_samples.count(), last.min(now), context).await;
    let bar = context.terminal.progress(starts.len() as u64, "hours");
    let (hours_read, empty_hours) = (Cell::new(0_usize), Cell::new(0_usize));
    let read_hour = async |start: UnixSeconds| {
        let end = (start + HOUR).min(now);
        // An open hour may still receive samples, so it is not cached.
        let closed = start + HOUR + SETTLE_SECONDS < now;
        let key = history.cache_key(&query.text(), start).filter(|_| closed);
        if let Some(cached) = key
            .as_ref()
            .and_then(|key| cache.get(key))
            // Read the hour again if the cached value has an outdated format.
            .and_then(|cached| HourlyRow::read(query.kind, cached))
        {
            bar.inc(1);
            return Ok(cached);
        }
        let read = history.read_hour(start, end, query.scope()).await?;
        let (allocations, usage) = (&read.allocations, &read.usage);
        hours_read.set(hours_read.get() + 1);
        empty_hours.set(empty_hours.get() + usize::from(allocations.observed_slots() == 0));
        let hour = Hour {
            cluster: &history.cluster,
            start: start.timestamp(),
            end: end.timestamp(),
            partial: start + HOUR > now,
        };
        let rows = query.rows(&hour, allocations, usage);
        // Do not cache an hour without samples, because a store that was down may backfill them
        // later. Do not cache a response with warnings, because it may be incomplete. An hour that
        // uses samples of the rest of the range is different in another range.
        let is_final = allocations.observed_slots() > 0
            && !history.prometheus.has_warned()
            && !read.may_differ;
        if let Some(key) = key.filter(|_| is_final) {
            cache.put(&key, &rows);
        }
        bar.inc(1);
        Ok::<_, Error>(rows)
    };
    // With unordered buffering, the next hour starts as soon as any hour completes. The rows are
    // sorted by index afterwards.
    let numbered = async |(number, start)| Ok::<_, Error>((number, read_hour(start).await?));
    let hours = stream::iter(starts.into_iter().enumerate())
        .map(numbered)
        .buffer_unordered(query.concurrency());
    let rows_by_hour: Result<BTreeMap<usize, Vec<HourlyRow>>, Error> = hours.try_collect().await;
    bar.finish_and_clear();
    crate::observe::metrics::print_warnings(context, &history.prometheus);
    if hours_read.get() == hour_count && empty_hours.get() == hour_count && hour_count > 0 {
        warn_of_no_data(&history, context);
    }
    let mut rows: Vec<HourlyRow> = rows_by_hour?.into_values().flatten().collect();
    let unseen = query
        .expected_namespace
        .filter(|name| !query.covers(&rows, name));
    past_namespace::check(unseen, &history, (first, last.min(now)), context).await?;
    if query.kind == RowKind::Workloads {
        add_uids(&connection, first + HOUR, &mut rows).await;
    }
    Ok(rows)
}

fn warn_of_no_data(history: &ClusterHistory<'_>, context: &Context) {
    context.terminal.warn(&format!(
        "Prometheus at {} has no data about pods for this time{}: \
         it must have scraped kube-state-metrics",
        history.prometheus.server,
        history.prometheus.matchers().suffix()
    ));
}

/// Adds the UIDs of workloads that still exist and were created before `end`.
async fn add_uids(connection: &Connection, end: UnixSeconds, rows: &mut [HourlyRow]) {
    let uids = uids(connection, end).await;
    for row in rows {
        let HourlyRow::Workload(row) = row else {
            continue;
        };
        let key = (
            row.namespace.clone(),
            row.workload_type.clone(),
            row.workload_name.clone(),
        );
        row.owner_uid = uids.get(&key).cloned();
    }
}

/// Prints a note if the number of samples means a long read.
async fn warn_of_many_samples(
    history: &ClusterHistory<'_>,
    hours: usize,
    end: UnixSeconds,
    context: &Context,
) {
    if hours < 24 {
        return;
    }
    let Ok(series) = history
        .prometheus
        .query_at(&query::samples_of_an_hour(), end)
        .await
    else {
        return;
    };
    let per_hour = series
        .first()
        .and_then(gpuctl_core::model::Series::last)
        .map_or(0.0, |point| point.value);
    let samples = per_hour * hours as f64;
    if samples > MANY_SAMPLES {
        context.terminal.note(&format!(
            "reading about {:.0} million samples from {hours} hours; this takes a while",
            samples / 1e6
        ));
    }
}
