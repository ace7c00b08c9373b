//! Measures inference servers: the tokens that they process, and the time that they are idle. A
//! server is idle while it has no running, waiting or answered requests. Only servers that export
//! both open and answered requests are included.
//!
//! A counter that decreases has restarted at zero with its process, so its whole value is new.

use std::collections::{BTreeMap, BTreeSet};

use super::allocations::{Allocation, AllocationGroup, AllocationHistory};
use crate::model::facts::reading::PodKey;
use crate::model::values::series::{Point, Series};
use crate::model::values::units::total;
use crate::stats::exporters::dialect::{EXPORTED_POD, PLAIN_POD};
use crate::stats::score::serving::{ANSWERED, OPEN};

/// Counters of prompt tokens.
const PROMPT: [&str; 3] = [
    "vllm:prompt_tokens_total",
    "sglang:prompt_tokens_total",
    "tgi_request_input_length_sum",
];
/// Counters of generated tokens.
const GENERATED: [&str; 3] = [
    "vllm:generation_tokens_total",
    "sglang:generation_tokens_total",
    "tgi_request_generated_tokens_sum",
];

/// How far before a window, in seconds, to look for the sample before the window's first one.
pub const BEFORE: i64 = 300;

/// Activity of the servers of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServingHours {
    /// GPU-hours of the pods that export request metrics. Slices count by their fraction.
    pub held: f64,
    /// Part of these hours without running, waiting or answered requests.
    pub idle: f64,
    pub prompt_tokens: f64,
    pub generated_tokens: f64,
}

impl ServingHours {
    pub fn add(&mut self, other: Self) {
        self.held += other.held;
        self.idle += other.idle;
        self.prompt_tokens += other.prompt_tokens;
        self.generated_tokens += other.generated_tokens;
    }

    /// Returns the number of generated tokens per held GPU-hour.
    pub fn tokens_per_gpu_hour(&self) -> Option<f64> {
        (self.held > 0.0 && self.generated_tokens > 0.0).then(|| self.generated_tokens / self.held)
    }
}

/// Builds the query for a window and a short time before it.
pub fn query(seconds: i64) -> String {
    let names: Vec<&str> = OPEN
        .iter()
        .chain(&ANSWERED)
        .chain(&PROMPT)
        .chain(&GENERATED)
        .copied()
        .collect();
    format!(
        "{{__name__=~\"{}\"}}[{}s] offset 1ms",
        names.join("|"),
        seconds + BEFORE
    )
}

/// Activity of one server.
#[derive(Default)]
struct ServerActivity {
    /// Whether requests were running or waiting at a time; in `answered`, whether any were answered
    /// since the previous sample.
    open: BTreeMap<i64, bool>,
    answered: BTreeMap<i64, bool>,
    /// Tokens by metric and scraper, because two scrapers report the same tokens of a server.
    tokens: BTreeMap<(&'static str, String), f64>,
}

/// Labels that identify the scraper of a series.
const SCRAPE: [&str; 9] = [
    "job",
    "instance",
    "endpoint",
    "service",
    "container",
    "prometheus",
    "prometheus_replica",
    "replica",
    "cluster",
];

/// Servers that export request metrics in a window.
pub struct Servers {
    by_pod: BTreeMap<PodKey, ServerActivity>,
}

impl Servers {
    pub fn new(answer: &[Series], start: i64) -> Self {
        let mut by_pod: BTreeMap<PodKey, ServerActivity> = BTreeMap::new();
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
            let points: Vec<Point> = series
                .points
                .iter()
                .filter(|point| point.value.is_finite())
                .copied()
                .collect();
            let server = by_pod.entry(pod).or_default();
            let name = series.name();
            if OPEN.contains(&name) {
                for point in points.iter().filter(|point| point.at >= start) {
                    *server.open.entry(point.at).or_default() |= point.value > 0.0;
                }
            } else if ANSWERED.contains(&name) {
                for (time, grown) in growth(&points, start) {
                    *server.answered.entry(time).or_default() |= grown > 0.0;
                }
            } else if let Some(name) = PROMPT
                .iter()
                .chain(&GENERATED)
                .find(|known_name| **known_name == name)
            {
                let scraped = SCRAPE
                    .map(|label| series.label(label).unwrap_or_default())
                    .join("\u{0}");
                *server.tokens.entry((name, scraped)).or_default() +=
                    total(growth(&points, start).map(|(_, grown)| grown));
            }
        }
        Self { by_pod }
    }

    /// Sums the servers of a group, or returns `None` if none exports request metrics.
    pub fn hours(
        &self,
        ledger: &AllocationHistory,
        group: impl Fn(&Allocation) -> bool,
    ) -> Option<ServingHours> {
        self.hours_of(ledger, &ledger.group(group))
    }

    /// Sums the servers of some allocations, or returns `None` if none exports request metrics.
    pub fn hours_of(
        &self,
        ledger: &AllocationHistory,
        group: &AllocationGroup,
    ) -> Option<ServingHours> {
        let mut sum: Option<ServingHours> = None;
        let mut counted: BTreeSet<&PodKey> = BTreeSet::new();
        for allocation in group
            .whole
            .iter()
            .chain(&group.parts)
            .map(|index| &ledger.allocations[*index])
        {
            let Some(server) = self.by_pod.get(&allocation.pod) else {
                continue;
            };
            let sum = sum.get_or_insert_default();
            let hours = ledger.slot as f64 / 3_600_000.0 * allocation.devices();
            for slot in (0..ledger.observed.len())
                .filter(|slot| ledger.observed[*slot] && allocation.held[*slot])
            {
                if let Some(active) = server.active(ledger.span.start, ledger.slot, slot) {
                    sum.held += hours;
                    sum.idle += if active { 0.0 } else { hours };
                }
            }
            // A pod with several kinds of slices is one server, so count its tokens once.
            if counted.insert(&allocation.pod) {
                sum.prompt_tokens += server.tokens(&PROMPT);
                sum.generated_tokens += server.tokens(&GENERATED);
            }
        }
        sum
    }
}

