//! Checks that a store has data about this cluster, and that one server answers all requests.

use futures::future::{join, join_all};

use crate::context::Context;
use gpuctl_cluster::Connection;
use gpuctl_core::model::UnixSeconds;
use gpuctl_core::stats::exporters::membership::{StoreEvidence, StoreMembership};
use gpuctl_core::stats::exporters::query;
use gpuctl_core::stats::exporters::replicas;
use gpuctl_core::stats::exporters::replicas::{CountedSamples, ReplicaGaps};
use gpuctl_prometheus::Prometheus;

/// Label of the query for the own pods. Any label that all series have is enough.
const ANY_LABEL: &str = "namespace";
/// Shortest window in seconds that is worth a comparison of replicas.
const MIN_WINDOW: i64 = 900;
/// Age in seconds after which a store no longer receives samples for a time.
const SETTLED: i64 = 300;

/// Decides by its nodes and pods whether a store belongs to this cluster. Anything that cannot be
/// read proves nothing.
pub(crate) async fn membership(
    prometheus: &Prometheus<'_>,
    connection: &Connection,
) -> StoreMembership {
    let own_pod = async {
        let uids = connection.metrics().some_pods().await.unwrap_or_default();
        if uids.is_empty() {
            return false;
        }
        let query = query::clusters_of_pods(ANY_LABEL, &uids);
        let series = prometheus.now(&query).await;
        series.is_ok_and(|series| !series.is_empty())
    };
    // One of the pods is enough, so read the nodes only without it.
    if own_pod.await {
        return StoreMembership::Own;
    }
    let (own_nodes, reported) = join(
        connection.metrics().some_nodes(),
        prometheus.now(query::NODES),
    )
    .await;
    let evidence = StoreEvidence {
        own_nodes: own_nodes.unwrap_or_default(),
        has_own_pod: false,
        reported: reported.unwrap_or_default(),
    };
    evidence.membership()
}

/// Asks the same questions several times. Returns the difference of the answers, or `None` if they
/// agree or the window is short.
pub(crate) async fn replica_gaps(
    prometheus: &Prometheus<'_>,
    (since, until): (UnixSeconds, UnixSeconds),
) -> Option<ReplicaGaps> {
    let end = until - SETTLED;
    let seconds = end - since;
    if seconds < MIN_WINDOW {
        return None;
    }
    // The scrapes of exporters can have gaps where those of kube-state-metrics have none.
    let gaps = CountedSamples::ALL.map(|counted| gaps_of(counted, prometheus, seconds, end));
    join_all(gaps).await.into_iter().flatten().next()
}

/// Compares the answers to one question.
async fn gaps_of(
    counted: CountedSamples,
    prometheus: &Prometheus<'_>,
    seconds: i64,
    end: UnixSeconds,
) -> Option<ReplicaGaps> {
    let now = counted.candidates(None);
    let mut candidates = prometheus.query_at(&now, end).await.ok()?;
    // The store may have been silent for a while.
    if candidates.is_empty() {
        let past = counted.candidates(Some(seconds));
        candidates = prometheus.query_at(&past, end).await.ok()?;
    }
    let question = counted.question(&candidates, seconds)?;
    let answers = (0..replicas::QUESTIONS).map(|_| prometheus.query_separately(&question, end));
    let answers: Result<Vec<_>, _> = join_all(answers).await.into_iter().collect();
    counted.compare(&answers.ok()?)
}

/// Prints a warning if several replicas with different gaps answer.
pub(crate) async fn warn_about_replicas(
    context: &Context,
    prometheus: &Prometheus<'_>,
    window: (UnixSeconds, UnixSeconds),
) {
    if let Some(gaps) = replica_gaps(prometheus, window).await {
        let message = gaps.message(&prometheus.server);
        context
            .terminal
            .warn(&format!("{message}; {}", ReplicaGaps::FIX));
    }
}
