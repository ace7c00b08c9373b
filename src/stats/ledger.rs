//! Who held which devices during a window, from kube-state-metrics' samples: pods that are gone included. Time is cut into
//! slots as long as a scrape; what nobody saw is unknown and weighs nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::reading::PodKey;
use crate::model::series::{Point, Series};

use super::kube_state::{label, label_name, names, owner, pod};

/// The window, in Unix milliseconds: its begin belongs to it, its end does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    pub start: i64,
    pub end: i64,
}

/// The object at the top of a pod's chain of owners.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Top {
    pub namespace: String,
    pub kind: String,
    pub name: String,
}

/// A pod, for as long as it requested devices on one node.
#[derive(Clone, Debug)]
pub struct Tenure {
    pub pod: PodKey,
    /// Empty while it waits for one.
    pub node: String,
    pub top: Top,
    /// Whole devices.
    pub gpus: u64,
    /// Slots in which it requested them: pending or running.
    pub requested: Vec<bool>,
    /// Slots in which it held them: bound, and pending or running. One that pulls its image holds them.
    pub held: Vec<bool>,
    /// The last phase that was seen, and in which slot.
    pub phase: Option<(usize, String)>,
    /// `None` where kube-state-metrics serves none.
    pub labels: Option<BTreeMap<String, String>>,
    pub annotations: Option<BTreeMap<String, String>>,
}

/// Everybody's tenures.
#[derive(Clone, Debug)]
pub struct Ledger {
    pub stretch: Stretch,
    /// Length of a slot in milliseconds.
    pub slot: i64,
    /// Slots in which kube-state-metrics was heard.
    pub observed: Vec<bool>,
    /// Devices of all nodes; the highest of the window. `None` when nobody told.
    pub capacity: Option<u64>,
    /// The same by slot.
    pub capacities: Vec<Option<u64>>,
    /// The highest by node.
    pub of_nodes: BTreeMap<String, u64>,
    pub tenures: Vec<Tenure>,
}

/// What kube-state-metrics answered about a window.
#[derive(Clone, Debug, Default)]
pub struct Witness {
    pub requests: Vec<Series>,
    pub capacity: Vec<Series>,
    pub phases: Vec<Series>,
    pub owners: Vec<Series>,
    pub replica_sets: Vec<Series>,
    pub jobs: Vec<Series>,
    pub labels: Vec<Series>,
    pub annotations: Vec<Series>,
}

/// Milliseconds between two scrapes where nobody can tell.
const USUAL_SLOT: i64 = 60_000;
/// What is scraped more rarely than this is not followed in time.
const LONGEST_SLOT: i64 = 300_000;

impl Stretch {
    fn slots(self, slot: i64) -> usize {
        usize::try_from((self.end - self.start + slot - 1).div_euclid(slot)).unwrap_or(0)
    }
}

/// The most common time between two samples.
#[must_use]
pub fn interval<'a>(curves: impl Iterator<Item = &'a [Point]>) -> Option<i64> {
    let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
    for pair in curves.flat_map(|points| points.windows(2)) {
        // Scrapes jitter by milliseconds.
        *counts.entry((pair[1].at - pair[0].at + 500) / 1000 * 1000).or_default() += 1;
    }
    counts.into_iter().filter(|(length, _)| *length > 0).max_by_key(|(length, count)| (*count, -length)).map(|(length, _)| length)
}

/// Labels or annotations by pod and UID.
type Named = BTreeMap<(PodKey, String), BTreeMap<String, String>>;
/// Devices by container: whether it is one of the first, its name, the resource.
type Containers = BTreeMap<(bool, String, String), f64>;
/// A pod on a node: key, UID, node.
type Place = (PodKey, String, String);

