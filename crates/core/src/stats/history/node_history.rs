//! Reconstructs how many GPUs each node had in each slot of a window, and how many of them pods
//! could not get.

use std::collections::{BTreeMap, BTreeSet};

use super::allocations::AllocationHistory;
use super::cadence::{intervals, is_gap, usual};
use super::slots::Slots;
use crate::model::facts::part::Part;
use crate::model::values::series::{Point, Series};
use crate::model::values::units::MOST_PER_NODE;
use crate::stats::exporters::kube_state::label;
use crate::stats::exporters::kube_state::node_state::{NodeStateQuery, read_worst};
use crate::stats::exporters::parts::{NodeParts, ResourceUnit};

/// Answers to the queries about nodes for a window.
#[derive(Clone, Debug, Default)]
pub struct NodeStateSeries {
    /// The worst state of each node.
    pub worst: Vec<Series>,
    /// States over time, of the nodes that [`NodeStateSeries::affected`] returns.
    pub over_time: Vec<(NodeStateQuery, Vec<Series>)>,
}

impl NodeStateSeries {
    /// Returns the nodes that were cordoned, not ready or without some of their GPUs at any time.
    /// `capacity` is the answer about the nodes' capacity.
    pub fn affected<'s>(worst: &'s [Series], capacity: &'s [Series]) -> BTreeSet<&'s str> {
        let mut most: BTreeMap<(&str, &str), f64> = BTreeMap::new();
        for series in capacity {
            let Some(node) = label(series, "node") else {
                continue;
            };
            let resource = series.label("resource").unwrap_or_default();
            let highest = most.entry((node, resource)).or_default();
            let values = series.points.iter().map(|point| point.value);
            *highest = values.fold(*highest, f64::max);
        }
        let is_affected = |(_, state, resource, value): &(&str, NodeStateQuery, &str, f64),
                           node: &str| match state {
            NodeStateQuery::Cordoned => *value > 0.0,
            NodeStateQuery::Ready => *value < 1.0,
            NodeStateQuery::Allocatable => most
                .get(&(node, *resource))
                .is_some_and(|highest| value < highest),
        };
        let states = worst.iter().filter_map(read_worst);
        let affected = states.filter(|state| is_affected(state, state.0));
        affected.map(|(node, ..)| node).collect()
    }
}

/// The GPUs of one node by slot. Slices count by their fraction of a GPU.
#[derive(Clone, Debug, Default)]
pub struct NodeSlots {
    /// Number of GPUs, or `None` while the node did not exist or had no samples.
    pub capacity: Vec<Option<f64>>,
    /// Number of GPUs in the last sample before the window. Samples outside of the window exist only
    /// if the window begins or ends with a gap.
    pub before: Option<f64>,
    /// Number of GPUs in the first sample after the window.
    pub after: Option<f64>,
    /// Number of GPUs that the kubelet did not offer, or all of them while the node was not ready.
    /// `None` if kube-state-metrics does not report it.
    pub lost: Option<Vec<f64>>,
    /// Whether the node was cordoned, by slot. `None` if kube-state-metrics does not report it.
    pub cordoned: Option<Vec<bool>>,
    /// The slices whose fraction of a GPU is unknown, so that the capacity is unknown too.
    pub unknown_part: Option<String>,
}

/// The GPUs of all nodes with GPUs.
#[derive(Clone, Debug, Default)]
pub struct NodeHistory {
    pub nodes: BTreeMap<String, NodeSlots>,
}

/// Amounts of one resource of a node.
struct ResourceAmounts {
    slots: Vec<Option<f64>>,
    /// The last sample before the window, with its time.
    before: Option<(i64, f64)>,
    /// The first sample after the window.
    after: Option<(i64, f64)>,
}

/// Amounts by node and resource.
type ResourceSlots<'s> = BTreeMap<(&'s str, &'s str), ResourceAmounts>;

impl NodeHistory {
    /// Reads the answers for the window of `ledger`. `parts` contains the kinds of units that nodes
    /// offer.
    pub fn new(
        capacity: &[Series],
        states: &NodeStateSeries,
        ledger: &AllocationHistory,
        parts: &NodeParts,
    ) -> Self {
        let mut history = Self::default();
        history.add_resources(&resource_slots(capacity.iter(), ledger), parts);
        history.add_claimable(ledger, parts);
        history.add_states(states, ledger, parts);
        history
    }

