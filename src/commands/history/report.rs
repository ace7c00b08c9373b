//! `gpuctl report`: sums GPU-hours that were held, used and wasted, by namespace, team, user, pool or label.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use futures::stream::{self, StreamExt, TryStreamExt};
use serde::Deserialize;

use crate::cli::history::report::{GroupBy, Report, ReportFormat, ReportSortKey};
use crate::cluster::Connection;
use crate::context::Context;
use crate::error::Error;
use crate::files;
use crate::model::UnixSeconds;
use crate::observe::history::{ClusterHistory, HistoryScope, clusters, pieces};
use crate::observe::hourly::NONE_SERVED;
use crate::observe::times;
use crate::stats::allocations::Allocation;
use crate::stats::gpu_hours::GpuHours;
use crate::stats::{kube_state, query};
use crate::view::report::{self as view, GpuHourReport as Answer, Group};
use crate::view::{Format, document};

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

    /// Returns the group of a tenure; `None` for one that has no such label, or where none are served.
    fn of(&self, tenure: &Allocation, key: &str) -> Option<String> {
        match self {
            Self::Namespace => Some(tenure.pod.0.clone()),
            Self::Label(..) => tenure.labels.as_ref()?.get(key).cloned(),
            Self::Annotation(..) => tenure.annotations.as_ref()?.get(key).cloned(),
        }
    }
}

/// What things cost.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Prices {
    #[serde(default)]
    currency: String,
    #[serde(default)]
    gpu_hour: f64,
    #[serde(default)]
    kwh: f64,
}

/// Seconds that are read at a time.
pub(crate) const HOUR: i64 = 3600;

/// Hours that are read at the same time.
const AT_ONCE: usize = 3;

