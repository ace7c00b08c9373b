//! Queries when a workload was created.
//!
//! Source: kube-state-metrics' docs/metrics/workload/ (`kube_pod_created`, `kube_job_created`,
//! `kube_deployment_created`, `kube_statefulset_created`).

use super::window;
use crate::model::UnixSeconds;
use crate::model::values::series::Series;
use crate::stats::exporters::query::quoted;

/// Letters and digits of the suffixes that Kubernetes generates
/// (`k8s.io/apimachinery/pkg/util/rand`). Words have vowels, so `train-large` is another workload
/// than `train`.
const GENERATED: &str = "[bcdfghjklmnpqrstvwxz2456789]";

/// Queries when objects with this name, and the pods that they generated, were created. Considers
/// objects that existed in the last `seconds`.
pub fn query(name: &str, seconds: i64) -> String {
    // Ranks of training operators, indexes, and suffixes of Jobs and Deployments.
    let suffix = format!(
        "(-(worker|master|launcher|chief|ps|head))?(-[0-9]+)?\
         (-({GENERATED}{{8,10}}-)?{GENERATED}{{5}})?"
    );
    let generated = quoted(&format!("{}{suffix}", regex::escape(name)));
    let exact = quoted(name);
    let oldest = |metric: &str, matcher: &str| {
        let selector = format!("{metric}{{{matcher}}}{}", window(seconds));
        format!("min by (namespace,exported_namespace) (min_over_time({selector}))")
    };
    let objects = [
        ("kube_pod_created", format!("pod=~{generated}")),
        ("kube_pod_created", format!("exported_pod=~{generated}")),
        ("kube_job_created", format!("job_name={exact}")),
        ("kube_deployment_created", format!("deployment={exact}")),
        ("kube_statefulset_created", format!("statefulset={exact}")),
    ];
    // Different label names would let `or` keep only the first operand, so mark each one.
    let numbered = objects
        .iter()
        .enumerate()
        .map(|(number, (metric, matcher))| {
            let oldest = oldest(metric, matcher);
            format!("label_replace({oldest}, \"source\", \"{number}\", \"\", \"\")")
        });
    numbered.collect::<Vec<_>>().join(" or ")
}

/// First release of Kubernetes, in Unix seconds. Nothing was created earlier.
const FIRST_RELEASE: f64 = 1_402_000_000.0;

/// Returns the first time of creation.
pub fn first<'s>(answer: impl Iterator<Item = &'s Series>) -> Option<UnixSeconds> {
    let created = answer
        .filter_map(|series| Some(series.last()?.value))
        .filter(|value| value.is_finite() && *value > FIRST_RELEASE);
    #[expect(clippy::cast_possible_truncation, reason = "a time in seconds")]
    let seconds = created.min_by(f64::total_cmp).map(|value| value as i64);
    seconds.map(UnixSeconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::values::series::Point;

    #[test]
    fn creation_is_the_first_of_all_objects() {
        let created = |value: f64| Series {
            points: vec![Point { at: 0, value }],
            ..Series::default()
        };
        let answer = [
            created(1_700_000_100.0),
            created(1_700_000_000.0),
            created(0.0),
            created(1.0),
        ];
        assert_eq!(first(answer.iter()), Some(UnixSeconds(1_700_000_000)));
        assert_eq!(first([].iter()), None);
    }

    #[test]
    fn pods_of_other_workloads_do_not_match() {
        let query = query("train", 60);
        let pattern = query
            .split("pod=~\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        let pattern = regex::Regex::new(&format!("^(?:{pattern})$")).unwrap();
        for pod in [
            "train",
            "train-0",
            "train-x7k2p",
            "train-1-x7k2p",
            "train-5d9f8bc7d4-x7k2p",
        ] {
            assert!(pattern.is_match(pod), "{pod}");
        }
        assert!(pattern.is_match("train-worker-3"));
        for pod in ["train-large", "train-large-0", "train-big-x7k2p", "trainer"] {
            assert!(!pattern.is_match(pod), "{pod}");
        }
    }
}
