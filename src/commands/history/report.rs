//! `gpuctl report`: sums GPU-hours that were held, used and wasted, by namespace, team, user, pool
//! or label.

use std::collections::BTreeMap;
use std::process::ExitCode;

use futures::future::try_join;
use serde::de::DeserializeOwned;

use crate::cli::history::report::{GroupBy, Report, ReportFormat, ReportSortKey};
use crate::concurrent::SideBySide;
use crate::context::Context;
use crate::observe::history::{ClusterHistory, clusters, pieces};
use crate::observe::hourly::NONE_SERVED;
use crate::observe::past_queries::HistoryScope;
use crate::observe::times;
use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::model::UnixSeconds;
use gpuctl_core::model::values::prices::{Budget, Prices};
use gpuctl_core::stats::exporters::{kube_state, query};
use gpuctl_core::stats::history::allocations::{Allocation, AllocationGroup};
use gpuctl_core::stats::history::gpu_hours::GpuHours;
use gpuctl_core::stats::history::job_time::{JobSum, JobTimes};
use gpuctl_core::stats::history::serving_hours;
use gpuctl_core::stats::history::serving_hours::ServingHours;
use gpuctl_local::files;
use gpuctl_view::history::report as view;
use gpuctl_view::history::report::{GpuHourReport as Answer, Group, HourPoint};
use gpuctl_view::history::report_document::ReportDocument;
use gpuctl_view::history::report_html;
use gpuctl_view::{Format, document};

impl GroupBy {
    fn word(&self) -> &str {
        match self {
            Self::Namespace => "namespace",
            Self::Label(text, _) | Self::Annotation(text, _) => text,
        }
    }

    /// Returns the key as kube-state-metrics writes it.
    fn written_key(&self) -> String {
        match self {
            Self::Namespace => String::new(),
            Self::Label(_, key) | Self::Annotation(_, key) => kube_state::written(key),
        }
    }

    /// Returns the group of a tenure; `None` for one that has no such label, or where none are
    /// served.
    fn of(&self, tenure: &Allocation, key: &str) -> Option<String> {
        match self {
            Self::Namespace => Some(tenure.pod.0.clone()),
            Self::Label(..) => tenure.labels.as_ref()?.get(key).cloned(),
            Self::Annotation(..) => tenure.annotations.as_ref()?.get(key).cloned(),
        }
    }
}

/// Seconds that are read at a time.
pub(crate) const HOUR: i64 = 3600;

/// Hours that are read at the same time.
const AT_ONCE: usize = 3;

