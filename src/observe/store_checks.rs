//! `doctor` checks of Prometheus: scrape interval, retention, clock, kube-state-metrics, and the
//! clusters whose GPUs it has.

use futures::future::{join, join3};
use jiff::Timestamp;

use crate::observe::store_identity::{StoreClusters, identify};
use crate::observe::store_membership::{membership, replica_gaps};
use gpuctl_cluster::Connection;
use gpuctl_core::model::contract::check::{CheckStatus, DoctorCheck};
use gpuctl_core::model::values::whole;
use gpuctl_core::model::{Series, UnixSeconds};
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::exporters::membership::{
    ForeignStore, StoreMembership, names_only_message,
};
use gpuctl_core::stats::exporters::replicas::ReplicaGaps;
use gpuctl_core::stats::exporters::{exported_metrics, query, recorded};
use gpuctl_prometheus::Prometheus;

/// Samples per five minutes below which short jobs are barely visible.
const MIN_SAMPLES: f64 = 5.0;
/// Tolerated difference between clocks in seconds, for one second of resolution and the duration of
/// the request.
const CLOCK_TOLERANCE: i64 = 5;
/// Default range of commands that read history, in days.
const MIN_RETENTION_DAYS: f64 = 7.0;
/// Window in seconds that is searched for GPUs of other clusters.
const CLUSTERS_SECONDS: i64 = 86_400;
/// Maximum number of names of unread metrics in a message.
const MAX_UNREAD: usize = 3;
/// Window in seconds for comparing replicas.
const REPLICAS_SECONDS: i64 = 86_400;

/// Compares the local clock with a clock that has a resolution of one second.
pub(crate) fn check_clock(
    clock_name: &str,
    other: Option<Timestamp>,
    now: Timestamp,
) -> Option<DoctorCheck> {
    let difference = now.duration_since(other?).as_secs();
    if difference.abs() <= CLOCK_TOLERANCE {
        return None;
    }
    let side = if difference < 0 { "behind" } else { "ahead of" };
    let message = format!(
        "this machine's clock is {} s {side} that of {clock_name}: ages and time ranges are wrong",
        difference.abs()
    );
    Some(
        DoctorCheck::new(CheckStatus::Warn, "clock", message)
            .fix("synchronize the clock, for example with NTP"),
    )
}

/// Counts the pods in the data of kube-state-metrics: 0 if it has only nodes, as in a cluster
/// without pods, and -1 if it has neither. `count` of no series is an empty vector instead of 0.
const PODS_OF_KUBE_STATE: &str = "count(kube_pod_info) or 0 * count(kube_node_info) or vector(-1)";

/// Checks the scrape interval, retention, kube-state-metrics and the number of clusters.
pub(super) async fn check_store(
    prometheus: &Prometheus<'_>,
    connection: &Connection,
    now: Timestamp,
) -> Vec<DoctorCheck> {
    let server = join(
        // Without `time`, Prometheus evaluates the query at its own current time.
        prometheus.now("vector(time())"),
        prometheus.relay("api/v1/status/runtimeinfo"),
    );
    let (sample_query, recorded_query) = (
        query::samples_counted(&query::names(&[Quantity::Utilization])),
        recorded::is_recorded(),
    );
    let ((sample_counts, marks), pods, (clusters, (time, runtime_info))) = join3(
        join(
            prometheus.now(&sample_query),
            prometheus.now(&recorded_query),
        ),
        prometheus.now(PODS_OF_KUBE_STATE),
        join(check_clusters(prometheus, connection, now), server),
    )
    .await;
    let until = UnixSeconds::from(now);
    let (membership, gaps) = join(
        membership(prometheus, connection),
        replica_gaps(prometheus, (until - REPLICAS_SECONDS, until)),
    )
    .await;
    let mut checks = Vec::new();
    let time = time.ok().and_then(|series| newest(series.first()?));
    let time = time.and_then(|seconds| Timestamp::from_second(whole::to_i64(seconds)).ok());
    checks.extend(check_clock("Prometheus", time, now));
    checks.extend(
        runtime_info
            .ok()
            .and_then(|reply| check_retention(&reply.body)),
    );
    checks.extend(sample_counts.ok().and_then(|series| check_scrapes(&series)));
    if marks.is_ok_and(|marks| !marks.is_empty()) {
        checks.push(DoctorCheck::new(
            CheckStatus::Ok,
            "recording-rules",
            "fatal errors from the last hour are recorded".to_owned(),
        ));
    }
    let pod_count = pods.ok().and_then(|series| newest(series.first()?));
    checks.push(match membership {
        StoreMembership::Foreign(foreign) => check_foreign(&foreign, &prometheus.server),
        StoreMembership::NamesOnly(nodes) => DoctorCheck::new(
            CheckStatus::Warn,
            "kube-state-metrics",
            names_only_message(&nodes, &prometheus.server),
        ),
        StoreMembership::Own => check_pods(pod_count),
    });
    checks.extend(clusters);
    checks.extend(gaps.map(|gaps| {
        let message = gaps.message(&prometheus.server);
        DoctorCheck::new(CheckStatus::Warn, "replicas", message).fix(ReplicaGaps::FIX)
    }));
    checks
}

