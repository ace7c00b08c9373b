//! Detects several Prometheus servers behind one address whose samples have different gaps. The
//! Prometheus Operator runs replicas that scrape independently behind one Service, so each request
//! may reach another one.

use crate::model::Series;

use super::dialect::Quantity;
use super::kube_state::resources::current_capacity;
use super::query::{pattern, quoted};

/// Number of identical queries. Of two replicas that respond at random, the same one responds to six
/// queries once in 32 times.
pub const QUESTIONS: usize = 6;
/// Number of nodes, and of targets with devices, whose samples are counted.
const MAX_COUNTED: usize = 3;
/// Largest difference that two scrape schedules can cause: as a fraction of the samples, and in
/// samples.
const TOLERANCE: f64 = 0.01;
const MIN_DIFFERENCE: f64 = 8.0;

/// What a question counts. Their scrape jobs have different gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedSamples {
    /// Samples of nodes from kube-state-metrics.
    Nodes,
    /// Samples of devices from exporters.
    Devices,
}

impl CountedSamples {
    pub const ALL: [Self; 2] = [Self::Nodes, Self::Devices];

    /// Builds the query for the series that [`question`] chooses from: those of now, or those of
    /// the last `past` seconds.
    pub fn candidates(self, past: Option<i64>) -> String {
        let (labels, selector) = match self {
            Self::Nodes => ("node", current_capacity()),
            Self::Devices => {
                let names = pattern(&[Quantity::Utilization]);
                ("__name__,instance", format!("{{__name__=~\"{names}\"}}"))
            }
        };
        match past {
            None => format!("group by ({labels}) ({selector})"),
            Some(seconds) => {
                format!("group by ({labels}) (last_over_time({selector}[{seconds}s]))")
            }
        }
    }

    /// Builds the query that counts the samples of a few nodes, or of the devices of a few targets,
    /// in the last `seconds`, from the answer to [`Self::candidates`]. `None` without candidates.
    ///
    /// The samples of devices are a mean per series: their number differs from target to target,
    /// and a window of two scrape schedules differs by a sample of each series.
    pub fn question(self, candidates: &[Series], seconds: i64) -> Option<String> {
        let first = candidates.iter().map(Series::name).min()?;
        let (label, metric, sum) = match self {
            Self::Nodes => ("node", "kube_node_status_capacity", "sum"),
            Self::Devices => ("instance", first, "avg"),
        };
        let candidates = candidates
            .iter()
            .filter(|series| self == Self::Nodes || series.name() == first);
        let mut names: Vec<&str> = candidates
            .filter_map(|series| match self {
                Self::Nodes => series.label(label),
                // A matcher for an empty value selects the series without the label.
                Self::Devices => Some(series.label(label).unwrap_or_default()),
            })
            .collect();
        names.sort_unstable();
        names.truncate(MAX_COUNTED);
        let pattern: Vec<String> = names.iter().map(|name| regex::escape(name)).collect();
        let pattern = quoted(&pattern.join("|"));
        (!names.is_empty())
            .then(|| format!("{sum}(count_over_time({metric}{{{label}=~{pattern}}}[{seconds}s]))"))
    }

    /// Compares the answers to [`Self::question`]. Returns `None` if they agree. An answer without
    /// a series is a replica without samples.
    pub fn compare(self, answers: &[Vec<Series>]) -> Option<ReplicaGaps> {
        let count = |answer: &Vec<Series>| {
            answer
                .first()
                .and_then(Series::last)
                .map_or(0.0, |last| last.value)
        };
        let counts = || answers.iter().map(count);
        let (fewest, most) = (counts().reduce(f64::min)?, counts().reduce(f64::max)?);
        let is_torn = most - fewest > (most * TOLERANCE).max(MIN_DIFFERENCE);
        is_torn.then_some(ReplicaGaps {
            counted: self,
            fewest,
            most,
        })
    }
}

/// Fewest and most samples in the answers to one question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplicaGaps {
    pub counted: CountedSamples,
    pub fewest: f64,
    pub most: f64,
}

impl ReplicaGaps {
    /// Describes the difference for a message.
    pub fn message(&self, server: &str) -> String {
        let subject = match self.counted {
            CountedSamples::Nodes => "nodes",
            CountedSamples::Devices => "GPUs",
        };
        format!(
            "Prometheus at {server} counts {:.0} to {:.0} samples for the same {subject} and time: \
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
        let compare = |answers: &[Vec<Series>]| CountedSamples::Nodes.compare(answers);
        // 3 days at one sample a minute are 4320 samples for each of 3 nodes. The second replica
        // lacks 6 hours: 3 * 360 = 1080 samples.
        let torn = compare(&counted(&[12_960.0, 11_880.0, 12_960.0]));
        let expected = ReplicaGaps {
            counted: CountedSamples::Nodes,
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
        // kube-state-metrics may have no gaps where the exporter has some: a day at one sample in
        // 30 s is 2880 samples of each device, without an hour 2760.
        let gaps = CountedSamples::Devices.compare(&counted(&[2880.0, 2760.0]));
        let message = gaps.unwrap().message("http://p");
        assert!(
            message.starts_with(
                "Prometheus at http://p counts 2760 to 2880 samples for the same GPUs and time"
            ),
            "{message}"
        );
    }

    fn candidate(labels: &[(&str, &str)]) -> Series {
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Series {
            labels: labels.collect(),
            points: Vec::new(),
        }
    }

    #[test]
    fn questions_name_few_nodes_and_few_targets_of_one_metric() {
        let nodes = ["d", "b.x", "a", "c"].map(|name| candidate(&[("node", name)]));
        let of_nodes = CountedSamples::Nodes.question(&nodes, 3600).unwrap();
        assert!(
            of_nodes.contains(r#"{node=~"a|b\\.x|c"}[3600s]"#),
            "{of_nodes}"
        );
        let target =
            |metric: &str, target: &str| candidate(&[("__name__", metric), ("instance", target)]);
        let targets = [
            target("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "10.0.0.1:9400"),
            target("DCGM_FI_DEV_GPU_UTIL", "10.0.0.2:9400"),
            target("DCGM_FI_DEV_GPU_UTIL", "10.0.0.1:9400"),
        ];
        let of_devices = CountedSamples::Devices.question(&targets, 3600).unwrap();
        assert_eq!(
            of_devices,
            r#"avg(count_over_time(DCGM_FI_DEV_GPU_UTIL{instance=~"10\\.0\\.0\\.1:9400|10\\.0\\.0\\.2:9400"}[3600s]))"#
        );
        for counted in CountedSamples::ALL {
            let queries = [counted.candidates(None), counted.candidates(Some(3600))];
            for query in queries.iter().chain([&of_nodes, &of_devices]) {
                promql_parser::parser::parse(query).unwrap();
            }
            assert_eq!(counted.question(&[], 3600), None);
        }
        // Any GPU resource makes a GPU node, and not only those of two vendors.
        assert!(
            CountedSamples::Nodes
                .candidates(None)
                .contains("volcano_sh_vgpu_number")
        );
    }
}