pub(crate) async fn run(args: &Report, context: &Context) -> Result<ExitCode, Error> {
    let format = match args.output {
        ReportFormat::Table | ReportFormat::Markdown | ReportFormat::Html => Format::Table,
        ReportFormat::Json => Format::Json,
        ReportFormat::Yaml => Format::Yaml,
        ReportFormat::Csv => Format::Csv,
    };
    context.terminal.set_format(format);
    if args.explain {
        context.terminal.print(&explained())?;
        return Ok(ExitCode::SUCCESS);
    }
    let prices = args
        .prices
        .as_deref()
        .map(|path| {
            read(
                path,
                "prices",
                Prices::problem,
                "currency, gpu_hour and kwh",
            )
        })
        .transpose()?;
    let keys = "groups, default and total, each with gpu_hours and cost";
    let budget = args
        .budget
        .as_deref()
        .map(|path| read(path, "a budget", Budget::problem, keys))
        .transpose()?;
    if budget.as_ref().is_some_and(Budget::has_costs) && prices.is_none() {
        return Err(
            Error::usage("the budget has costs, and nothing has a price").hint("--prices FILE"),
        );
    }
    let now = context.now();
    let (start, end) = times::past(Some(&args.start), args.end.as_deref(), now)?;
    let (cluster, access) = clusters(args.cluster.as_deref(), false, context)?.swap_remove(0);
    let connection = Connection::open(&access).await?;
    let past = ClusterHistory::of(cluster, context, &connection, start).await?;
    let Gathered {
        mut groups,
        over_time,
        hours,
        without_data,
    } = gather(args, &past, pieces(start, end), context).await?;
    let by_namespace = args.by == [GroupBy::Namespace];
    let quotas = if by_namespace {
        quotas(&past, end).await?
    } else {
        BTreeMap::new()
    };
    crate::observe::metrics::tell_warnings(context, &past.prometheus);
    if !args.by.contains(&GroupBy::Namespace)
        && !groups.is_empty()
        && groups.keys().all(|keys| keys.iter().all(Option::is_none))
    {
        context.terminal.warn(NONE_SERVED);
    }
    if without_data > 0 {
        context
            .terminal
            .warn(&format!("{without_data} of {hours} hours have no kube-state-metrics data and are excluded from the totals"));
    }
    // Who has a budget is in the report, whether it used any of it or not.
    for name in budget
        .iter()
        .flat_map(|budget| budget.groups.keys())
        .filter(|_| args.by.len() == 1)
    {
        groups.entry(vec![Some(name.clone())]).or_default();
    }
    // What was drawn and not measured has no price, and neither has a part of a device of unknown
    // fraction.
    let cost = |account: &GpuHours| {
        prices
            .as_ref()?
            .cost(account.held + account.part_equivalent()?, account.energy)
    };
    let words: Vec<&str> = args.by.iter().map(GroupBy::word).collect();
    let group = |(keys, of): (GroupKeys, OfGroup)| {
        let name = view::joined(&keys);
        Group {
            quota: name.as_ref().and_then(|name| quotas.get(name)).copied(),
            cost: cost(&of.account),
            allowance: budget
                .as_ref()
                .and_then(|budget| budget.of(name.as_deref())),
            keys: words
                .iter()
                .map(|word| (*word).to_owned())
                .zip(keys)
                .collect(),
            name,
            account: of.account,
            jobs: of.jobs,
            serving: of.serving,
        }
    };
    let currency = prices.as_ref().map(|prices| prices.currency.clone());
    let mut groups: Vec<Group> = groups.into_iter().map(group).collect();
    match args.sort_by {
        None | Some(ReportSortKey::Name) => {}
        Some(ReportSortKey::Held) => {
            groups.sort_by(|a, b| b.account.held.total_cmp(&a.account.held));
        }
        Some(ReportSortKey::Wasted) => {
            groups.sort_by(|a, b| {
                b.account
                    .wasted()
                    .unwrap_or(-1.0)
                    .total_cmp(&a.account.wasted().unwrap_or(-1.0))
            });
        }
    }
    let mut total = Group::default();
    groups.iter().for_each(|group| total.add(group));
    total.cost = cost(&total.account);
    total.allowance = budget.as_ref().and_then(|budget| budget.total);
    let by = words.join(",");
    let answer = Answer {
        by: &by,
        from: start.timestamp(),
        to: end.timestamp(),
        currency,
        groups,
        total,
        checkpoint: args.checkpoint.map(|span| span.as_secs_f64()),
        budgeted: budget.is_some(),
        of_jobs: args.ettr,
        over_time,
    };
    let text =
        document(format, &ReportDocument::from(&answer)).unwrap_or_else(|| match args.output {
            ReportFormat::Markdown => view::markdown(&answer),
            ReportFormat::Html => report_html::page(&answer),
            _ => view::table(&answer, format, !args.no_headers, context.terminal.look()),
        });
    context.terminal.print(&text)?;
    if answer.groups.is_empty() {
        context.terminal.note("no GPU was requested in this time");
    }
    if args.ettr && args.checkpoint.is_none() {
        context.terminal.note("what interruptions lost is not counted without --checkpoint, the time between two checkpoints");
    }
    Ok(ExitCode::SUCCESS)
}

/// Values of a group, in the order of what is grouped by.
type GroupKeys = Vec<Option<String>>;

/// What a group did.
#[derive(Default)]
struct OfGroup {
    account: GpuHours,
    jobs: JobSum,
    serving: Option<ServingHours>,
}

/// All groups, and how many hours were looked at.
struct Gathered {
    groups: BTreeMap<GroupKeys, OfGroup>,
    over_time: Vec<HourPoint>,
    hours: u64,
    without_data: u64,
}

/// Adds up what each group did, hour by hour.
async fn gather(
    args: &Report,
    past: &ClusterHistory<'_>,
    pieces: Vec<(UnixSeconds, UnixSeconds)>,
    context: &Context,
) -> Result<Gathered, Error> {
    let names = args.by.iter().any(|by| *by != GroupBy::Namespace);
    let want = HistoryScope {
        power: true,
        names,
        ..HistoryScope::default()
    };
    let written: Vec<(&GroupBy, String)> =
        args.by.iter().map(|by| (by, by.written_key())).collect();
    let ours = |tenure: &Allocation| {
        context
            .access
            .namespace
            .as_ref()
            .is_none_or(|own| *own == tenure.pod.0)
    };
    let keys = |tenure: &Allocation| -> GroupKeys {
        written.iter().map(|(by, key)| by.of(tenure, key)).collect()
    };
    let bar = context.terminal.progress(pieces.len() as u64, "hours");
    let one = async |(from, to): (UnixSeconds, UnixSeconds)| {
        let ((ledger, usage), servers) =
            try_join(past.look(from, to, want), past.servers(from, to)).await?;
        bar.inc(1);
        let mut found: BTreeMap<GroupKeys, AllocationGroup> = BTreeMap::new();
        for (index, tenure) in ledger
            .tenures
            .iter()
            .enumerate()
            .filter(|(_, tenure)| ours(tenure))
        {
            found.entry(keys(tenure)).or_default().add(index, tenure);
        }
        let of = |(group, own): (GroupKeys, AllocationGroup)| {
            (
                group,
                (
                    GpuHours::of_group(&ledger, &usage, &own),
                    servers.hours_of(&ledger, &own),
                ),
            )
        };
        let accounts: Vec<_> = found.into_iter().map(of).collect();
        Ok::<_, Error>((accounts, ledger))
    };
    let mut read = SideBySide::new(pieces.into_iter().map(one), AT_ONCE);
    let mut gathered = Gathered {
        groups: BTreeMap::new(),
        over_time: Vec::new(),
        hours: 0,
        without_data: 0,
    };
    let mut jobs = JobTimes::new(args.checkpoint.map_or(0.0, |span| span.as_secs_f64()));
    while let Some(found) = read.next().await {
        let (accounts, ledger) = found?;
        let mut point = HourPoint {
            hour: u32::try_from(gathered.hours).unwrap_or(u32::MAX),
            ..HourPoint::default()
        };
        gathered.hours += 1;
        gathered.without_data += u64::from(ledger.looks() == 0);
        for (group, (account, serving)) in accounts {
            point.held += account.held;
            point.used += account.used().unwrap_or(0.0);
            point.unknown += account.unknown();
            let of = gathered.groups.entry(group).or_default();
            of.account.add(account);
            if let Some(serving) = serving {
                of.serving.get_or_insert_default().add(serving);
            }
        }
        gathered.over_time.push(point);
        jobs.add(&ledger, |tenure| ours(tenure).then(|| keys(tenure)));
    }
    drop(read);
    bar.finish_and_clear();
    for (group, sum) in jobs.sums() {
        gathered.groups.entry(group).or_default().jobs = sum;
    }
    Ok(gathered)
}