/// Reads the names of GPU metrics in the store that no table of an exporter contains.
pub(super) async fn unread_metrics(prometheus: &Prometheus<'_>) -> Vec<String> {
    let series = prometheus.now(&exported_metrics::unread()).await;
    let names = series.unwrap_or_default();
    let mut names: Vec<String> = names
        .iter()
        .map(|series| series.name().to_owned())
        .collect();
    names.sort_unstable();
    names.truncate(MAX_UNREAD);
    names
}

fn newest(series: &Series) -> Option<f64> {
    series.points.last().map(|point| point.value)
}

/// Checks the number of samples per GPU.
fn check_scrapes(sample_counts: &[Series]) -> Option<DoctorCheck> {
    let count = sample_counts
        .iter()
        .filter_map(newest)
        .max_by(f64::total_cmp)?;
    let message = format!("GPUs were sampled {count:.0} times in the last five minutes");
    Some(if count < MIN_SAMPLES {
        DoctorCheck::new(CheckStatus::Warn, "scrapes", message)
            .fix("scrape GPU exporters every 15 to 30 s")
    } else {
        DoctorCheck::new(CheckStatus::Ok, "scrapes", message)
    })
}

/// Checks whether kube-state-metrics is scraped. `count` is the result of [`PODS_OF_KUBE_STATE`],
/// or `None` if the query failed.
fn check_pods(count: Option<f64>) -> DoctorCheck {
    let check = |status, message: String| DoctorCheck::new(status, "kube-state-metrics", message);
    match count {
        Some(pods) if pods >= 0.0 => check(
            CheckStatus::Ok,
            format!("Prometheus has data about {pods:.0} pods"),
        ),
        Some(_) => check(
            CheckStatus::Warn,
            "Prometheus has no data about pods, so history is unavailable".to_owned(),
        )
        .fix("install kube-state-metrics and let Prometheus scrape it"),
        None => check(
            CheckStatus::Warn,
            "the query for data about pods failed".to_owned(),
        )
        .fix("run `gpuctl doctor` again, with a longer `--request-timeout`"),
    }
}

/// Reports a store without data about this cluster's nodes and pods.
fn check_foreign(foreign: &ForeignStore, server: &str) -> DoctorCheck {
    let message = format!("{}, so gpuctl refuses sums", foreign.message(server));
    DoctorCheck::new(CheckStatus::Fail, "kube-state-metrics", message)
        .fix("set this cluster's Prometheus: `contexts.NAME.prometheus.url` in the config file")
}

/// Reports the clusters whose GPUs the store has.
async fn check_clusters(
    prometheus: &Prometheus<'_>,
    connection: &Connection,
    now: Timestamp,
) -> Option<DoctorCheck> {
    let matchers = prometheus.matchers();
    if !matchers.is_empty() {
        return Some(DoctorCheck::new(
            CheckStatus::Ok,
            "clusters",
            format!("series with {matchers} belong to this cluster"),
        ));
    }
    let until = UnixSeconds::from(now);
    match identify(prometheus, connection, (until - CLUSTERS_SECONDS, until))
        .await
        .ok()?
    {
        StoreClusters::One => None,
        StoreClusters::Proven(matchers) => Some(DoctorCheck::new(
            CheckStatus::Ok,
            "clusters",
            format!("it has several clusters; series with {matchers} belong to this one"),
        )),
        StoreClusters::Unclear { label, values } => {
            let message = format!(
                "Prometheus has GPUs from {} clusters ({label}: {}), so gpuctl refuses sums",
                values.len(),
                values.join(", ")
            );
            let fix = format!(
                "select this cluster with `--match {label}=NAME` or \
                 `contexts.NAME.prometheus.matchers` in the config file"
            );
            Some(DoctorCheck::new(CheckStatus::Fail, "clusters", message).fix(&fix))
        }
    }
}

/// Checks the retention. Only Prometheus itself reports it.
fn check_retention(body: &[u8]) -> Option<DoctorCheck> {
    let response: serde_json::Value = serde_json::from_slice(body).ok()?;
    let retention = response
        .pointer("/data/storageRetention")?
        .as_str()
        .filter(|text| !text.is_empty())?;
    let message = format!("samples are retained for {retention}");
    // With a size limit, the value looks like `15d or 10GiB`.
    let days = retention.split(' ').next().and_then(days);
    Some(match days {
        Some(days) if days < MIN_RETENTION_DAYS => {
            let message = format!(
                "{message}; `eff` and start forecasts look back {MIN_RETENTION_DAYS:.0} days"
            );
            DoctorCheck::new(CheckStatus::Warn, "retention", message)
                .fix("start Prometheus with --storage.tsdb.retention.time=15d or more")
        }
        _ => DoctorCheck::new(CheckStatus::Ok, "retention", message),
    })
}

/// Converts a Prometheus duration, such as `15d` or `1w2d`, to days.
fn days(text: &str) -> Option<f64> {
    let (mut days, mut rest) = (0.0, text);
    while !rest.is_empty() {
        let length = rest
            .find(|c: char| !c.is_ascii_digit())
            .filter(|length| *length > 0)?;
        let (number, unit) = rest.split_at(length);
        let end = unit
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(unit.len());
        let days_per_unit = match &unit[..end] {
            "y" => 365.0,
            "w" => 7.0,
            "d" => 1.0,
            "h" => 1.0 / 24.0,
            "m" => 1.0 / 1440.0,
            "s" => 1.0 / 86_400.0,
            _ => return None,
        };
        days += number.parse::<f64>().ok()? * days_per_unit;
        rest = &unit[end..];
    }
    Some(days)
}

#[cfg(test)]
mod tests;