impl Ledger {
    /// From what was answered. `shared` are nodes whose units are parts of devices.
    #[must_use]
    pub fn of(witness: &Witness, stretch: Stretch, shared: &BTreeSet<String>) -> Self {
        let all = || witness.capacity.iter().chain(&witness.requests);
        let slot = interval(all().map(|series| &series.points[..])).unwrap_or(USUAL_SLOT).clamp(1000, LONGEST_SLOT);
        let count = stretch.slots(slot);
        let place = |at: i64| usize::try_from((at - stretch.start).div_euclid(slot)).ok().filter(|place| *place < count);
        // One scrape that is late or lost, or a longer time between two, is no gap.
        let slots_of = |series: &Series| {
            let mut slots: Vec<usize> = series.points.iter().filter_map(|point| place(point.at)).collect();
            for pair in series.points.windows(2).filter(|pair| pair[1].at - pair[0].at <= slot * 5 / 2) {
                let between = (pair[0].at..pair[1].at).step_by(usize::try_from(slot).unwrap_or(usize::MAX));
                slots.extend(between.filter_map(place));
            }
            slots
        };
        let mut observed = vec![false; count];
        all().flat_map(slots_of).for_each(|slot| observed[slot] = true);
        let capacities = vec![None; count];
        let mut ledger =
            Self { stretch, slot, observed, capacity: None, capacities, of_nodes: BTreeMap::new(), tenures: Vec::new() };
        ledger.count_capacity(&witness.capacity, place, shared);
        let phases = phases(&witness.phases, count, place);
        let tops = Tops::of(witness);
        let told = |answer: &[Series], before: &str| -> Option<Named> {
            let found: BTreeMap<_, _> = answer.iter().filter_map(|series| Some((pod(series)?, names(series, before)))).collect();
            // Without an allow-list there are series, and nothing in them.
            found.values().any(|names| !names.is_empty()).then_some(found)
        };
        let (labels, annotations) = (told(&witness.labels, "label_"), told(&witness.annotations, "annotation_"));
        for ((key, uid, node), (gpus, slots)) in requests(&witness.requests, slots_of) {
            if gpus == 0 || shared.contains(&node) {
                continue;
            }
            let id = (key.clone(), uid);
            let of = phases.get(&id);
            let alive = |slot: usize| of.is_none_or(|of| matches!(of.at(slot), None | Some("Pending" | "Running")));
            let mut requested = vec![false; count];
            slots.iter().filter(|slot| alive(**slot)).for_each(|slot| requested[*slot] = true);
            let held = if node.is_empty() { vec![false; count] } else { requested.clone() };
            let own = |all: &Option<Named>| all.as_ref().map(|all| all.get(&id).cloned().unwrap_or_default());
            ledger.tenures.push(Tenure {
                top: tops.of_pod(&key),
                pod: key,
                node,
                gpus,
                requested,
                held,
                phase: of.and_then(Phases::last),
                labels: own(&labels),
                annotations: own(&annotations),
            });
        }
        ledger
    }

    fn count_capacity(&mut self, answer: &[Series], place: impl Fn(i64) -> Option<usize>, shared: &BTreeSet<String>) {
        let mut slots: BTreeMap<usize, BTreeMap<(String, String), f64>> = BTreeMap::new();
        for series in answer {
            let Some(node) = label(series, "node").filter(|node| !shared.contains(*node)) else { continue };
            let resource = series.label("resource").unwrap_or_default();
            for point in series.points.iter().filter(|point| point.value.is_finite() && point.value >= 0.0) {
                let Some(slot) = place(point.at) else { continue };
                let of = slots.entry(slot).or_default().entry((node.to_owned(), resource.to_owned())).or_default();
                *of = of.max(point.value);
            }
        }
        for (slot, nodes) in &slots {
            let mut of_nodes: BTreeMap<&str, u64> = BTreeMap::new();
            for ((node, _), value) in nodes {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of devices")]
                let value = value.round() as u64;
                *of_nodes.entry(node).or_default() += value;
            }
            self.capacities[*slot] = Some(of_nodes.values().sum());
            self.capacity = self.capacity.max(self.capacities[*slot]);
            for (node, value) in of_nodes {
                let of = self.of_nodes.entry(node.to_owned()).or_default();
                *of = (*of).max(value);
            }
        }
    }

    /// The slot of a time; `None` outside the window.
    #[must_use]
    pub fn slot_of(&self, at: i64) -> Option<usize> {
        usize::try_from((at - self.stretch.start).div_euclid(self.slot)).ok().filter(|slot| *slot < self.observed.len())
    }

    /// The nearest slot in which somebody looked: one before, else one after.
    #[must_use]
    pub fn seen(&self, slot: usize) -> Option<usize> {
        let before = (0..=slot.min(self.observed.len().saturating_sub(1))).rev().find(|slot| self.observed[*slot]);
        before.or_else(|| (slot..self.observed.len()).find(|slot| self.observed[*slot]))
    }

    /// Slots in which somebody looked.
    #[must_use]
    pub fn looks(&self) -> usize {
        self.observed.iter().filter(|observed| **observed).count()
    }
}

