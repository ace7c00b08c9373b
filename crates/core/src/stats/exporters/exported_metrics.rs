//! Finds the utilization metrics that a store has. Queries omit the others, because each operand of
//! `or` costs a scan of the operands before it.

use crate::model::Series;

use super::dialect::{Quantity, metric_of, metrics};
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

/// Builds the query for current metrics that look like the utilization of GPUs, but are in no table
/// of an exporter.
pub fn unread() -> String {
    let known: Vec<&str> = metrics().map(|metric| metric.name).collect();
    format!(
        "count by (__name__) ({{__name__=~\"{LOOKS_LIKE_USE}\",__name__!~\"{}\"}})",
        known.join("|")
    )
}

/// Names that exporters of accelerators give to utilization, in any case.
const LOOKS_LIKE_USE: &str = "(?i)([a-z0-9:]+_)*(nvidia|dcgm|gpu|accelerator|amd|xpu|xpum|npu|tpu|\
    dcu|mlu|neuroncore|habanalabs)(_[a-z0-9]+)*_(util|utilization|usage|duty_cycle|activity|busy|\
    utilizationrate)(_[a-z0-9]+)*";

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
    fn metrics_of_unknown_exporters_look_like_use() {
        promql_parser::parser::parse(&unread()).unwrap_or_else(|error| panic!("{error}"));
        let pattern = regex::Regex::new(&format!("^(?:{LOOKS_LIKE_USE})$")).unwrap();
        for name in [
            "dcu_utilizationrate",
            "my_gpu_utilization_percent",
            "mlu_utilization",
        ] {
            assert!(pattern.is_match(name), "{name}");
        }
        for name in [
            "node_cpu_seconds_total",
            "container_memory_usage_bytes",
            "kube_node_info",
        ] {
            assert!(!pattern.is_match(name), "{name}");
        }
    }

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
