//! Finds the utilization metrics that a store has. Queries omit the others, because each operand of
//! `or` costs a scan of the operands before it.

use crate::model::Series;

use super::dialect::{Quantity, metric_of};
use super::{query, recorded};

/// Metrics and recording rules with samples in a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportedMetrics {
    /// Utilization metrics with samples.
    pub utilization: Vec<&'static str>,
    /// True if recording rules record the fatal errors of the last hour.
    pub records_errors: bool,
}

/// Builds the query whose response [`ExportedMetrics::from_answer`] reads.
pub fn query() -> String {
    let names = query::pattern(&[Quantity::Utilization]);
    format!(
        "count by (__name__) ({{__name__=~\"{names}\"}}) or {}",
        recorded::is_recorded()
    )
}

/// Builds the parameters of a label request for the metrics behind hourly sums: devices of nodes
/// and pods, and utilization of devices.
pub fn hourly_metrics() -> String {
    let selector = format!(
        "{{__name__=~\"{HOURLY}|{}\"}}",
        query::pattern(&[Quantity::Utilization])
    );
    form_urlencoded::Serializer::new(String::new())
        .append_pair("match[]", &selector)
        .finish()
}

/// Metrics of kube-state-metrics that hourly sums need.
const HOURLY: &str = "kube_node_status_capacity|kube_pod_container_resource_requests|\
    kube_pod_init_container_resource_requests";

impl ExportedMetrics {
    /// Reads the response to [`query`].
    pub fn from_answer(answer: &[Series]) -> Self {
        let names = answer.iter().filter_map(|series| metric_of(series.name()));
        Self {
            utilization: names.map(|metric| metric.name).collect(),
            records_errors: answer.iter().any(recorded::is_mark),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exported_names_differ_from_the_mark_of_rules() {
        promql_parser::parser::parse(&query()).unwrap_or_else(|error| panic!("{error}"));
        let series = |label: &str, value: &str| Series {
            labels: [(label.to_owned(), value.to_owned())].into_iter().collect(),
            ..Series::default()
        };
        let metric = series("__name__", "DCGM_FI_DEV_GPU_UTIL");
        let exported = ExportedMetrics {
            utilization: vec!["DCGM_FI_DEV_GPU_UTIL"],
            records_errors: false,
        };
        assert_eq!(
            ExportedMetrics::from_answer(std::slice::from_ref(&metric)),
            exported
        );
        assert_eq!(
            ExportedMetrics::from_answer(&[metric, series("codes", "48,64")]),
            ExportedMetrics {
                records_errors: true,
                ..exported
            }
        );
        assert_eq!(
            ExportedMetrics::from_answer(&[]),
            ExportedMetrics::default()
        );
    }
}
