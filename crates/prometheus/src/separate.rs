//! Queries that do not reuse a connection, to compare the replicas behind one address.

use super::transport::QueryTime;
use super::{Prometheus, QueryError};
use gpuctl_core::model::UnixSeconds;
use gpuctl_core::model::values::series::Series;

impl Prometheus<'_> {
    /// Evaluates a query at a given time on a new connection, so that different replicas behind an
    /// address can answer. Requests through the API server share its connections.
    pub async fn query_separately(
        &self,
        query: &str,
        at: UnixSeconds,
    ) -> Result<Vec<Series>, QueryError> {
        self.query_all(query, QueryTime::Separate(at)).await
    }
}
