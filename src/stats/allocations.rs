//! Reconstructs who held which devices during a window from kube-state-metrics samples, deleted pods included. Time is cut
//! into slots of one scrape; slots without samples are unknown and weigh nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::GpuCount;
use crate::model::reading::PodKey;
use crate::model::series::{Point, Series};

use super::kube_state::{label, label_name, names, owner, pod};

/// The window, in Unix milliseconds: its begin belongs to it, its end does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub start: i64,
    pub end: i64,
}

/// The object at the top of a pod's chain of owners.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TopOwner {
    pub namespace: String,
    pub kind: String,
    pub name: String,
}

/// A pod, for as long as it requested devices on one node.
#[derive(Clone, Debug)]
pub(crate) struct Allocation {
    pub pod: PodKey,
    /// Empty while it waits for one.
    pub node: String,
    pub top: TopOwner,
    /// Whole devices.
    pub gpus: GpuCount,
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
pub(crate) struct AllocationHistory {
    pub stretch: Stretch,
    /// Length of a slot in milliseconds.
    pub slot: i64,
    /// Slots in which kube-state-metrics was heard.
    pub observed: Vec<bool>,
    /// Devices of all nodes; the highest of the window. `None` when kube-state-metrics reported none.
    pub capacity: Option<u64>,
    /// The same by slot.
    pub capacities: Vec<Option<u64>>,
    /// The highest by node.
    pub of_nodes: BTreeMap<String, u64>,
    pub tenures: Vec<Allocation>,
}

/// What kube-state-metrics answered about a window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Witness {
    pub requests: Vec<Series>,
    pub capacity: Vec<Series>,
    /// Phases that pods were ever in.
    pub phases_ever: Vec<Series>,
    /// When, for pods that were in several.
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

/// Returns the most common time between two samples.
#[must_use]
pub(crate) fn interval<'a>(curves: impl Iterator<Item = &'a [Point]>) -> Option<i64> {
    let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
    // Mostly it is the one before once more.
    let (mut last, mut times) = (0, 0);
    for pair in curves.flat_map(|points| points.windows(2)) {
        // Scrapes jitter by milliseconds.
        let length = (pair[1].at - pair[0].at + 500) / 1000 * 1000;
        if length != last {
            *counts.entry(last).or_default() += times;
            (last, times) = (length, 0);
        }
        times += 1;
    }
    *counts.entry(last).or_default() += times;
    counts
        .into_iter()
        .filter(|(length, count)| *length > 0 && *count > 0)
        .max_by_key(|(length, count)| (*count, -length))
        .map(|(length, _)| length)
}

/// Labels or annotations by pod and UID.
type PodLabels = BTreeMap<(PodKey, String), BTreeMap<String, String>>;
/// Devices by container: whether it is one of the first, its name, the resource.
type Containers = BTreeMap<(bool, String, String), f64>;
/// A pod on a node: key, UID, node.
type PodOnNode = (PodKey, String, String);

