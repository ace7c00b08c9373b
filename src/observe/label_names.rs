//! Reads which labels the series of exporters and of kube-state-metrics have, each by itself.

use futures::future::join;
use serde_json::Value;

use gpuctl_core::model::UnixSeconds;
use gpuctl_core::stats::exporters::query;
use gpuctl_prometheus::{Matchers, Prometheus, QueryError};

/// Names of the labels that the series of the exporters and of kube-state-metrics had in a window,
/// or `None` if the store does not list them.
pub(crate) struct LabelNames {
    exporters: Option<Vec<String>>,
    kube_state: Option<Vec<String>>,
}

impl LabelNames {
    pub(crate) async fn read(prometheus: &Prometheus<'_>, range: &str) -> Result<Self, QueryError> {
        let path = |series: String| format!("api/v1/labels?{range}&{series}");
        let (exporters, kube_state) = (path(query::gpu_series()), path(query::kube_state_series()));
        let (exporters, kube_state) = join(
            fetch(prometheus, &exporters),
            fetch(prometheus, &kube_state),
        )
        .await;
        Ok(Self {
            exporters: exporters?,
            kube_state: kube_state?,
        })
    }

    /// Returns true unless the store lists the labels, and this one is not among them.
    pub(crate) fn may_have(&self, label: &str) -> bool {
        let may = |names: &Option<Vec<String>>| {
            names
                .as_ref()
                .is_none_or(|names| names.iter().any(|name| name == label))
        };
        may(&self.exporters) || may(&self.kube_state)
    }

    /// Returns true if one of the sources has series, but none with this label.
    pub(crate) fn is_absent_from_a_source(&self, label: &str) -> bool {
        let lacks = |names: &Option<Vec<String>>| {
            names
                .as_ref()
                .is_some_and(|names| !names.is_empty() && names.iter().all(|name| name != label))
        };
        lacks(&self.exporters) || lacks(&self.kube_state)
    }
}

/// Extends the matchers that a user set to series without the labels, if the exporters or
/// kube-state-metrics have the labels on none of their series.
pub(crate) async fn with_unlabeled_sources(
    prometheus: &Prometheus<'_>,
    matchers: Matchers,
    (since, until): (UnixSeconds, UnixSeconds),
) -> Matchers {
    let names = LabelNames::read(prometheus, &format!("start={since}&end={until}")).await;
    let is_absent = |label: &String| {
        names
            .as_ref()
            .is_ok_and(|names| names.may_have(label) && names.is_absent_from_a_source(label))
    };
    let includes_unlabeled = matchers.pairs().iter().all(|(label, _)| is_absent(label));
    matchers.or_unlabeled(includes_unlabeled)
}

/// Reads a list of strings from the API, or returns `None` if the response is not a list.
pub(crate) async fn fetch(
    prometheus: &Prometheus<'_>,
    path: &str,
) -> Result<Option<Vec<String>>, QueryError> {
    let reply = prometheus.relay(path).await?;
    let document: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let list = document["data"].as_array().filter(|_| reply.code == 200);
    Ok(list.map(|list| {
        list.iter()
            .filter_map(Value::as_str)
            .map(ToOwned::to_owned)
            .collect()
    }))
}
