//! Reads which pods and nodes existed in a past range, and beyond it if kube-state-metrics has no
//! samples at its start or end.

use futures::future::{join, try_join};

use crate::observe::history::{ClusterHistory, span};
use crate::observe::past_queries::{HistoryScope, PastFacts};
use gpuctl_core::error::Error;
use gpuctl_core::model::UnixSeconds;
use gpuctl_core::stats::exporters::kube_state;
use gpuctl_core::stats::history::allocations::AllocationHistory;
use gpuctl_core::stats::history::outage::{NearestScrape, Outage, OutageEdges, nearest_edges};

impl ClusterHistory<'_> {
    /// Reads which pods and nodes existed. If kube-state-metrics has no samples at the start or the
    /// end of the range, also reads the time beyond it, so that pods on both sides of the gap are
    /// known.
    pub(super) async fn facts(
        &self,
        start: UnixSeconds,
        end: UnixSeconds,
        scope: HistoryScope,
    ) -> Result<PastFacts, Error> {
        let range = (start, end);
        let read = async |(start, end): (UnixSeconds, UnixSeconds)| {
            let queries = self.queries((end - start).max(1), end);
            try_join(queries.pods(scope), queries.nodes(scope)).await
        };
        let (pods, nodes) = read(range).await?;
        let (before, after) =
            AllocationHistory::edge_gaps(&pods.requests, &nodes.capacity, span(start, end));
        let is_empty = pods.requests.is_empty() && nodes.capacity.is_empty();
        let (edges, may_differ) = if is_empty {
            self.edges_of_outage(range).await
        } else {
            let (last, next) = self.nearest_scrapes(range, before, after).await;
            let has_failed = last.has_failed() || next.has_failed();
            // The end of an outage that lasts until now can show the pods that existed in it.
            let may_differ = has_failed || after && next.is_silent_to_limit();
            (nearest_edges(range, &last, &next), may_differ)
        };
        let wide = (edges.0.unwrap_or(start), edges.1.unwrap_or(end));
        let (pods, nodes) = match wide == range {
            true => (pods, nodes),
            false => read(wide).await?,
        };
        Ok(PastFacts {
            pods,
            nodes,
            range: wide,
            may_differ,
        })
    }

    /// Searches for the edges of the outage that covers a range without samples, unless another
    /// hour of the outage has found them. The flag is true if the store did not answer.
    async fn edges_of_outage(&self, range: (UnixSeconds, UnixSeconds)) -> (OutageEdges, bool) {
        // The lock is held during the search, so that concurrent hours wait for its result.
        let mut outages = self.outages.lock().await;
        if let Some(outage) = outages.iter().find(|outage| outage.covers(range)) {
            return (outage.edges(), outage.has_failed());
        }
        let (before, after) = self.nearest_scrapes(range, true, true).await;
        let outage = Outage::new(range, &before, &after);
        outages.push(outage);
        (outage.edges(), outage.has_failed())
    }

    /// Searches for the last scrape before a range and the first one after it.
    async fn nearest_scrapes(
        &self,
        (start, end): (UnixSeconds, UnixSeconds),
        before: bool,
        after: bool,
    ) -> (NearestScrape, NearestScrape) {
        let last = async {
            let search = NearestScrape::new(if before { start.0 } else { 0 });
            let has_scrape = async |distance| self.has_scrape(distance, start).await;
            searched(search, has_scrape).await
        };
        let next = async {
            let search = NearestScrape::new(if after { self.now - end } else { 0 });
            let has_scrape = async |distance| self.has_scrape(distance, end + distance).await;
            searched(search, has_scrape).await
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