    fn add_resources(&mut self, resources: &ResourceSlots<'_>, parts: &NodeParts) {
        for ((node, resource), amounts) in resources {
            let (fraction, part) = fraction(parts, node, resource);
            let slots = self.nodes.entry((*node).to_owned()).or_default();
            add(&mut slots.capacity, &amounts.slots, fraction);
            for (sum, sample) in [
                (&mut slots.before, amounts.before),
                (&mut slots.after, amounts.after),
            ] {
                if let Some((_, amount)) = sample {
                    *sum = Some(sum.unwrap_or(0.0) + amount * fraction);
                }
            }
            let is_offered = amounts.slots.iter().flatten().any(|amount| *amount > 0.0);
            if let Some(part) = part.filter(|part| part.fraction.is_none() && is_offered) {
                slots.unknown_part = Some(part.name);
            }
        }
    }

    /// Adds devices that are allocated only through claims, which kube-state-metrics does not
    /// count. Their number in the past is the present one.
    fn add_claimable(&mut self, ledger: &AllocationHistory, parts: &NodeParts) {
        for (node, devices) in parts.claimable() {
            if self.nodes.contains_key(node) {
                continue;
            }
            let of_part = |(name, count): (&String, u64)| {
                let fraction = Part::from_name(name, None).fraction;
                let gpus = fraction.map(|fraction| fraction * count as f64);
                (name.clone(), gpus)
            };
            let of_parts: Vec<_> = devices.separate_parts().map(of_part).collect();
            let gpus: f64 = of_parts.iter().filter_map(|(_, gpus)| *gpus).sum();
            let gpus = gpus + devices.gpus as f64;
            let exists = |slot: usize| {
                let begin = i64::try_from(slot)
                    .unwrap_or(i64::MAX)
                    .saturating_mul(ledger.slot);
                let begin = ledger.span.start.saturating_add(begin);
                ledger.observed[slot] && devices.since.is_none_or(|since| since <= begin)
            };
            let slots = 0..ledger.observed.len();
            let node_slots = NodeSlots {
                capacity: slots.map(|slot| exists(slot).then_some(gpus)).collect(),
                unknown_part: of_parts
                    .into_iter()
                    .find(|(_, gpus)| gpus.is_none())
                    .map(|(name, _)| name),
                ..NodeSlots::default()
            };
            self.nodes.insert(node.clone(), node_slots);
        }
    }

    fn add_states(
        &mut self,
        states: &NodeStateSeries,
        ledger: &AllocationHistory,
        parts: &NodeParts,
    ) {
        let known: BTreeSet<(&str, NodeStateQuery)> = states
            .worst
            .iter()
            .filter_map(read_worst)
            .map(|(node, state, ..)| (node, state))
            .collect();
        let over_time = |state: NodeStateQuery| {
            let series = states.over_time.iter().filter(move |(of, _)| *of == state);
            resource_slots(series.flat_map(|(_, series)| series), ledger)
        };
        let cordoned = over_time(NodeStateQuery::Cordoned);
        let ready = over_time(NodeStateQuery::Ready);
        let offered = over_time(NodeStateQuery::Allocatable);
        for (node, slots) in &mut self.nodes {
            let name = node.as_str();
            let is_known = |state: NodeStateQuery| known.contains(&(name, state));
            let of_node = |amounts: &ResourceSlots<'_>, slot: usize| {
                let mut of_node = amounts.iter().filter(|((node, _), _)| *node == name);
                of_node.find_map(|(_, amounts)| amounts.slots[slot])
            };
            let count = slots.capacity.len();
            if is_known(NodeStateQuery::Cordoned) {
                let is_cordoned = |slot| of_node(&cordoned, slot).is_some_and(|value| value > 0.0);
                slots.cordoned = Some((0..count).map(is_cordoned).collect());
            }
            if !is_known(NodeStateQuery::Ready) || !is_known(NodeStateQuery::Allocatable) {
                continue;
            }
            let mut offered_gpus = vec![None; count];
            for ((_, resource), amounts) in offered.iter().filter(|((node, _), _)| *node == name) {
                let (fraction, _) = fraction(parts, name, resource);
                add(&mut offered_gpus, &amounts.slots, fraction);
            }
            let lost = |slot: usize| match (slots.capacity[slot], of_node(&ready, slot)) {
                (None, _) => 0.0,
                (Some(all), Some(ready)) if ready < 1.0 => all,
                (Some(all), _) => {
                    offered_gpus[slot].map_or(0.0, |offered| (all - offered).max(0.0))
                }
            };
            slots.lost = Some((0..count).map(lost).collect());
        }
    }
}