impl AllocationHistory {
    /// Builds it from answers. `shared` are nodes whose units are parts of devices.
    #[must_use]
    pub(crate) fn of(witness: &Witness, stretch: Stretch, shared: &BTreeSet<String>) -> Self {
        let all = || witness.capacity.iter().chain(&witness.requests);
        let slot = interval(all().map(|series| &series.points[..])).unwrap_or(USUAL_SLOT).clamp(1000, LONGEST_SLOT);
        let count = stretch.slots(slot);
        let place = |at: i64| usize::try_from((at - stretch.start).div_euclid(slot)).ok().filter(|place| *place < count);
        // One scrape that is late or lost, or a longer time between two, is no gap.
        let mark = |series: &Series, slots: &mut [bool]| {
            let mut before = None;
            for point in &series.points {
                let from = before.filter(|before| point.at - before <= slot * 5 / 2).unwrap_or(point.at);
                let between = (from..point.at).step_by(usize::try_from(slot).unwrap_or(usize::MAX)).skip(1);
                between.chain([point.at]).filter_map(place).for_each(|place| slots[place] = true);
                before = Some(point.at);
            }
        };
        let mut observed = vec![false; count];
        all().for_each(|series| mark(series, &mut observed));
        let capacities = vec![None; count];
        let mut ledger =
            Self { stretch, slot, observed, capacity: None, capacities, of_nodes: BTreeMap::new(), tenures: Vec::new() };
        ledger.count_capacity(&witness.capacity, place, shared);
        let phases = phases(&witness.phases, count, place);
        let ever: BTreeMap<_, _> = witness.phases_ever.iter().filter_map(|series| pod(series).zip(phase(series))).collect();
        let tops = Tops::of(witness);
        let told = |answer: &[Series], before: &str| -> Option<PodLabels> {
            let found: BTreeMap<_, _> = answer.iter().filter_map(|series| Some((pod(series)?, names(series, before)))).collect();
            // Without an allow-list there are series, and nothing in them.
            found.values().any(|names| !names.is_empty()).then_some(found)
        };
        let (labels, annotations) = (told(&witness.labels, "label_"), told(&witness.annotations, "annotation_"));
        let requests = requests(&witness.requests, count, mark);
        let mut last_seen: BTreeMap<(PodKey, String), usize> = BTreeMap::new();
        for ((key, uid, _), (_, requested)) in &requests {
            let last = requested.iter().rposition(|requested| *requested).unwrap_or(0);
            let seen = last_seen.entry((key.clone(), uid.clone())).or_default();
            *seen = last.max(*seen);
        }
        for ((key, uid, node), (gpus, mut requested)) in requests {
            if gpus == 0 || shared.contains(&node) {
                continue;
            }
            let id = (key.clone(), uid);
            // Who was never in another phase was in it until it was seen last.
            let lone = || Some(Phases::until(*last_seen.get(&id)?, count, *ever.get(&id)?));
            let of = phases.get(&id).cloned().or_else(lone);
            let alive = |slot: usize| of.as_ref().is_none_or(|of| matches!(of.at(slot), None | Some("Pending" | "Running")));
            requested.iter_mut().enumerate().for_each(|(slot, requested)| *requested = *requested && alive(slot));
            let held = if node.is_empty() { vec![false; count] } else { requested.clone() };
            let own = |all: &Option<PodLabels>| all.as_ref().map(|all| all.get(&id).cloned().unwrap_or_default());
            ledger.tenures.push(Allocation {
                top: tops.of_pod(&key),
                pod: key,
                node,
                gpus: GpuCount(gpus),
                requested,
                held,
                phase: of.as_ref().and_then(Phases::last),
                labels: own(&labels),
                annotations: own(&annotations),
            });
        }
        ledger
    }

    fn count_capacity(&mut self, answer: &[Series], place: impl Fn(i64) -> Option<usize>, shared: &BTreeSet<String>) {
        let count = self.observed.len();
        let mut told: BTreeMap<(&str, &str), Vec<Option<u64>>> = BTreeMap::new();
        for series in answer {
            let Some(node) = label(series, "node").filter(|node| !shared.contains(*node)) else { continue };
            let slots = told.entry((node, series.label("resource").unwrap_or_default())).or_insert_with(|| vec![None; count]);
            for point in series.points.iter().filter(|point| point.value.is_finite() && point.value >= 0.0) {
                let Some(slot) = place(point.at) else { continue };
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of devices")]
                let value = point.value.round() as u64;
                slots[slot] = slots[slot].max(Some(value));
            }
        }
        let mut of_nodes: BTreeMap<&str, Vec<Option<u64>>> = BTreeMap::new();
        for ((node, _), slots) in told {
            add(of_nodes.entry(node).or_insert_with(|| vec![None; count]), &slots);
        }
        for (node, slots) in of_nodes {
            add(&mut self.capacities, &slots);
            let most = slots.into_iter().flatten().max();
            self.of_nodes.extend(most.map(|most| (node.to_owned(), most)));
        }
        self.capacity = self.capacities.iter().flatten().max().copied();
    }

    /// Returns the slot of a time; `None` outside the window.
    #[must_use]
    pub(crate) fn slot_of(&self, at: i64) -> Option<usize> {
        usize::try_from((at - self.stretch.start).div_euclid(self.slot)).ok().filter(|slot| *slot < self.observed.len())
    }