impl ServerActivity {
    /// Sums the growth of these counters. Of several scrapers, the highest value counts.
    fn tokens(&self, names: &[&str]) -> f64 {
        let largest = |name: &&str| {
            let counters = self
                .tokens
                .iter()
                .filter(|((counter, _), _)| counter == name)
                .map(|(_, grown)| *grown);
            counters.fold(0.0, f64::max)
        };
        total(names.iter().map(largest))
    }

    /// Returns whether the server was active in a slot, from the samples in the slot or otherwise
    /// the next sample within five minutes. Returns `None` if there are too few samples.
    fn active(&self, start: i64, length: i64, slot: usize) -> Option<bool> {
        let begin = start + i64::try_from(slot).ok()?.saturating_mul(length);
        let in_slot = |values: &BTreeMap<i64, bool>| -> Option<bool> {
            let mut within = values
                .range(begin..begin + length)
                .map(|(_, active)| *active)
                .peekable();
            if within.peek().is_some() {
                return Some(within.any(|active| active));
            }
            values
                .range(begin + length..begin + length + BEFORE * 1000)
                .next()
                .map(|(_, active)| *active)
        };
        match (in_slot(&self.open), in_slot(&self.answered)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            // If only one metric has samples, the other might have shown activity.
            _ => None,
        }
    }
}

/// Computes the growth of a counter between consecutive samples, from `start` on, at the time of
/// the later sample.
fn growth(points: &[Point], start: i64) -> impl Iterator<Item = (i64, f64)> + '_ {
    points
        .windows(2)
        .filter(move |pair| pair[1].at >= start)
        .map(|pair| {
            let (before, now) = (pair[0].value, pair[1].value);
            (pair[1].at, if now >= before { now - before } else { now })
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::GpuCount;
    use crate::stats::history::allocations::AllocationGaps;
    use crate::stats::history::top_owner::TopOwner;

    fn series(pod: &str, name: &str, points: &[(i64, f64)]) -> Series {
        let labels = [("__name__", name), ("namespace", "ml"), ("pod", pod)];
        Series {
            labels: labels
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into_iter()
                .collect(),
            points: points
                .iter()
                .map(|(minute, value)| Point {
                    at: minute * 60_000,
                    value: *value,
                })
                .collect(),
        }
    }

    #[test]
    fn tokens_survive_restarts_and_time_without_requests_is_idle() {
        let replica = [
            ("__name__", "vllm:generation_tokens_total"),
            ("namespace", "ml"),
            ("pod", "chat"),
            ("replica", "b"),
        ];
        let replica = replica
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into_iter()
            .collect();
        let answer = [
            // The counter is 10 before the window and grows by 5. Then a new process starts from
            // zero, counts 7, and does not grow further.
            series(
                "chat",
                "vllm:generation_tokens_total",
                &[(-1, 10.0), (0, 15.0), (1, 7.0), (2, 7.0), (3, 7.0)],
            ),
            series(
                "chat",
                "vllm:prompt_tokens_total",
                &[(0, 100.0), (1, 130.0)],
            ),
            series(
                "chat",
                "vllm:request_success_total",
                &[(-1, 1.0), (0, 2.0), (1, 1.0), (2, 1.0), (3, 1.0)],
            ),
            series(
                "chat",
                "vllm:num_requests_running",
                &[(0, 0.0), (1, 0.0), (2, 0.0), (3, f64::NAN)],
            ),
            series("chat", "vllm:num_requests_waiting", &[(3, 2.0)]),
            // A second collector scrapes the server.
            Series {
                labels: replica,
                ..series(
                    "chat",
                    "vllm:generation_tokens_total",
                    &[(0, 15.0), (1, 7.0)],
                )
            },
            series("half", "vllm:num_requests_running", &[(0, 0.0), (1, 0.0)]),
        ];
        let allocation = |pod: &str, gpus: u64| Allocation {
            pod: ("ml".into(), pod.into()),
            node: "n".into(),
            top: TopOwner {
                namespace: "ml".into(),
                kind: "Deployment".into(),
                name: pod.into(),
            },
            gpus: GpuCount(gpus),
            part: None,
            requested: vec![true; 4],
            held: vec![true; 4],
            running: vec![true; 4],
            phase: None,
            labels: None,
            annotations: None,
            gaps: AllocationGaps::default(),
        };
        let allocations = vec![
            allocation("chat", 2),
            allocation("half", 1),
            allocation("train", 8),
        ];
        let ledger = AllocationHistory::from_allocations(0, 60_000, allocations);
        let servers = Servers::new(&answer, 0);
        let hours = servers.hours(&ledger, |_| true).unwrap();
        assert_eq!((hours.generated_tokens, hours.prompt_tokens), (12.0, 30.0));
        // A request was answered in minutes 0 and 1, minute 2 was idle, and two requests wait in
        // minute 3. `half` lacks a metric.
        assert!(
            (hours.held - 2.0 * 4.0 / 60.0).abs() < 1e-9 && (hours.idle - 2.0 / 60.0).abs() < 1e-9,
            "{hours:?}"
        );
        assert!((hours.tokens_per_gpu_hour().unwrap() - 12.0 / (8.0 / 60.0)).abs() < 1e-9);
        assert_eq!(
            servers.hours(&ledger, |allocation| allocation.pod.1 == "train"),
            None
        );
        promql_parser::parser::parse(&query(3600)).unwrap();
    }
}