/// Devices by pod and node, with the slots in which they were requested. A pod wants the sum of its containers, or the most
/// that one of its first containers wants.
fn requests(answer: &[Series], slots: impl Fn(&Series) -> Vec<usize>) -> BTreeMap<Place, (u64, BTreeSet<usize>)> {
    let mut wanted: BTreeMap<Place, (Containers, BTreeSet<usize>)> = BTreeMap::new();
    // A pod without a node has an empty label, in whose place a scrape may put its own.
    let where_it_is = label_name(answer, "node");
    for series in answer {
        let Some((key, uid)) = pod(series) else { continue };
        let node = series.label(&where_it_is).unwrap_or_default().to_owned();
        let first = series.name() == "kube_pod_init_container_resource_requests";
        let container = (
            first,
            label(series, "container").unwrap_or_default().to_owned(),
            series.label("resource").unwrap_or_default().to_owned(),
        );
        let most = series.points.iter().map(|point| point.value).filter(|value| value.is_finite()).fold(0.0, f64::max);
        let (containers, found) = wanted.entry((key, uid, node)).or_default();
        let of = containers.entry(container).or_default();
        *of = of.max(most);
        found.extend(slots(series));
    }
    let counted = |containers: Containers| {
        let sum: f64 = containers.iter().filter(|((first, ..), _)| !first).map(|(_, value)| value).sum();
        let most = containers.iter().filter(|((first, ..), _)| *first).map(|(_, value)| *value).fold(0.0, f64::max);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of devices")]
        let whole = sum.max(most).round() as u64;
        whole
    };
    wanted.into_iter().map(|(place, (containers, slots))| (place, (counted(containers), slots))).collect()
}

/// The phase of a pod by slot, where it was seen.
struct Phases(Vec<Option<&'static str>>);

impl Phases {
    /// What it was last seen in, else what it was seen in first.
    fn at(&self, slot: usize) -> Option<&'static str> {
        let before = self.0[..=slot].iter().rev().find_map(|phase| *phase);
        before.or_else(|| self.0[slot..].iter().find_map(|phase| *phase))
    }

    fn last(&self) -> Option<(usize, String)> {
        self.0.iter().enumerate().rev().find_map(|(slot, phase)| Some((slot, (*phase)?.to_owned())))
    }
}

fn phases(answer: &[Series], count: usize, place: impl Fn(i64) -> Option<usize>) -> BTreeMap<(PodKey, String), Phases> {
    let mut found = BTreeMap::new();
    for series in answer {
        let known = ["Pending", "Running", "Succeeded", "Failed", "Unknown"];
        let phase = known.into_iter().find(|known| series.label("phase") == Some(known));
        let (Some(id), Some(phase)) = (pod(series), phase) else { continue };
        let Phases(slots) = found.entry(id).or_insert_with(|| Phases(vec![None; count]));
        for point in series.points.iter().filter(|point| point.value == 1.0) {
            if let Some(slot) = place(point.at) {
                // In the slot of a change both were true; the later one counts.
                let order = |phase: Option<&str>| known.iter().position(|known| Some(*known) == phase);
                slots[slot] = if order(slots[slot]) > order(Some(phase)) { slots[slot] } else { Some(phase) };
            }
        }
    }
    found
}

/// Owners of pods, and owners of those.
struct Tops {
    pods: BTreeMap<PodKey, (String, String)>,
    /// By namespace, kind and name.
    above: BTreeMap<(String, String, String), (String, String)>,
}

impl Tops {
    fn of(witness: &Witness) -> Self {
        let pods = witness.owners.iter().filter_map(|series| Some((pod(series)?.0, owner(series)?))).collect();
        let above = |answer: &[Series], kind: &str, name: &str| -> Vec<_> {
            let one = |series: &Series| {
                let key = (label(series, "namespace")?.to_owned(), kind.to_owned(), label(series, name)?.to_owned());
                Some((key, owner(series)?))
            };
            answer.iter().filter_map(one).collect()
        };
        let sets = above(&witness.replica_sets, "ReplicaSet", "replicaset");
        let jobs = above(&witness.jobs, "Job", "job_name");
        Self { pods, above: sets.into_iter().chain(jobs).collect() }
    }

    /// As far up as kube-state-metrics tells; a pod that nobody owns is its own.
    fn of_pod(&self, pod: &PodKey) -> Top {
        let (namespace, name) = pod.clone();
        let Some((mut kind, mut name)) = self.pods.get(pod).cloned() else {
            return Top { namespace, kind: "Pod".to_owned(), name };
        };
        while let Some(above) = self.above.get(&(namespace.clone(), kind.clone(), name.clone())) {
            (kind, name) = above.clone();
        }
        Top { namespace, kind, name }
    }
}
