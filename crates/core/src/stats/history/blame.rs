//! Finds nodes on which jobs fail more often than on others. The failure rate of a node is the
//! number of jobs whose first failed pod ran there, per hour during which its GPUs were held. Each
//! job counts once per node, because a broken program fails everywhere and repeatedly.
//!
//! The interval is the exact 95 % interval of a Poisson rate (Garwood, 1936).

use std::collections::{BTreeMap, BTreeSet};

use crate::model::facts::reading::PodKey;
use crate::model::values::units::total;

use super::allocations::{Allocation, AllocationHistory};
use super::top_owner::TopOwner;

/// Failures of a job within this many milliseconds after its first failure count as its
/// consequences.
const FOLLOWS: i64 = 600_000;
/// Number of hours with held GPUs below which a node has no rate.
const FEW_HOURS: f64 = 0.25;
/// Number of hours with held GPUs below which an interval is too wide to be of use.
const HOURS_OF_INTERVAL: f64 = 24.0;
/// Bounds above this many per 1,000 hours, one per hour, say nothing about the rate of failures.
const HIGHEST_BOUND: f64 = 1000.0;
/// Probability that the value lies beyond one given end of the interval.
const TAIL: f64 = 0.025;

/// Failures of jobs on a node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeBlame {
    pub node: String,
    /// Number of jobs whose first failure was on this node.
    pub jobs: u64,
    /// Number of pods on this node that were the first of their job to fail, counting each retry of
    /// a job.
    pub failures: u64,
    /// Number of pods on this node that failed after, or at the same time as, another pod of their
    /// job.
    pub followed: u64,
    /// Hours during which pods held GPUs on this node.
    pub hours: f64,
    /// Jobs with a first failure per 1,000 of these hours, with the interval; `None` with fewer
    /// than 0.25 hours, which show nothing about a rate.
    pub rate: Option<Rate>,
    /// True if the lower bound exceeds the mean rate of all nodes, this one included.
    pub stands_out: bool,
}

impl NodeBlame {
    /// Returns the bounds of the rate, or `None` if they are too wide: with fewer than 24 hours, or
    /// above 1,000 per 1,000 hours.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let rate = self.rate.filter(|_| self.hours >= HOURS_OF_INTERVAL)?;
        (rate.high <= HIGHEST_BOUND).then_some((rate.low, rate.high))
    }
}

/// Rate per 1,000 hours, with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

/// A failed pod, with its node and the last time it held its devices.
struct FailedPod {
    at: i64,
    node: String,
}

/// Collects failures and hours, one chunk of time after another.
#[derive(Default)]
pub struct BlameLedger {
    hours: BTreeMap<String, f64>,
    failed: BTreeMap<TopOwner, Vec<FailedPod>>,
    /// Last time at which each pod held its devices.
    held: BTreeMap<PodKey, i64>,
    counted: BTreeSet<PodKey>,
}

impl BlameLedger {
    /// Adds the next chunk of time.
    pub fn add(&mut self, seen: &AllocationHistory) {
        let mut busy: BTreeMap<&str, Vec<bool>> = BTreeMap::new();
        for pod in seen.allocations.iter().filter(|pod| !pod.node.is_empty()) {
            let slots = busy
                .entry(&pod.node)
                .or_insert_with(|| vec![false; pod.held.len()]);
            slots
                .iter_mut()
                .zip(&pod.held)
                .for_each(|(slot, held)| *slot |= held);
            // Must come before `note_failure`, which reads this time.
            if let Some(last) = pod.held.iter().rposition(|held| *held) {
                let time = seen.span.start + i64::try_from(last).unwrap_or(0) * seen.slot;
                self.held.insert(pod.pod.clone(), time);
            }
            self.note_failure(pod);
        }
        for (node, slots) in busy {
            let slots = slots.iter().filter(|held| **held).count();
            *self.hours.entry(node.to_owned()).or_default() +=
                slots as f64 * seen.slot as f64 / 3_600_000.0;
        }
    }

    /// Records a failed pod, unless it failed before the first sample.
    fn note_failure(&mut self, pod: &Allocation) {
        let has_failed = pod
            .phase
            .as_ref()
            .is_some_and(|(_, phase)| phase == "Failed");
        let Some(last_held) = self.held.get(&pod.pod).filter(|_| has_failed) else {
            return;
        };
        // A failed pod is reported until it is deleted, so count it only once.
        if self.counted.insert(pod.pod.clone()) {
            self.failed
                .entry(pod.top.clone())
                .or_default()
                .push(FailedPod {
                    at: *last_held,
                    node: pod.node.clone(),
                });
        }
    }