/// Reads a file of `what`, whose keys are named where it is none.
fn read<T: DeserializeOwned>(
    path: &std::path::Path,
    what: &str,
    problem: impl Fn(&T) -> Option<&'static str>,
    keys: &str,
) -> Result<T, Error> {
    let text = files::text_of(path).map_err(Error::usage)?;
    let found: T = serde_saphyr::from_str(&text).map_err(|error| {
        Error::usage(format!(
            "{} has no {}",
            path.display(),
            what.trim_start_matches("a ")
        ))
        .cause(error.to_string())
        .hint(keys)
    })?;
    match problem(&found) {
        Some(problem) => Err(Error::usage(format!("{}: {problem}", path.display())).hint(keys)),
        None => Ok(found),
    }
}

/// Devices that namespaces may request, at the end.
async fn quotas(
    past: &ClusterHistory<'_>,
    end: UnixSeconds,
) -> Result<BTreeMap<String, f64>, Error> {
    let found = past.prometheus.at(&kube_state::quotas(), end).await?;
    let one = |series: &gpuctl_core::model::Series| {
        Some((
            kube_state::label(series, "namespace")?.to_owned(),
            series.last()?.value,
        ))
    };
    Ok(found.iter().filter_map(one).collect())
}

/// Maps each column to its query of an hour.
fn explained() -> String {
    let hour = HOUR;
    let columns = [
        ("held, waited", kube_state::requests(hour)),
        (
            "held, waited",
            kube_state::about(kube_state::About::Phases, &["POD"], "pod", hour),
        ),
        ("parts", kube_state::node_labels(hour)),
        ("parts", query::claimed(hour)),
        ("quota", kube_state::quotas()),
        (
            "used, wasted, unknown",
            query::samples(
                &[gpuctl_core::stats::exporters::dialect::Quantity::Utilization],
                hour,
            ),
        ),
        ("tokens, idle servers", serving_hours::query(hour)),
        (
            "energy",
            query::samples(
                &[gpuctl_core::stats::exporters::dialect::Quantity::Power],
                hour,
            ),
        ),
    ];
    columns
        .iter()
        .map(|(column, query)| format!("# {column}: at the end of every hour\n{query}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::history::report::by;

    #[test]
    fn hours_are_those_of_the_clock() {
        let pieces = |start, end| {
            let found = pieces(UnixSeconds(start), UnixSeconds(end));
            found
                .into_iter()
                .map(|(from, to)| (from.0, to.0))
                .collect::<Vec<_>>()
        };
        assert_eq!(pieces(3600, 10_800), [(3600, 7200), (7200, 10_800)]);
        assert_eq!(pieces(4000, 7201), [(4000, 7200), (7200, 7201)]);
        assert_eq!(pieces(10, 20), [(10, 20)]);
    }

    #[test]
    fn groups_are_named_as_kube_state_metrics_does() {
        assert_eq!(
            by("user"),
            Ok(GroupBy::Label("user".to_owned(), "gpuctl/user".to_owned()))
        );
        assert_eq!(
            by("label=costCenter"),
            Ok(GroupBy::Label(
                "label=costCenter".to_owned(),
                "costCenter".to_owned()
            ))
        );
        assert_eq!(by("label=costCenter").unwrap().written_key(), "cost_center");
        assert_eq!(by("user").unwrap().written_key(), "gpuctl_user");
        assert!(by("label=").is_err() && by("people").is_err() && by("x=y").is_err());
    }
}
