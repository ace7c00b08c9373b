//! Reads which pods and nodes existed in a past range, and beyond it if kube-state-metrics has no
//! samples at its start or end.

use futures::future::{join, try_join};

use crate::observe::history::{ClusterHistory, span};
use crate::observe::past_queries::{HistoryScope, NodeSeries};
use gpuctl_core::error::Error;
use gpuctl_core::model::UnixSeconds;
use gpuctl_core::stats::exporters::kube_state;
use gpuctl_core::stats::history::allocations::{AllocationHistory, AllocationSeries};

const HOUR: i64 = 3600;

/// Seconds beyond a range in which to look for the scrape nearest to it. Longer outages are not
/// bridged.
const BEYOND: [i64; 4] = [900, HOUR, 6 * HOUR, 24 * HOUR];

impl ClusterHistory<'_> {
    /// Reads which pods and nodes existed. If kube-state-metrics has no samples at the start or the
    /// end of the range, also reads the time beyond it, so that pods on both sides of the gap are
    /// known. Returns the range that was read.
    pub(super) async fn facts(
        &self,
        start: UnixSeconds,
        end: UnixSeconds,
        scope: HistoryScope,
    ) -> Result<(AllocationSeries, NodeSeries, (UnixSeconds, UnixSeconds)), Error> {
        let read = async |start: UnixSeconds, end: UnixSeconds| {
            let queries = self.queries((end - start).max(1), end);
            try_join(queries.pods(scope), queries.nodes(scope)).await
        };
        let (pods, nodes) = read(start, end).await?;
        let (before, after) =
            AllocationHistory::edge_gaps(&pods.requests, &nodes.capacity, span(start, end));
        let (from, to) = join(
            async {
                if before {
                    self.last_scrape(start).await
                } else {
                    start
                }
            },
            async {
                if after {
                    self.next_scrape(end).await
                } else {
                    end
                }
            },
        )
        .await;
        if (from, to) == (start, end) {
            return Ok((pods, nodes, (start, end)));
        }
        let (pods, nodes) = read(from, to).await?;
        Ok((pods, nodes, (from, to)))
    }

    /// Returns a time such that kube-state-metrics was scraped between it and `start`, or `start` if
    /// it was not scraped in the day before.
    async fn last_scrape(&self, start: UnixSeconds) -> UnixSeconds {
        for seconds in BEYOND {
            if self.has_pods(seconds, start).await {
                return start - seconds;
            }
        }
        start
    }

    /// Returns a time such that kube-state-metrics was scraped between `end` and it, or `end` if it
    /// was not scraped in the day after.
    async fn next_scrape(&self, end: UnixSeconds) -> UnixSeconds {
        for seconds in BEYOND {
            let until = (end + seconds).min(self.now);
            if until > end && self.has_pods(until - end, until).await {
                return until;
            }
        }
        end
    }

    /// Whether kube-state-metrics has samples in the `seconds` before `end`. Treats a failure as no,
    /// because the samples only fill a gap.
    async fn has_pods(&self, seconds: i64, end: UnixSeconds) -> bool {
        let query = kube_state::any_pod(seconds);
        let answer = self.prometheus.query_at(&query, end).await;
        answer.is_ok_and(|series| !series.is_empty())
    }
}