    /// Finds for each slot the nearest in which somebody looked: one before, else one after.
    #[must_use]
    pub(crate) fn nearest_looks(&self) -> Vec<Option<usize>> {
        let mut last = self.observed.iter().position(|observed| *observed);
        let nearest = |(slot, observed): (usize, &bool)| {
            last = if *observed { Some(slot) } else { last };
            last
        };
        self.observed.iter().enumerate().map(nearest).collect()
    }

    /// Places of the tenures that belong to a group.
    #[must_use]
    pub(crate) fn group(&self, belongs: impl Fn(&Allocation) -> bool) -> BTreeSet<usize> {
        self.tenures.iter().enumerate().filter(|(_, tenure)| belongs(tenure)).map(|(index, _)| index).collect()
    }

    /// Slots in which somebody looked.
    #[must_use]
    pub(crate) fn looks(&self) -> usize {
        self.observed.iter().filter(|observed| **observed).count()
    }
}

/// Adds by slot; who was not seen has nothing to add.
fn add(to: &mut [Option<u64>], slots: &[Option<u64>]) {
    for (to, own) in to.iter_mut().zip(slots) {
        *to = own.map(|own| own + to.unwrap_or(0)).or(*to);
    }
}

/// Devices by pod and node, with the slots in which they were requested. A pod wants the sum of its containers, or the most
/// that one of its first containers wants.
fn requests(answer: &[Series], count: usize, mark: impl Fn(&Series, &mut [bool])) -> BTreeMap<PodOnNode, (u64, Vec<bool>)> {
    let mut wanted: BTreeMap<PodOnNode, (Containers, Vec<bool>)> = BTreeMap::new();
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
        let (containers, found) = wanted.entry((key, uid, node)).or_insert_with(|| (Containers::new(), vec![false; count]));
        let of = containers.entry(container).or_default();
        *of = of.max(most);
        mark(series, found);
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

/// The phase of a pod by slot, as its place in [`PHASES`], where it was seen.
#[derive(Clone)]
struct Phases(Vec<Option<usize>>);

/// Phases of pods. In the slot of a change both were true; the later one counts.
const PHASES: [&str; 5] = ["Pending", "Running", "Succeeded", "Failed", "Unknown"];

/// Returns the phase that a series tells of, as its place in [`PHASES`].
fn phase(series: &Series) -> Option<usize> {
    PHASES.iter().position(|known| series.label("phase") == Some(known))
}

impl Phases {
    /// Returns the same up to a slot.
    fn until(last: usize, count: usize, phase: usize) -> Self {
        Self((0..count).map(|slot| (slot <= last).then_some(phase)).collect())
    }

    /// Returns what it was last seen in, else what it was seen in first.
    fn at(&self, slot: usize) -> Option<&'static str> {
        let before = self.0[..=slot].iter().rev().find_map(|phase| *phase);
        before.or_else(|| self.0[slot..].iter().find_map(|phase| *phase)).map(|phase| PHASES[phase])
    }

    fn last(&self) -> Option<(usize, String)> {
        self.0.iter().enumerate().rev().find_map(|(slot, phase)| Some((slot, PHASES[(*phase)?].to_owned())))
    }
}

fn phases(answer: &[Series], count: usize, place: impl Fn(i64) -> Option<usize>) -> BTreeMap<(PodKey, String), Phases> {
    let mut found = BTreeMap::new();
    for series in answer {
        let Some((id, phase)) = pod(series).zip(phase(series)) else { continue };
        let Phases(slots) = found.entry(id).or_insert_with(|| Phases(vec![None; count]));
        for point in series.points.iter().filter(|point| point.value == 1.0) {
            if let Some(slot) = place(point.at) {
                slots[slot] = slots[slot].max(Some(phase));
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
    fn of_pod(&self, pod: &PodKey) -> TopOwner {
        let (namespace, name) = pod.clone();
        let Some((mut kind, mut name)) = self.pods.get(pod).cloned() else {
            return TopOwner { namespace, kind: "Pod".to_owned(), name };
        };
        while let Some(above) = self.above.get(&(namespace.clone(), kind.clone(), name.clone())) {
            (kind, name) = above.clone();
        }
        TopOwner { namespace, kind, name }
    }
}
