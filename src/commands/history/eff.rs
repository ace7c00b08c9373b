//! `gpuctl eff`: says how well a job or workload used its GPUs, also after its pods are gone.

use std::collections::BTreeSet;
use std::process::ExitCode;

use futures::future::try_join;
use jiff::Timestamp;

use crate::cli::history::eff::Eff;
use crate::concurrent::SideBySide;
use crate::context::Context;
use crate::observe::history::{ClusterHistory, clusters, pieces, uids};
use crate::observe::past_queries::HistoryScope;
use crate::observe::times;
use gpuctl_cluster::Connection;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::{UnixSeconds, Watts};
use gpuctl_core::stats::exporters::kube_state;
use gpuctl_core::stats::history::allocations::{Allocation, AllocationHistory};
use gpuctl_core::stats::history::gpu_hours::{GpuHours, Spread, Works, add_work, advice};
use gpuctl_core::stats::history::serving_hours::ServingHours;
use gpuctl_core::stats::history::top_owner::TopOwner;
use gpuctl_prometheus::Window;
use gpuctl_view::history::efficiency as view;
use gpuctl_view::history::efficiency::Efficiency;
use gpuctl_view::{Format, document};

/// Seconds between two looks for when it lived.
const STEP: i64 = 300;

/// Hours that are read at the same time.
const AT_ONCE: usize = 3;

