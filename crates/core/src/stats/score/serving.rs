//! Reads the request metrics of inference servers: running, waiting and answered requests. A server
//! without requests is idle, however much GPU memory its model uses. A server with only a few
//! requests is not idle.
//!
//! Sources of the metric names: vLLM and SGLang (docs, "Production metrics"),
//! text-generation-inference (docs, "Metrics"), Triton (docs/user_guide/metrics.md).

use std::collections::BTreeMap;

use crate::model::Series;
use crate::model::facts::reading::PodKey;
use crate::stats::exporters::dialect::{EXPORTED_POD, PLAIN_POD};

/// Gauges of running or waiting requests.
pub(crate) const OPEN: [&str; 7] = [
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "sglang:num_running_reqs",
    "sglang:num_queue_reqs",
    "tgi_batch_current_size",
    "tgi_queue_size",
    "nv_inference_pending_request_count",
];
/// Counters of answered requests.
pub(crate) const ANSWERED: [&str; 4] = [
    "vllm:request_success_total",
    "sglang:num_requests_total",
    "tgi_request_success",
    "nv_inference_request_success",
];
/// Label to which the query copies the name of the metric.
const PART: &str = "gpuctl_part";

/// Activity of a server in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Serving {
    /// No request was running, waiting or answered.
    Idle,
    Active,
}

impl Serving {
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// Builds the query for the last `seconds`.
pub fn query(seconds: i64) -> String {
    let by_pod = [EXPORTED_POD, PLAIN_POD]
        .map(|(namespace, pod)| format!("{namespace},{pod}"))
        .join(",");
    let part = |name: &&str, function: &str, sum: &str| {
        format!(
            r#"label_replace({sum} by ({by_pod}) ({function}({name}[{seconds}s])), "{PART}", "{name}", "", "")"#
        )
    };
    let open = OPEN.iter().map(|name| part(name, "max_over_time", "max"));
    let answered = ANSWERED.iter().map(|name| part(name, "increase", "sum"));
    open.chain(answered).collect::<Vec<_>>().join(" or ")
}

/// Returns the activity of each pod with request metrics.
pub fn read(answer: &[Series]) -> BTreeMap<PodKey, Serving> {
    let mut pods: BTreeMap<PodKey, (bool, bool, bool)> = BTreeMap::new();
    for series in answer {
        let pod_key = |(namespace, pod): (&str, &str)| {
            Some((
                series.label(namespace)?.to_owned(),
                series.label(pod)?.to_owned(),
            ))
        };
        let Some(pod) = pod_key(EXPORTED_POD).or_else(|| pod_key(PLAIN_POD)) else {
            continue;
        };
        let Some(value) = series
            .last()
            .map(|point| point.value)
            .filter(|value| value.is_finite())
        else {
            continue;
        };
        let part = series.label(PART).unwrap_or_default();
        let (open, answered, active) = pods.entry(pod).or_default();
        *open |= OPEN.contains(&part);
        *answered |= ANSWERED.contains(&part);
        *active |= value > 0.0;
    }
    // If only one kind of metric exists, the other might have shown activity.
    let judged = |(pod, (open, answered, active)): (PodKey, (bool, bool, bool))| match active {
        true => Some((pod, Serving::Active)),
        false => (open && answered).then_some((pod, Serving::Idle)),
    };
    pods.into_iter().filter_map(judged).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Point;

    #[test]
    fn server_is_idle_without_running_waiting_or_finished_requests() {
        let series = |pod: &str, part: &str, value: f64| Series {
            labels: [("namespace", "t"), ("pod", pod), (PART, part)]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into_iter()
                .collect(),
            points: vec![Point { at: 0, value }],
        };
        let answer = [
            series("idle", "vllm:num_requests_running", 0.0),
            series("idle", "vllm:request_success_total", 0.0),
            series("ran", "vllm:num_requests_running", 0.0),
            series("ran", "vllm:request_success_total", 3.0),
            series("waits", "tgi_queue_size", 2.0),
            series("half", "sglang:num_running_reqs", 0.0),
            series("odd", "vllm:num_requests_running", f64::NAN),
        ];
        let rows: Vec<_> = read(&answer)
            .into_iter()
            .map(|((_, pod), activity)| (pod, activity.word()))
            .collect();
        let expected = [("idle", "idle"), ("ran", "active"), ("waits", "active")];
        assert_eq!(
            rows,
            expected.map(|(pod, activity)| (pod.to_owned(), activity))
        );
        promql_parser::parser::parse(&query(600)).unwrap();
    }
}