    /// Returns all nodes that held GPUs, outliers first.
    pub fn nodes(self) -> Vec<NodeBlame> {
        let mut tally = FailureTally::default();
        for (top, pods) in self.failed {
            tally.add_job(&top, pods);
        }
        let total_jobs: u64 = self.hours.keys().map(|node| tally.jobs_of(node)).sum();
        let all_hours = total(self.hours.values().copied());
        let usual = (all_hours > 0.0).then(|| total_jobs as f64 / all_hours * 1000.0);
        let mut blamed: Vec<NodeBlame> = self
            .hours
            .iter()
            .map(|(node, hours)| {
                let jobs = tally.jobs_of(node);
                let rate = (*hours >= FEW_HOURS).then(|| rate(jobs, *hours));
                NodeBlame {
                    node: node.clone(),
                    jobs,
                    failures: tally.first.get(node).copied().unwrap_or(0),
                    followed: tally.followed.get(node).copied().unwrap_or(0),
                    hours: *hours,
                    rate,
                    stands_out: rate
                        .zip(usual)
                        .is_some_and(|(rate, usual)| rate.low > usual),
                }
            })
            .collect();
        let low = |blame: &NodeBlame| blame.rate.map_or(-1.0, |rate| rate.low);
        blamed.sort_by(|a, b| {
            b.stands_out
                .cmp(&a.stands_out)
                .then(low(b).total_cmp(&low(a)))
                .then_with(|| a.node.cmp(&b.node))
        });
        blamed
    }
}

/// Failures by node.
#[derive(Default)]
struct FailureTally {
    /// Jobs whose first failure was on the node.
    jobs: BTreeMap<String, BTreeSet<TopOwner>>,
    /// Number of pods that were the first of their job to fail.
    first: BTreeMap<String, u64>,
    followed: BTreeMap<String, u64>,
}

impl FailureTally {
    /// Adds the failed pods of a job, one retry at a time.
    fn add_job(&mut self, top: &TopOwner, mut pods: Vec<FailedPod>) {
        pods.sort_by_key(|pod| pod.at);
        let mut rest = &pods[..];
        while let Some(begin) = rest.first() {
            let (round, later) =
                rest.split_at(rest.partition_point(|pod| pod.at - begin.at <= FOLLOWS));
            let nodes: BTreeSet<&str> = round
                .iter()
                .filter(|pod| pod.at == begin.at)
                .map(|pod| pod.node.as_str())
                .collect();
            // If pods on two nodes failed first in the same slot, their order is unknown.
            let is_known = nodes.len() == 1;
            for (index, pod) in round.iter().enumerate() {
                let counts = if is_known && index == 0 {
                    &mut self.first
                } else {
                    &mut self.followed
                };
                *counts.entry(pod.node.clone()).or_default() += 1;
            }
            if is_known {
                self.jobs
                    .entry(begin.node.clone())
                    .or_default()
                    .insert(top.clone());
            }
            rest = later;
        }
    }

    fn jobs_of(&self, node: &str) -> u64 {
        self.jobs.get(node).map_or(0, |jobs| jobs.len() as u64)
    }
}

fn rate(count: u64, hours: f64) -> Rate {
    let (low, high) = poisson_bounds(count);
    let per = 1000.0 / hours;
    Rate {
        value: count as f64 * per,
        low: low * per,
        high: high * per,
    }
}

/// Computes the two means for which the probability of `count` or more events, or of `count` or
/// fewer events, is [`TAIL`].
fn poisson_bounds(count: u64) -> (f64, f64) {
    // The probability is monotonic in the mean, so bisection finds the bounds.
    let solve = |at_most: u64, probability: f64| {
        let (mut low, mut high) = (0.0, 20.0 + 4.0 * (count + 1) as f64);
        // 80 halvings exceed the precision of an `f64`.
        for _ in 0..80 {
            let middle = f64::midpoint(low, high);
            if poisson(at_most, middle) > probability {
                low = middle;
            } else {
                high = middle;
            }
        }
        f64::midpoint(low, high)
    };
    (
        if count == 0 {
            0.0
        } else {
            solve(count - 1, 1.0 - TAIL)
        },
        solve(count, TAIL),
    )
}

/// Computes the probability of at most `at_most` events with this mean.
fn poisson(at_most: u64, mean: f64) -> f64 {
    // Powers and factorials would overflow, so add the logarithms of the factors.
    let mut log = -mean;
    let mut sum = log.exp();
    for k in 1..=at_most {
        log += mean.ln() - (k as f64).ln();
        sum += log.exp();
    }
    sum
}

#[cfg(test)]
mod tests;
