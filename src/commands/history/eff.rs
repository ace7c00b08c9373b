//! `gpuctl eff`: reports how well a job or workload used its GPUs, even after its pods are deleted.

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
use gpuctl_core::model::facts::reading::PodKey;
use gpuctl_core::model::{Series, UnixSeconds, Watts};
use gpuctl_core::stats::exporters::kube_state;
use gpuctl_core::stats::history::allocations::{Allocation, AllocationHistory};
use gpuctl_core::stats::history::gpu_hours::{GpuHours, Spread, Works, add_work, advice};
use gpuctl_core::stats::history::serving_hours::ServingHours;
use gpuctl_core::stats::history::top_owner::TopOwner;
use gpuctl_core::stats::history::usage::Usage;
use gpuctl_prometheus::Window;
use gpuctl_view::history::efficiency as view;
use gpuctl_view::history::efficiency::Efficiency;
use gpuctl_view::{Format, document};

/// Seconds between two samples when searching for the lifetime of the workload.
const STEP: i64 = 300;

/// Hours read concurrently.
const AT_ONCE: usize = 3;

pub(crate) async fn run(args: &Eff, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    let now = context.now();
    let range = times::past(Some(&args.start), args.end.as_deref(), now)?;
    let (cluster, access) = clusters(args.cluster.as_deref(), false, context)?.swap_remove(0);
    let connection = Connection::open(&access).await?;
    let past = ClusterHistory::of(cluster, context, &connection, range.0).await?;
    let meant = meant(args, &connection).await;
    let Some((first, last)) = seen(&meant, &past, range).await? else {
        return Err(meant.nowhere(&args.start));
    };
    let sums = sum(&meant, &past, pieces(first, last), context).await?;
    crate::observe::metrics::tell_warnings(context, &past.prometheus);
    let mut tops = sums.tops.iter();
    let (Some(top), other) = (tops.next(), tops.next()) else {
        return Err(meant.nowhere(&args.start));
    };
    if let Some(other) = other {
        let error = Error::usage(format!(
            "`{}` is ambiguous: {} {}/{}, {} {}/{}",
            args.name, top.kind, top.namespace, top.name, other.kind, other.namespace, other.name
        ));
        return Err(error.hint("NAMESPACE/NAME, or -n NAMESPACE"));
    }
    let top = top.clone();
    let answer = sums.efficiency(top);
    context.terminal.print(
        &document(format, &view::document(&answer))
            .unwrap_or_else(|| view::text(&answer, context.terminal.style())),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Finds when the workload existed within a range. It may have started or ended between two
/// samples, so a step is added at both ends.
async fn seen(
    meant: &Meant,
    past: &ClusterHistory<'_>,
    (start, end): (UnixSeconds, UnixSeconds),
) -> Result<Option<(UnixSeconds, UnixSeconds)>, Error> {
    // The last sample is at the end, because each sample covers the step before it.
    let looks = (end - start + STEP - 1) / STEP;
    let window = Window {
        start: end - looks * STEP,
        end,
        step: STEP,
    };
    let lives = past
        .prometheus
        .range(&kube_state::lives(&meant.name), window)
        .await?;
    let in_namespace = |series: &&Series| {
        meant
            .namespace
            .as_deref()
            .is_none_or(|only| kube_state::label(series, "namespace") == Some(only))
    };
    let points = || {
        lives
            .iter()
            .filter(in_namespace)
            .flat_map(|series| &series.points)
            .map(|point| UnixSeconds(point.at / 1000))
    };
    Ok(points()
        .min()
        .zip(points().max())
        .map(|(first, last)| ((first - STEP).max(start), (last + STEP).min(end))))
}

/// Reads the hours concurrently and sums them.
async fn sum(
    meant: &Meant,
    past: &ClusterHistory<'_>,
    pieces: Vec<(UnixSeconds, UnixSeconds)>,
    context: &Context,
) -> Result<Sums, Error> {
    let bar = context.terminal.progress(pieces.len() as u64, "hours");
    let want = HistoryScope {
        memory: true,
        power: true,
        names: false,
    };
    let read = async |(from, to): (UnixSeconds, UnixSeconds)| {
        let answers = try_join(past.look(from, to, want), past.servers(from, to)).await?;
        bar.inc(1);
        Ok::<_, Error>(answers)
    };
    let mut hours = SideBySide::new(pieces.into_iter().map(read), AT_ONCE);
    let mut sums = Sums::default();
    while let Some(found) = hours.next().await {
        let ((history, usage), servers) = found?;
        let is_meant = |allocation: &Allocation| meant.is(&allocation.top);
        sums.add(&history, &usage, is_meant);
        if let Some(serving) = servers.hours(&history, is_meant) {
            sums.serving.get_or_insert_default().add(serving);
        }
    }
    drop(hours);
    bar.finish_and_clear();
    Ok(sums)
}

/// Sums over all hours.
#[derive(Default)]
struct Sums {
    account: GpuHours,
    works: Works,
    tops: BTreeSet<TopOwner>,
    /// Maximum number of devices held at the same time.
    most: u64,
    pods: BTreeSet<PodKey>,
    serving: Option<ServingHours>,
    wait: Wait,
    /// Start of the first and end of the last slot with a GPU, in Unix milliseconds.
    life: Option<(i64, i64)>,
    dropped: u64,
}

impl Sums {
    fn add(
        &mut self,
        history: &AllocationHistory,
        usage: &Usage,
        is_meant: impl Fn(&Allocation) -> bool + Copy,
    ) {
        let meant = || history.tenures.iter().filter(|tenure| is_meant(tenure));
        self.tops.extend(meant().map(|tenure| tenure.top.clone()));
        self.account.add(GpuHours::of(history, usage, is_meant));
        add_work(&mut self.works, history, usage, is_meant);
        self.wait.add(history, is_meant);
        self.life = spanned(self.life, history, is_meant);
        self.dropped += usage.dropped;
        self.pods.extend(meant().map(|tenure| tenure.pod.clone()));
        let held = |slot: usize| {
            meant()
                .filter(|tenure| tenure.held[slot])
                .map(Allocation::units)
                .sum::<u64>()
        };
        self.most = (0..history.observed.len())
            .map(held)
            .fold(self.most, u64::max);
    }

    fn efficiency(self, top: TopOwner) -> Efficiency {
        let limit = usage_limit(&self.works);
        let spread = Spread {
            most: self.most,
            pods: self.pods.len(),
        };
        let at = |milliseconds: i64| Timestamp::from_millisecond(milliseconds).unwrap_or_default();
        Efficiency {
            top,
            from: self.life.map(|(from, _)| at(from)),
            to: self.life.map(|(_, to)| at(to)),
            wait_seconds: self.wait.seconds,
            advice: advice(&self.works, spread, limit, self.serving),
            serving: self.serving,
            account: self.account,
            works: self.works,
            dropped: self.dropped,
        }
    }
}

/// The job or workload that the user names.
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
                "according to Prometheus, `{}`{place} held no GPU since {start}",
                self.name
            ),
        );
        error.hint("--start 30d looks further back; `gpuctl stats workloads` lists past workloads")
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
    // A UUID in text form has 36 characters with 4 hyphens.
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

/// Time from the first GPU request to the first GPU held.
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

/// Extends the lifetime, in Unix milliseconds, by the slots of one hour with a GPU held.
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

/// The power limit of its devices, if all have the same known limit.
fn usage_limit(works: &Works) -> Option<Watts> {
    let mut limits = works.values().map(|work| {
        work.model
            .as_deref()
            .and_then(gpuctl_core::stats::exporters::limits::watts)
    });
    let first = limits.next()??;
    limits.all(|limit| limit == Some(first)).then_some(first)
}
