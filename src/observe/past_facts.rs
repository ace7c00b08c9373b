//! Reads which pods and nodes existed in a past range, and beyond it if kube-state-metrics has no
//! samples at its start or end.

use futures::future::{join, try_join};

use crate::observe::history::{ClusterHistory, span};
use crate::observe::outages::Outage;
use crate::observe::past_queries::{HistoryScope, NodeSeries};
use gpuctl_core::error::Error;
use gpuctl_core::model::UnixSeconds;
use gpuctl_core::stats::exporters::kube_state;
use gpuctl_core::stats::history::allocations::{AllocationHistory, AllocationSeries};
use gpuctl_core::stats::history::outage::NearestScrape;

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
        let range = (start, end);
        let read = async |(start, end): (UnixSeconds, UnixSeconds)| {
            let queries = self.queries((end - start).max(1), end);
            try_join(queries.pods(scope), queries.nodes(scope)).await
        };
        let (pods, nodes) = read(range).await?;
        let (before, after) =
            AllocationHistory::edge_gaps(&pods.requests, &nodes.capacity, span(start, end));
        let is_empty = pods.requests.is_empty() && nodes.capacity.is_empty();
        let wide = if is_empty {
            self.edges_of_outage(range).await
        } else {
            self.edges(range, before, after).await
        };
        let wide = (wide.0.unwrap_or(start), wide.1.unwrap_or(end));
        if wide == range {
            return Ok((pods, nodes, range));
        }
        let (pods, nodes) = read(wide).await?;
        Ok((pods, nodes, wide))
    }

    /// Searches for the edges of the outage that covers a range without samples, unless another
    /// hour of the outage has found them.
    async fn edges_of_outage(
        &self,
        range: (UnixSeconds, UnixSeconds),
    ) -> (Option<UnixSeconds>, Option<UnixSeconds>) {
        // The lock is held during the search, so that concurrent hours wait for its result.
        let mut outages = self.outages.lock().await;
        if let Some(outage) = outages.iter().find(|outage| outage.covers(range)) {
            return (outage.from, outage.to);
        }
        let (from, to) = self.edges(range, true, true).await;
        outages.push(Outage {
            empty: range,
            from,
            to,
        });
        (from, to)
    }

    /// Searches for the last scrape before a range and the first one after it.
    async fn edges(
        &self,
        (start, end): (UnixSeconds, UnixSeconds),
        before: bool,
        after: bool,
    ) -> (Option<UnixSeconds>, Option<UnixSeconds>) {
        let last = async {
            let search = NearestScrape::new(if before { start.0 } else { 0 });
            let has_scrape = async |distance| self.has_scrape(distance, start).await;
            Some(start - searched(search, has_scrape).await.distance()?)
        };
        let next = async {
            let search = NearestScrape::new(if after { self.now - end } else { 0 });
            let has_scrape = async |distance| self.has_scrape(distance, end + distance).await;
            Some(end + searched(search, has_scrape).await.distance()?)
        };
        join(last, next).await
    }

    /// Whether kube-state-metrics has samples in the `seconds` before `end`, or `None` if the store
    /// does not answer.
    async fn has_scrape(&self, seconds: i64, end: UnixSeconds) -> Option<bool> {
        let query = kube_state::scraped(seconds);
        let series = self.prometheus.query_at(&query, end).await.ok()?;
        Some(!series.is_empty())
    }
}

/// Carries out a search.
async fn searched(
    mut search: NearestScrape,
    has_scrape: impl AsyncFn(i64) -> Option<bool>,
) -> NearestScrape {
    while let Some(distance) = search.probe() {
        search.note(distance, has_scrape(distance).await);
    }
    search
}