/// Returns the fraction of a GPU that a unit of a resource is (0 if unknown), and its part.
fn fraction(parts: &NodeParts, node: &str, resource: &str) -> (f64, Option<Part>) {
    match parts.unit(node, resource) {
        Some(ResourceUnit::Device) => (1.0, None),
        Some(ResourceUnit::Part(part)) => (part.fraction.unwrap_or(0.0), Some(part)),
        None => (0.0, None),
    }
}

/// Adds amounts of units to numbers of GPUs, slot by slot.
fn add(sums: &mut Vec<Option<f64>>, amounts: &[Option<f64>], fraction: f64) {
    sums.resize(amounts.len(), None);
    for (sum, amount) in sums.iter_mut().zip(amounts) {
        if let Some(amount) = amount {
            *sum = Some(sum.unwrap_or(0.0) + amount * fraction);
        }
    }
}

/// Groups samples by node and resource. Of several samples in a slot, the highest counts: replicas
/// of a store hold the same samples.
fn resource_slots<'s>(
    answer: impl Iterator<Item = &'s Series>,
    ledger: &AllocationHistory,
) -> ResourceSlots<'s> {
    let answer: Vec<&Series> = answer.collect();
    let firsts = answer.iter().filter_map(|series| series.points.first());
    let first_scrape = firsts
        .map(|point| point.at)
        .min()
        .unwrap_or(ledger.span.start);
    let mut slots = ResourceSlots::new();
    for series in answer {
        let is_absurd = |value: f64| value > MOST_PER_NODE as f64;
        // Impossible amounts are not counted, and another query reports them.
        if series.points.iter().any(|point| is_absurd(point.value)) {
            continue;
        }
        let Some(node) = label(series, "node") else {
            continue;
        };
        let resource = series.label("resource").unwrap_or_default();
        let amounts = slots
            .entry((node, resource))
            .or_insert_with(|| ResourceAmounts {
                slots: vec![None; ledger.observed.len()],
                before: None,
                after: None,
            });
        amounts.add(series, ledger, first_scrape);
    }
    slots
}

impl ResourceAmounts {
    /// Adds the samples of a series. Each counts until the next one, or for one interval before a
    /// gap. A late or lost scrape is not a gap. A series of the first scrape also covers the start of
    /// the window, because the scrape before it was outside.
    fn add(&mut self, series: &Series, ledger: &AllocationHistory, first_scrape: i64) {
        let window = Slots {
            span: ledger.span,
            length: ledger.slot,
            count: ledger.observed.len(),
        };
        let is_valid = |point: &&Point| point.value.is_finite() && point.value >= 0.0;
        let points: Vec<&Point> = series.points.iter().filter(is_valid).collect();
        let times: Vec<i64> = points.iter().map(|point| point.at).collect();
        // Few samples do not show the interval of the series.
        let usual = usual(&times).filter(|_| times.len() > 3);
        let usual = usual.unwrap_or(window.length);
        let intervals = intervals(&times, usual);
        for (index, (point, interval)) in points.iter().zip(intervals).enumerate() {
            let sample = (point.at, point.value);
            if point.at < window.span.start {
                self.before = self
                    .before
                    .filter(|before| before.0 >= point.at)
                    .or(Some(sample));
            } else if point.at >= window.span.end {
                self.after = self
                    .after
                    .filter(|after| after.0 <= point.at)
                    .or(Some(sample));
            }
            let next = times.get(index + 1).copied();
            let next = next.filter(|next| !is_gap(*next - point.at, interval));
            let is_first = index == 0
                && point.at < first_scrape + interval
                && !is_gap(point.at - window.span.start, interval);
            let start = if is_first {
                point.at.min(window.span.start)
            } else {
                point.at
            };
            let slots = window.between(start, next.unwrap_or(point.at + interval));
            let covered = slots.chain(window.slot_at(point.at));
            covered.for_each(|slot| self.slots[slot] = highest(self.slots[slot], point.value));
        }
    }
}

fn highest(known: Option<f64>, value: f64) -> Option<f64> {
    Some(known.map_or(value, |known| known.max(value)))
}

#[cfg(test)]
mod tests;
