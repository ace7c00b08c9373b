//! `gpuctl stats`: prints hourly rows for the cluster, namespaces, values of a label, or workloads.

use std::process::ExitCode;

use jiff::Timestamp;

use crate::cli::args::list::PAGE_SIZE;
use crate::cli::history::stats::{
    Direction, HourArgs, HourStatsArgs, LabelStatsArgs, StatsSortKey, WorkloadStatsArgs,
};
use crate::context::Context;
use crate::observe::history::clusters;
use crate::observe::hourly::{LABEL_NOT_EXPORTED, RowQuery, read_cluster};
use crate::observe::list::{self, ListOptions, Listing, PageOptions, Refresh};
use crate::observe::times;
use gpuctl_core::error::Error;
use gpuctl_core::model::UnixSeconds;
use gpuctl_core::model::values::natural;
use gpuctl_core::model::values::text::count;
use gpuctl_view::Format;
use gpuctl_view::history::hourly::{HourlyRow, RowKind};
use gpuctl_view::history::hourly_table as view;

const HOUR: i64 = 3600;

/// The first and last hour, and the current time.
#[derive(Clone, Copy)]
struct Bounds {
    first: UnixSeconds,
    last: UnixSeconds,
    now: UnixSeconds,
}

/// The kind of rows, with its arguments.
#[derive(Clone, Copy)]
enum StatsSubject<'a> {
    Cluster(&'a HourStatsArgs),
    Namespaces(&'a HourStatsArgs),
    Labels(&'a LabelStatsArgs),
    Workloads(&'a WorkloadStatsArgs),
}

pub(crate) async fn cluster(args: &HourStatsArgs, context: &Context) -> Result<ExitCode, Error> {
    show(StatsSubject::Cluster(args), context).await
}

pub(crate) async fn namespaces(args: &HourStatsArgs, context: &Context) -> Result<ExitCode, Error> {
    show(StatsSubject::Namespaces(args), context).await
}

pub(crate) async fn labels(args: &LabelStatsArgs, context: &Context) -> Result<ExitCode, Error> {
    show(StatsSubject::Labels(args), context).await
}

pub(crate) async fn workloads(
    args: &WorkloadStatsArgs,
    context: &Context,
) -> Result<ExitCode, Error> {
    show(StatsSubject::Workloads(args), context).await
}

async fn show(subject: StatsSubject<'_>, context: &Context) -> Result<ExitCode, Error> {
    let (hours, query) = row_query(subject, context);
    let options = hours.options();
    context.terminal.set_format(options.format);
    let now = UnixSeconds::from(context.now());
    let (first, last) = hours.bounds(context.now())?;
    if let Some(note) = hours.note(first, context.now())? {
        context.terminal.note(&note);
    }
    let bounds = Bounds { first, last, now };
    let mut rows = read(&query, hours, bounds, context).await?;
    retain(&mut rows, subject, context);
    let descending = match subject {
        StatsSubject::Workloads(args) => args.is_descending(),
        _ => false,
    };
    sort(
        &mut rows,
        hours.sort_by.unwrap_or(StatsSortKey::Time),
        descending,
    );
    let has_table = options.format == Format::Table && !rows.is_empty();
    let code = list::run(&options, context, async |_: Refresh<'_>| {
        let note = if query.kind == RowKind::Labels {
            LABEL_NOT_EXPORTED
        } else {
            "no GPUs were requested in this period"
        };
        let rows = std::mem::take(&mut rows);
        let listing = match subject {
            StatsSubject::Workloads(_) => page(rows, &options, context),
            _ => listing(rows, query.kind, bounds, &options, context),
        };
        Ok(listing.none(note))
    })
    .await?;
    if has_table {
        context.terminal.note(view::WEIGHTS);
    }
    Ok(code)
}

/// Derives the hours and the row query from the arguments.
fn row_query<'a>(subject: StatsSubject<'a>, context: &'a Context) -> (&'a HourArgs, RowQuery<'a>) {
    // Only one of several clusters needs to have the namespace.
    let expected_namespace = |hours: &HourArgs| match hours.all_contexts {
        true => None,
        false => context.access.namespace.as_deref(),
    };
    let query_of_kind = |kind, hours: &HourArgs| RowQuery {
        kind,
        namespace: None,
        dimension: None,
        expected_namespace: expected_namespace(hours),
    };
    match subject {
        StatsSubject::Cluster(args) => (&args.hours, query_of_kind(RowKind::Cluster, &args.hours)),
        StatsSubject::Namespaces(args) => {
            (&args.hours, query_of_kind(RowKind::Namespaces, &args.hours))
        }
        StatsSubject::Workloads(args) => {
            (&args.hours, query_of_kind(RowKind::Workloads, &args.hours))
        }
        StatsSubject::Labels(args) => (
            &args.hours,
            RowQuery {
                kind: RowKind::Labels,
                namespace: context.access.namespace.as_deref(),
                dimension: Some((args.dimension_type, args.dimension_key.as_str())),
                expected_namespace: expected_namespace(&args.hours),
            },
        ),
    }
}

/// Reads the rows of all selected clusters. A cluster that fails is skipped, unless it is the only
/// one.
async fn read(
    query: &RowQuery<'_>,
    hours: &HourArgs,
    Bounds { first, last, now }: Bounds,
    context: &Context,
) -> Result<Vec<HourlyRow>, Error> {
    let selected = clusters(hours.all_contexts, context)?;
    let (mut rows, mut last_error, has_several) = (Vec::new(), None, selected.len() > 1);
    for (cluster, access) in selected {
        match read_cluster(
            query,
            cluster.clone(),
            &access,
            (first, last, now),
            hours.no_cache,
            context,
        )
        .await
        {
            Ok(cluster_rows) => rows.extend(cluster_rows),
            Err(error) if has_several => {
                context
                    .terminal
                    .warn(&format!("skipping cluster {cluster}: {error}"));
                last_error = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    match last_error {
        Some(error) if rows.is_empty() => Err(error),
        _ => Ok(rows),
    }
}

/// Drops rows that the arguments exclude.
fn retain(rows: &mut Vec<HourlyRow>, subject: StatsSubject<'_>, context: &Context) {
    if context.access.namespace.is_some() {
        rows.retain(|row| {
            row.namespace()
                .is_none_or(|namespace| Some(namespace) == context.access.namespace.as_deref())
        });
    }
    match subject {
        StatsSubject::Labels(args) => rows.retain(|row| {
            args.dimension_value.is_none()
                || args.dimension_value.as_deref() == row.dimension_value()
        }),
        StatsSubject::Workloads(args) => rows.retain(|row| args.is_selected(row)),
        _ => {}
    }
}

/// Builds the list for all kinds of rows except workloads. A curve precedes the cluster's rows.
fn listing(
    rows: Vec<HourlyRow>,
    kind: RowKind,
    bounds: Bounds,
    options: &ListOptions,
    context: &Context,
) -> Listing {
    let look = context.terminal.style();
    let curve = if kind == RowKind::Cluster && options.format == Format::Table {
        view::curve(&rows, bounds.first, bounds.last.min(bounds.now), look)
    } else {
        String::new()
    };
    let rows = options.page.select(rows);
    Listing::new(options, &rows, "", names(&rows), |format, headers| {
        curve + &view::table(kind, &rows, format, headers, look)
    })
}

/// The name of each row, `HOUR NAME`, which is unique within a cluster.
fn names(rows: &[HourlyRow]) -> Vec<String> {
    rows.iter()
        .map(|row| format!("{} {}", row.hour(), row.name()))
        .collect()
}

/// Builds the requested page of workloads, by default the first 20 rows.
fn page(rows: Vec<HourlyRow>, options: &ListOptions, context: &Context) -> Listing {
    let total = rows.len();
    // A pipe or file gets all rows unless the user selects a page.
    let is_complete = options.page.number.is_none()
        && options.page.size.is_none()
        && !context.terminal.stdout_is_terminal();
    let default_size = if is_complete {
        u32::try_from(total).unwrap_or(u32::MAX).max(PAGE_SIZE)
    } else {
        PAGE_SIZE
    };
    let (number, size) = (
        options.page.number.unwrap_or(1) as usize,
        options.page.size.unwrap_or(default_size) as usize,
    );
    let data = PageOptions {
        number: Some(options.page.number.unwrap_or(1)),
        default_size,
        ..options.page
    }
    .select(rows);
    let (shown_count, pages) = (data.len(), total.div_ceil(size));
    let page = view::RowPage {
        total,
        page: number,
        page_size: size,
        total_pages: pages,
        data,
    };
    if shown_count < total {
        let range = format!("page {number} of {pages}, {shown_count} of {total} rows");
        context.terminal.announce(&format!(
            "{range}; use --page and --page-size to show others"
        ));
    }
    Listing::new(
        options,
        &page,
        "data",
        names(&page.data),
        |format, headers| {
            view::table(
                RowKind::Workloads,
                &page.data,
                format,
                headers,
                context.terminal.style(),
            )
        },
    )
}

fn sort(rows: &mut [HourlyRow], key: StatsSortKey, descending: bool) {
    match key {
        // Sorting is stable, so rows of the same hour keep their order.
        StatsSortKey::Time if descending => rows.sort_by_key(|row| std::cmp::Reverse(row.hour())),
        StatsSortKey::Time => {}
        StatsSortKey::Name => rows.sort_by(|a, b| natural::compare(a.name(), b.name())),
        StatsSortKey::Held => rows.sort_by(|a, b| {
            b.allocated()
                .unwrap_or(-1.0)
                .total_cmp(&a.allocated().unwrap_or(-1.0))
        }),
        StatsSortKey::Utilization => {
            rows.sort_by(|a, b| match (a.avg_utilization(), b.avg_utilization()) {
                (Some(a), Some(b)) if descending => b.0.total_cmp(&a.0),
                (Some(a), Some(b)) => a.0.total_cmp(&b.0),
                // Unknown values are last in both directions.
                (a, b) => a.is_none().cmp(&b.is_none()),
            });
        }
    }
}

/// Returns the first start of an hour at or after a time, for clocks `offset` seconds ahead of UTC.
fn first_hour(start: UnixSeconds, offset: i64) -> UnixSeconds {
    let hour = UnixSeconds((start + offset).spans_of(HOUR) * HOUR) - offset;
    if hour < start { hour + HOUR } else { hour }
}

impl HourArgs {
    fn options(&self) -> ListOptions {
        ListOptions {
            page: self.page.page(PAGE_SIZE),
            ..self.print.options()
        }
    }

    /// The start of the first full hour, and the end of the range. Hours are those of the local
    /// clock, so that a day starts with an hour also at UTC+05:30.
    fn bounds(&self, now: Timestamp) -> Result<(UnixSeconds, UnixSeconds), Error> {
        let (start, end) = times::past(self.start.as_deref(), self.end.as_deref(), now)?;
        Ok((first_hour(start, times::local_offset(start)), end))
    }

    /// Returns a note if the rows begin after the start that was asked for.
    fn note(&self, first: UnixSeconds, now: Timestamp) -> Result<Option<String>, Error> {
        if self.start.is_none() {
            return Ok(None);
        }
        let (start, _) = times::past(self.start.as_deref(), self.end.as_deref(), now)?;
        Ok(skipped_note(start, first))
    }
}

/// Returns a note about the time between the requested start and the first full hour, which no row
/// covers.
fn skipped_note(start: UnixSeconds, first: UnixSeconds) -> Option<String> {
    let minutes = (first - start + 59) / 60;
    (minutes > 0).then(|| {
        format!(
            "rows are full hours: {} before {} are in no row",
            count(minutes.unsigned_abs(), "minute"),
            first.timestamp()
        )
    })
}

impl WorkloadStatsArgs {
    fn is_selected(&self, row: &HourlyRow) -> bool {
        let HourlyRow::Workload(row) = row else {
            return false;
        };
        self.workload_name
            .as_ref()
            .is_none_or(|name| row.workload_name == *name)
            && self
                .workload_type
                .as_ref()
                .is_none_or(|kind| row.workload_type.eq_ignore_ascii_case(kind))
    }

    /// Returns true for descending order. By default, the newest hour or the lowest utilization is
    /// first.
    fn is_descending(&self) -> bool {
        let by_utilization = self.hours.sort_by == Some(StatsSortKey::Utilization);
        let default = if by_utilization {
            Direction::Asc
        } else {
            Direction::Desc
        };
        self.order_direction.unwrap_or(default) == Direction::Desc
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_start_where_local_hours_start() {
        // 2026-11-25T18:30:00Z is midnight at +05:30 and 00:15 at +05:45.
        let midnight = UnixSeconds(1_795_631_400);
        assert_eq!(first_hour(midnight, 19_800), midnight);
        assert_eq!(first_hour(midnight - 1, 19_800), midnight);
        assert_eq!(first_hour(midnight, 20_700), midnight + 2700);
        assert_eq!(first_hour(midnight, 0), midnight + 1800);
        assert_eq!(first_hour(midnight, -3600), midnight + 1800);
    }

    #[test]
    fn time_before_the_first_full_hour_is_named() {
        // 90 minutes before 12:34 is 11:04, and the first full hour starts at 12:00.
        let noon = UnixSeconds(1_795_608_000);
        assert_eq!(first_hour(noon - 3360, 0), noon);
        assert_eq!(
            skipped_note(noon - 3360, noon).as_deref(),
            Some("rows are full hours: 56 minutes before 2026-11-25T12:00:00Z are in no row")
        );
        assert_eq!(skipped_note(noon, noon), None);
    }
}