pub(crate) async fn run(args: &Report, context: &Context) -> Result<ExitCode, Error> {
    let format = match args.output {
        ReportFormat::Table | ReportFormat::Markdown => Format::Table,
        ReportFormat::Json => Format::Json,
        ReportFormat::Yaml => Format::Yaml,
        ReportFormat::Csv => Format::Csv,
    };
    context.terminal.set_format(format);
    if args.explain {
        context.terminal.print(&explained())?;
        return Ok(ExitCode::SUCCESS);
    }
    let prices = args.prices.as_deref().map(read).transpose()?;
    let now = context.now();
    let (start, end) = times::past(Some(&args.start), args.end.as_deref(), now)?;
    let (cluster, access) = clusters(args.cluster.as_deref(), false, context)?.swap_remove(0);
    let connection = Connection::open(&access).await?;
    let past = ClusterHistory::of(cluster, context, &connection, start).await?;
    let pieces = pieces(start, end);
    let bar = context.terminal.progress(pieces.len() as u64, "hours");
    let want = HistoryScope { power: true, names: args.by != GroupBy::Namespace, ..HistoryScope::default() };
    let key = args.by.written_key();
    let one = async |(from, to): (UnixSeconds, UnixSeconds)| {
        let (ledger, usage) = past.look(from, to, want).await?;
        bar.inc(1);
        let ours = |tenure: &Allocation| context.access.namespace.as_ref().is_none_or(|own| *own == tenure.pod.0);
        let names: BTreeSet<Option<String>> =
            ledger.tenures.iter().filter(|tenure| ours(tenure)).map(|tenure| args.by.of(tenure, &key)).collect();
        let of = |name: Option<String>| {
            let account = GpuHours::of(&ledger, &usage, |tenure| ours(tenure) && args.by.of(tenure, &key) == name);
            (name, account)
        };
        Ok::<_, Error>((names.into_iter().map(of).collect::<Vec<_>>(), ledger.looks() > 0))
    };
    let found: Result<Vec<_>, Error> = stream::iter(pieces).map(one).buffered(AT_ONCE).try_collect().await;
    bar.finish_and_clear();
    let found = found?;
    let quotas = match args.by {
        GroupBy::Namespace => quotas(&past, end).await?,
        _ => BTreeMap::new(),
    };
    crate::observe::metrics::tell_warnings(context, &past.prometheus);
    let mut groups: BTreeMap<Option<String>, GpuHours> = BTreeMap::new();
    let (mut known, mut hours) = (0, 0);
    for one in found {
        let (accounts, looked) = one;
        (known, hours) = (known + usize::from(looked), hours + 1);
        accounts.into_iter().for_each(|(name, account)| groups.entry(name).or_default().add(account));
    }
    if args.by != GroupBy::Namespace && !groups.is_empty() && groups.keys().all(Option::is_none) {
        context.terminal.warn(NONE_SERVED);
    }
    if known < hours {
        context.terminal.warn(&format!(
            "{} of {hours} hours have no kube-state-metrics data and are excluded from the totals",
            hours - known
        ));
    }
    let cost = |account: &GpuHours| {
        let prices = prices.as_ref()?;
        // What was drawn and not measured has no price.
        let energy = if prices.kwh > 0.0 && account.held > 0.0 { account.energy? } else { 0.0 };
        Some((account.held + account.part_equivalent()?) * prices.gpu_hour + energy * prices.kwh)
    };
    let group = |(name, account): (Option<String>, GpuHours)| Group {
        quota: name.as_ref().and_then(|name| quotas.get(name)).copied(),
        cost: cost(&account),
        name,
        account,
    };
    let currency = prices.as_ref().map(|prices| prices.currency.clone());
    let mut groups: Vec<Group> = groups.into_iter().map(group).collect();
    match args.sort_by {
        None | Some(ReportSortKey::Name) => {}
        Some(ReportSortKey::Held) => groups.sort_by(|a, b| b.account.held.total_cmp(&a.account.held)),
        Some(ReportSortKey::Wasted) => {
            groups.sort_by(|a, b| b.account.wasted().unwrap_or(-1.0).total_cmp(&a.account.wasted().unwrap_or(-1.0)));
        }
    }
    let mut all = GpuHours::default();
    groups.iter().for_each(|group| all.add(group.account.clone()));
    let total = Group { name: None, quota: None, cost: cost(&all), account: all };
    let answer = Answer { by: args.by.word(), from: start.timestamp(), to: end.timestamp(), currency, groups, total };
    let text = document(format, &view::ReportDocument::from(&answer)).unwrap_or_else(|| match args.output {
        ReportFormat::Markdown => view::markdown(&answer),
        _ => view::table(&answer, format, !args.no_headers, context.terminal.look()),
    });
    context.terminal.print(&text)?;
    if answer.groups.is_empty() {
        context.terminal.note("no GPU was requested in this time");
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &std::path::Path) -> Result<Prices, Error> {
    let text = files::text_of(path).map_err(Error::usage)?;
    let prices: Prices = serde_saphyr::from_str(&text).map_err(|error| {
        Error::usage(format!("{} has no prices", path.display())).cause(error.to_string()).hint("currency, gpu_hour and kwh")
    })?;
    let fine = |price: f64| price.is_finite() && price >= 0.0;
    if fine(prices.gpu_hour) && fine(prices.kwh) { Ok(prices) } else { Err(Error::usage("prices cannot be negative")) }
}

/// Devices that namespaces may request, at the end.
async fn quotas(past: &ClusterHistory<'_>, end: UnixSeconds) -> Result<BTreeMap<String, f64>, Error> {
    let found = past.prometheus.at(&kube_state::quotas(), end).await?;
    let one = |series: &crate::model::Series| Some((kube_state::label(series, "namespace")?.to_owned(), series.last()?.value));
    Ok(found.iter().filter_map(one).collect())
}

/// Maps each column to its query of an hour.
fn explained() -> String {
    let hour = HOUR;
    let columns = [
        ("held, waited", kube_state::requests(hour)),
        ("held, waited", kube_state::about(kube_state::About::Phases, &["POD"], "pod", hour)),
        ("parts", kube_state::node_labels(hour)),
        ("parts", query::claimed(hour)),
        ("quota", kube_state::quotas()),
        ("used, wasted, unknown", query::samples(&[crate::stats::dialect::Quantity::Utilization], hour)),
        ("energy", query::samples(&[crate::stats::dialect::Quantity::Power], hour)),
    ];
    columns.iter().map(|(column, query)| format!("# {column}: at the end of every hour\n{query}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::history::report::by;

    #[test]
    fn hours_are_those_of_the_clock() {
        let pieces = |start, end| {
            let found = pieces(UnixSeconds(start), UnixSeconds(end));
            found.into_iter().map(|(from, to)| (from.0, to.0)).collect::<Vec<_>>()
        };
        assert_eq!(pieces(3600, 10_800), [(3600, 7200), (7200, 10_800)]);
        assert_eq!(pieces(4000, 7201), [(4000, 7200), (7200, 7201)]);
        assert_eq!(pieces(10, 20), [(10, 20)]);
    }

    #[test]
    fn groups_are_named_as_kube_state_metrics_does() {
        assert_eq!(by("user"), Ok(GroupBy::Label("user".to_owned(), "gpuctl/user".to_owned())));
        assert_eq!(by("label=costCenter"), Ok(GroupBy::Label("label=costCenter".to_owned(), "costCenter".to_owned())));
        assert_eq!(by("label=costCenter").unwrap().written_key(), "cost_center");
        assert_eq!(by("user").unwrap().written_key(), "gpuctl_user");
        assert!(by("label=").is_err() && by("people").is_err() && by("x=y").is_err());
    }
}
