//! Detects several Prometheus servers behind one address whose samples have different gaps. The
//! Prometheus Operator runs replicas that scrape independently behind one Service, so each request
//! may reach another one.

use crate::model::Series;

use super::query::quoted;

/// Number of identical queries. Of two replicas that respond at random, the same one responds to six
/// queries once in 32 times.
pub const QUESTIONS: usize = 6;
/// Number of nodes whose samples are counted.
const NODES: usize = 3;
/// Largest difference that two scrape schedules can cause: as a fraction of the samples, and in
/// samples.
const TOLERANCE: f64 = 0.01;
const MIN_DIFFERENCE: f64 = 8.0;

/// Fewest and most samples in the answers to one question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplicaGaps {
    pub fewest: f64,
    pub most: f64,
}

/// Query for the nodes that have GPUs now.
pub const GPU_NODES: &str =
    r#"group by (node) (kube_node_status_capacity{resource=~"(nvidia|amd)_com_.*"})"#;

/// Queries the nodes that had GPUs in the last `seconds`.
pub fn past_gpu_nodes(seconds: i64) -> String {
    format!(
        "group by (node) (last_over_time(kube_node_status_capacity\
         {{resource=~\"(nvidia|amd)_com_.*\"}}[{seconds}s]))"
    )
}

/// Builds the query that counts the samples of a few nodes in the last `seconds`, from the response
/// to [`GPU_NODES`] or [`past_gpu_nodes`]. Returns `None` without nodes.
pub fn question(nodes: &[Series], seconds: i64) -> Option<String> {
    let mut names: Vec<&str> = nodes
        .iter()
        .filter_map(|series| series.label("node"))
        .collect();
    names.sort_unstable();
    names.truncate(NODES);
    let pattern: Vec<String> = names.iter().map(|name| regex::escape(name)).collect();
    (!names.is_empty()).then(|| {
        format!(
            "sum(count_over_time(kube_node_status_capacity{{node=~{}}}[{seconds}s]))",
            quoted(&pattern.join("|"))
        )
    })
}

/// Compares the answers to [`question`]. Returns `None` if they agree. An answer without a series is
/// a replica without samples.
pub fn compare(answers: &[Vec<Series>]) -> Option<ReplicaGaps> {
    let count = |answer: &Vec<Series>| {
        answer
            .first()
            .and_then(Series::last)
            .map_or(0.0, |last| last.value)
    };
    let counts = || answers.iter().map(count);
    let (fewest, most) = (counts().reduce(f64::min)?, counts().reduce(f64::max)?);
    (most - fewest > (most * TOLERANCE).max(MIN_DIFFERENCE)).then_some(ReplicaGaps { fewest, most })
}

impl ReplicaGaps {
    /// Describes the difference for a message.
    pub fn message(&self, server: &str) -> String {
        format!(
            "Prometheus at {server} counts {:.0} to {:.0} samples for the same nodes and time: \
             several replicas with different gaps share this address, so sums depend on which one \
             answers",
            self.fewest, self.most
        )
    }

    pub const FIX: &str =
        "use the address of one replica, or of a store that merges them, such as Thanos";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Point;

    fn counted(values: &[f64]) -> Vec<Vec<Series>> {
        let answer = |value: &f64| match *value > 0.0 {
            true => vec![Series {
                points: vec![Point {
                    at: 0,
                    value: *value,
                }],
                ..Series::default()
            }],
            false => Vec::new(),
        };
        values.iter().map(answer).collect()
    }

    #[test]
    fn replicas_with_different_gaps_are_detected() {
        // 3 days at one sample a minute are 4320 samples for each of 3 nodes. The second replica
        // lacks 6 hours: 3 * 360 = 1080 samples.
        let torn = compare(&counted(&[12_960.0, 11_880.0, 12_960.0]));
        let expected = ReplicaGaps {
            fewest: 11_880.0,
            most: 12_960.0,
        };
        assert_eq!(torn, Some(expected));
        // Another scrape schedule shifts at most one sample of each series out of the window.
        assert_eq!(compare(&counted(&[12_960.0, 12_957.0])), None);
        // One percent of a short window is less than a sample.
        assert_eq!(compare(&counted(&[180.0, 174.0])), None);
        assert_eq!(compare(&counted(&[12_960.0; 6])), None);
        assert_eq!(compare(&[]), None);
        assert!(compare(&counted(&[12_960.0, 0.0])).is_some());
    }

    #[test]
    fn question_names_few_nodes() {
        let node = |name: &str| Series {
            labels: [("node".to_owned(), name.to_owned())].into_iter().collect(),
            points: Vec::new(),
        };
        let nodes: Vec<Series> = ["d", "b.x", "a", "c"].map(node).to_vec();
        let question = question(&nodes, 3600).unwrap();
        assert!(
            question.contains(r#"{node=~"a|b\\.x|c"}[3600s]"#),
            "{question}"
        );
        promql_parser::parser::parse(&question).unwrap();
        promql_parser::parser::parse(GPU_NODES).unwrap();
        promql_parser::parser::parse(&past_gpu_nodes(3600)).unwrap();
        assert_eq!(super::question(&[], 3600), None);
    }
}