pub(crate) async fn run(args: &Eff, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    let now = context.now();
    let (start, end) = times::past(Some(&args.start), args.end.as_deref(), now)?;
    let (cluster, access) = clusters(args.cluster.as_deref(), false, context)?.swap_remove(0);
    let connection = Connection::open(&access).await?;
    let past = ClusterHistory::of(cluster, context, &connection, start).await?;
    let meant = meant(args, &connection).await;
    // The last look is at the end: each tells of the time since the one before.
    let looks = (end - start + STEP - 1) / STEP;
    let window = Window {
        start: end - looks * STEP,
        end,
        step: STEP,
    };
    let seen = past
        .prometheus
        .range(&kube_state::lives(&meant.name), window)
        .await?;
    let ours = |series: &&gpuctl_core::model::Series| {
        meant
            .namespace
            .as_deref()
            .is_none_or(|own| kube_state::label(series, "namespace") == Some(own))
    };
    let points = || {
        seen.iter()
            .filter(ours)
            .flat_map(|series| &series.points)
            .map(|point| UnixSeconds(point.at / 1000))
    };
    let (Some(first), Some(last)) = (points().min(), points().max()) else {
        return Err(meant.nowhere(&args.start));
    };
    // It began and ended between two looks.
    let pieces = pieces((first - STEP).max(start), (last + STEP).min(end));
    let bar = context.terminal.progress(pieces.len() as u64, "hours");
    let want = HistoryScope {
        memory: true,
        power: true,
        names: false,
    };
    let one = async |(from, to): (UnixSeconds, UnixSeconds)| {
        let looked = try_join(past.look(from, to, want), past.servers(from, to)).await?;
        bar.inc(1);
        Ok::<_, Error>(looked)
    };
    let mut looked = SideBySide::new(pieces.into_iter().map(one), AT_ONCE);
    let (mut account, mut works, mut tops) = (
        GpuHours::default(),
        Works::new(),
        BTreeSet::<TopOwner>::new(),
    );
    let (mut most, mut pods, mut serving) = (0, BTreeSet::new(), None::<ServingHours>);
    let (mut wait, mut life, mut dropped) = (Wait::default(), None::<(i64, i64)>, 0);
    while let Some(found) = looked.next().await {
        let ((ledger, usage), servers) = found?;
        let is_meant = |tenure: &Allocation| meant.is(&tenure.top);
        tops.extend(
            ledger
                .tenures
                .iter()
                .filter(|tenure| is_meant(tenure))
                .map(|tenure| tenure.top.clone()),
        );
        account.add(GpuHours::of(&ledger, &usage, is_meant));
        add_work(&mut works, &ledger, &usage, is_meant);
        if let Some(own) = servers.hours(&ledger, is_meant) {
            serving.get_or_insert_with(ServingHours::default).add(own);
        }
        wait.add(&ledger, is_meant);
        life = spanned(life, &ledger, is_meant);
        dropped += usage.dropped;
        let own = || ledger.tenures.iter().filter(|tenure| is_meant(tenure));
        pods.extend(own().map(|tenure| tenure.pod.clone()));
        let held = |slot: usize| {
            own()
                .filter(|tenure| tenure.held[slot])
                .map(Allocation::units)
                .sum::<u64>()
        };
        most = (0..ledger.observed.len()).map(held).fold(most, u64::max);
    }
    drop(looked);
    bar.finish_and_clear();
    crate::observe::metrics::tell_warnings(context, &past.prometheus);
    let mut tops = tops.into_iter();
    let (Some(top), other) = (tops.next(), tops.next()) else {
        return Err(meant.nowhere(&args.start));
    };
    if let Some(other) = other {
        let error = Error::usage(format!(
            "`{}` is several: {} {}/{}, {} {}/{}",
            args.name, top.kind, top.namespace, top.name, other.kind, other.namespace, other.name
        ));
        return Err(error.hint("NAMESPACE/NAME, or -n NAMESPACE"));
    }
    let limit = usage_limit(&works);
    let spread = Spread {
        most,
        pods: pods.len(),
    };
    let at = |milliseconds: i64| Timestamp::from_millisecond(milliseconds).unwrap_or_default();
    let answer = Efficiency {
        top,
        from: life.map(|(from, _)| at(from)),
        to: life.map(|(_, to)| at(to)),
        wait_seconds: wait.seconds,
        advice: advice(&works, spread, limit, serving),
        serving,
        account,
        works,
        dropped,
    };
    context.terminal.print(
        &document(format, &view::document(&answer))
            .unwrap_or_else(|| view::text(&answer, context.terminal.look())),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Who is meant.
struct Meant {
    namespace: Option<String>,
    kind: Option<String>,
    name: String,
}

impl Meant {
    fn is(&self, top: &TopOwner) -> bool {
        top.name == self.name
            && self
                .namespace
                .as_ref()
                .is_none_or(|namespace| *namespace == top.namespace)
            && self.kind.as_ref().is_none_or(|kind| *kind == top.kind)
    }

    fn nowhere(&self, start: &str) -> Error {
        let place = self
            .namespace
            .as_ref()
            .map_or(String::new(), |namespace| format!(" in {namespace}"));
        let error = Error::new(
            ErrorName::NotFound,
            format!(
                "`{}`{place} held no GPU since {start}, as far as Prometheus knows",
                self.name
            ),
        );
        error.hint("--start 30d looks further back; `gpuctl stats workloads` lists what there was")
    }
}

async fn meant(args: &Eff, connection: &Connection) -> Meant {
    let own = connection
        .namespace_is_explicit
        .then(|| connection.namespace.clone());
    if let Some((namespace, name)) = args.name.split_once('/') {
        return Meant {
            namespace: Some(namespace.to_owned()),
            kind: None,
            name: name.to_owned(),
        };
    }
    let is_uid =
        args.name.len() == 36 && args.name.bytes().filter(|byte| *byte == b'-').count() == 4;
    if is_uid {
        let found = uids(connection, UnixSeconds::NEVER)
            .await
            .into_iter()
            .find(|(_, uid)| *uid == args.name);
        if let Some(((namespace, kind, name), _)) = found {
            return Meant {
                namespace: Some(namespace),
                kind: Some(kind),
                name,
            };
        }
    }
    Meant {
        namespace: own,
        kind: None,
        name: args.name.clone(),
    }
}

/// Time from the first request to the first device.
#[derive(Default)]
struct Wait {
    seconds: f64,
    over: bool,
}

impl Wait {
    fn add(&mut self, ledger: &AllocationHistory, is_meant: impl Fn(&Allocation) -> bool) {
        let own: Vec<&Allocation> = ledger
            .tenures
            .iter()
            .filter(|tenure| is_meant(tenure))
            .collect();
        for slot in 0..ledger.observed.len() {
            if own.iter().any(|tenure| tenure.held[slot]) {
                self.over = true;
            }
            if !self.over && own.iter().any(|tenure| tenure.requested[slot]) {
                self.seconds += ledger.slot as f64 / 1000.0;
            }
        }
    }
}

/// Returns the first and the last slot in which it held a GPU, in Unix milliseconds.
fn spanned(
    life: Option<(i64, i64)>,
    ledger: &AllocationHistory,
    is_meant: impl Fn(&Allocation) -> bool,
) -> Option<(i64, i64)> {
    let own: Vec<&Allocation> = ledger
        .tenures
        .iter()
        .filter(|tenure| is_meant(tenure))
        .collect();
    let held = |slot: &usize| own.iter().any(|tenure| tenure.held[*slot]);
    let slots: Vec<usize> = (0..ledger.observed.len()).filter(held).collect();
    let (Some(first), Some(last)) = (slots.first(), slots.last()) else {
        return life;
    };
    let time =
        |slot: usize| ledger.stretch.start + i64::try_from(slot).unwrap_or(i64::MAX) * ledger.slot;
    let (from, to) = (time(*first), time(last + 1).min(ledger.stretch.end));
    Some(life.map_or((from, to), |(begin, _)| (begin, to)))
}

/// Returns what its devices may draw, when they are all of one model that is known.
fn usage_limit(works: &Works) -> Option<Watts> {
    let mut limits = works.values().map(|work| {
        work.model
            .as_deref()
            .and_then(gpuctl_core::stats::exporters::limits::watts)
    });
    let first = limits.next()??;
    limits.all(|limit| limit == Some(first)).then_some(first)
}
