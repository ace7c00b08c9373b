//! What jobs did with their time: waited, started, ran, and how often they were interrupted.
//! Services, which have no end, are left out.
//!
//! The effective training time ratio is the part of a job's time, waiting for devices included, in
//! which it trained and kept what it learned (Kokolis et al., "Revisiting Reliability in
//! Large-Scale Machine Learning Research Clusters", arXiv 2410.21680): of an interruption, half of
//! the time between two checkpoints is lost in the mean. Goodput is the same part of the time in
//! which devices were held.

use std::collections::{BTreeMap, BTreeSet};

use super::allocations::{Allocation, AllocationHistory};
use super::top_owner::TopOwner;
use crate::model::facts::reading::PodKey;

/// Kinds that serve until somebody ends them.
const SERVICES: [&str; 9] = [
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "DaemonSet",
    "LeaderWorkerSet",
    "InferenceService",
    "RayService",
    "RayCluster",
    "Notebook",
];

/// Values of a group, in the order of what is grouped by.
type GroupKeys = Vec<Option<String>>;

/// What a job was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// At least one of its pods had no node.
    Waiting,
    /// All had one, and at least one did not run yet.
    Starting,
    Running,
}

/// One job, as far as it was seen. Times are in GPU-hours of what it requested.
#[derive(Clone, Debug, Default)]
struct JobTime {
    waiting: f64,
    starting: f64,
    running: f64,
    lost: f64,
    interruptions: u64,
    /// From its first request to the first time that all its pods had devices, in seconds.
    waited: f64,
    /// True once all had.
    placed: bool,
    /// True where it was there when the look began, so that nobody knows how long it had waited.
    was_there: bool,
    last: Option<Doing>,
    /// Until when it was seen, in milliseconds of observed time, and with how many devices.
    seen: Option<(i64, f64)>,
    /// Hours that it has run since it began or was interrupted.
    since: f64,
    /// Pods that ran when it was seen last.
    running_pods: BTreeSet<PodKey>,
    succeeded: bool,
}

/// All jobs of a time, gathered piece by piece in order.
#[derive(Clone, Debug, Default)]
pub struct JobTimes {
    /// By group and owner.
    jobs: BTreeMap<(GroupKeys, TopOwner), JobTime>,
    /// Seconds between two checkpoints.
    checkpoint: f64,
    /// Milliseconds in which somebody looked so far: time in which nobody did is in no sum, and
    /// interrupts nothing.
    clock: i64,
}

/// What the jobs of a group did together. Times are in GPU-hours.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobSum {
    pub jobs: u64,
    pub succeeded: u64,
    pub interruptions: u64,
    pub waiting: f64,
    pub starting: f64,
    pub running: f64,
    /// Ran, and was lost with an interruption.
    pub lost: f64,
    /// Seconds that jobs waited whose wait began and ended within the time, in order.
    pub waits: Vec<f64>,
    /// Jobs that still wait.
    pub still_waiting: u64,
}

impl JobTimes {
    /// `checkpoint` is the time between two checkpoints in seconds, 0 where none is known.
    pub fn new(checkpoint: f64) -> Self {
        Self {
            checkpoint,
            ..Self::default()
        }
    }

    /// Adds the next piece of time; `group` says of which group an allocation is, `None` that it is
    /// not meant.
    pub fn add(
        &mut self,
        ledger: &AllocationHistory,
        group: impl Fn(&Allocation) -> Option<GroupKeys>,
    ) {
        let mut jobs: BTreeMap<(GroupKeys, TopOwner), Vec<&Allocation>> = BTreeMap::new();
        for tenure in ledger
            .tenures
            .iter()
            .filter(|tenure| !SERVICES.contains(&tenure.top.kind.as_str()))
        {
            if let Some(group) = group(tenure) {
                jobs.entry((group, tenure.top.clone()))
                    .or_default()
                    .push(tenure);
            }
        }
        let begun = self.clock > 0;
        // When each slot begins in observed time; `None` where nobody looked.
        let mut clock = self.clock;
        let mut begin = |observed: &bool| {
            let at = observed.then_some(clock);
            clock += if *observed { ledger.slot } else { 0 };
            at
        };
        let begins: Vec<Option<i64>> = ledger.observed.iter().map(&mut begin).collect();
        let first = begins.iter().position(Option::is_some);
        for (key, tenures) in jobs {
            let job = self.jobs.entry(key).or_default();
            let succeeded = |tenure: &&&Allocation| {
                tenure
                    .phase
                    .as_ref()
                    .is_some_and(|(_, phase)| phase == "Succeeded")
            };
            let done: BTreeSet<&PodKey> = tenures
                .iter()
                .filter(succeeded)
                .map(|tenure| &tenure.pod)
                .collect();
            for (slot, at) in begins
                .iter()
                .enumerate()
                .filter_map(|(slot, at)| Some((slot, (*at)?)))
            {
                let there = || tenures.iter().filter(|tenure| tenure.requested[slot]);
                let devices: f64 = there().map(|tenure| tenure.devices()).sum();
                if there().next().is_none() {
                    continue;
                }
                let doing = match () {
                    () if !there().all(|tenure| tenure.held[slot]) => Doing::Waiting,
                    () if !there().all(|tenure| tenure.running[slot]) => Doing::Starting,
                    () => Doing::Running,
                };
                job.was_there |= job.seen.is_none() && !begun && Some(slot) == first;
                let running: BTreeSet<&PodKey> = there()
                    .filter(|tenure| tenure.running[slot])
                    .map(|tenure| &tenure.pod)
                    .collect();
                // Who ended well has not been interrupted.
                let was_gone = job.seen.is_some_and(|(until, _)| at > until);
                let is_lost = |pod: &PodKey| {
                    if running.contains(pod) {
                        was_gone
                    } else {
                        !done.contains(pod)
                    }
                };
                let lost = job.running_pods.iter().any(is_lost);
                job.running_pods = running.into_iter().cloned().collect();
                job.see(
                    doing,
                    at,
                    devices,
                    ledger.slot,
                    lost.then_some(self.checkpoint),
                );
            }
            // Their objects may be gone when the next run begins.
            job.running_pods.retain(|pod| !done.contains(pod));
            // Pods that failed stay beside the one that took their place: of equals the best
            // counts.
            let rank = |phase: &str| match phase {
                "Running" | "Pending" => 2,
                "Succeeded" => 1,
                _ => 0,
            };
            let phases = tenures.iter().filter_map(|tenure| tenure.phase.as_ref());
            let last = phases.max_by_key(|(slot, phase)| (*slot, rank(phase)));
            job.succeeded = last.map_or(job.succeeded, |(_, phase)| phase == "Succeeded");
        }
        self.clock = clock;
    }

    /// Returns what the jobs of each group did.
    pub fn sums(&self) -> BTreeMap<GroupKeys, JobSum> {
        let mut sums: BTreeMap<GroupKeys, JobSum> = BTreeMap::new();
        for ((group, _), job) in &self.jobs {
            if job.seen.is_some() {
                sums.entry(group.clone()).or_default().add_job(job);
            }
        }
        sums.values_mut()
            .for_each(|sum| sum.waits.sort_by(f64::total_cmp));
        sums
    }
}

impl JobTime {
    /// Adds a slot of so many milliseconds. `lost` has the seconds between two checkpoints where a
    /// pod that ran does not any more.
    fn see(&mut self, doing: Doing, at: i64, devices: f64, slot: i64, lost: Option<f64>) {
        let hours = slot as f64 / 3_600_000.0;
        // Between the end of a pod and the pod that takes its place there is none.
        let gap = self.seen.map_or(0, |(until, _)| (at - until).max(0));
        let before = self.last;
        let interrupted = lost.filter(|_| before == Some(Doing::Running));
        if let Some(checkpoint) = interrupted {
            let lost = (checkpoint / 2.0 / 3600.0).min(self.since);
            self.interruptions += 1;
            self.lost += lost * self.seen.map_or(devices, |(_, devices)| devices);
            self.since = 0.0;
        }
        // After a good end what comes is another run, and nobody waited for it.
        let gap = if before == Some(Doing::Running) && interrupted.is_none() {
            0
        } else {
            gap
        };
        self.waiting +=
            gap as f64 / 3_600_000.0 * self.seen.map_or(devices, |(_, devices)| devices);
        match doing {
            Doing::Waiting => self.waiting += hours * devices,
            Doing::Starting => self.starting += hours * devices,
            Doing::Running => {
                (self.running, self.since) = (self.running + hours * devices, self.since + hours);
            }
        }
        match doing {
            Doing::Waiting if !self.placed => self.waited += slot as f64 / 1000.0,
            Doing::Waiting => {}
            Doing::Starting | Doing::Running => self.placed = true,
        }
        (self.last, self.seen) = (Some(doing), Some((at + slot, devices)));
    }
}

impl JobSum {
    fn add_job(&mut self, job: &JobTime) {
        self.jobs += 1;
        self.succeeded += u64::from(job.succeeded);
        self.interruptions += job.interruptions;
        self.waiting += job.waiting;
        self.starting += job.starting;
        self.running += job.running;
        self.lost += job.lost;
        match job.placed {
            false => self.still_waiting += 1,
            true if !job.was_there => self.waits.push(job.waited),
            true => {}
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.jobs += other.jobs;
        self.succeeded += other.succeeded;
        self.interruptions += other.interruptions;
        self.waiting += other.waiting;
        self.starting += other.starting;
        self.running += other.running;
        self.lost += other.lost;
        self.still_waiting += other.still_waiting;
        self.waits.extend(&other.waits);
        self.waits.sort_by(f64::total_cmp);
    }

    fn kept(&self) -> f64 {
        (self.running - self.lost).max(0.0)
    }

    /// Returns the effective training time ratio, 0 to 1; `None` where no job was seen.
    pub fn effective_ratio(&self) -> Option<f64> {
        let all = self.waiting + self.starting + self.running;
        (all > 0.0).then(|| self.kept() / all)
    }

    /// Returns the same part of the time in which devices were held.
    pub fn goodput(&self) -> Option<f64> {
        let held = self.starting + self.running;
        (held > 0.0).then(|| self.kept() / held)
    }

    /// Returns the seconds below which this part of the waits are: the smallest wait that is not
    /// shorter than that part of them.
    pub fn wait(&self, part: f64) -> Option<f64> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a place in the list"
        )]
        let place = (part * self.waits.len() as f64).ceil() as usize;
        self.waits.get(place.max(1) - 1).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::GpuCount;

    const SLOT: i64 = 60_000;

    /// A pod with so many GPUs; its slots by letter: `w` waits, `s` starts, `r` runs, `.` is not
    /// there.
    fn pod(job: &str, kind: &str, gpus: u64, slots: &str, phase: &str) -> Allocation {
        let of = |letters: &str| {
            slots
                .chars()
                .map(|slot| letters.contains(slot))
                .collect::<Vec<_>>()
        };
        Allocation {
            pod: ("ml".into(), format!("{job}-{gpus}")),
            node: "n".into(),
            top: TopOwner {
                namespace: "ml".into(),
                kind: kind.into(),
                name: job.into(),
            },
            gpus: GpuCount(gpus),
            part: None,
            requested: of("wsr"),
            held: of("sr"),
            running: of("r"),
            phase: Some((slots.len() - 1, phase.into())),
            labels: None,
            annotations: None,
        }
    }

    fn hour(number: i64, tenures: Vec<Allocation>) -> AllocationHistory {
        let slots = tenures[0].requested.len();
        let begin = number * slots as i64 * SLOT;
        AllocationHistory::made(begin, SLOT, tenures)
    }

    #[test]
    fn time_is_waiting_starting_running_or_lost() {
        let mut times = JobTimes::new(240.0);
        let group = |_: &Allocation| Some(vec![Some("ml".to_owned())]);
        // Ten minutes: it waits for two, pulls its image for one, runs for three, is gone for one,
        // and runs again; after the hour it goes on.
        times.add(
            &hour(
                0,
                vec![
                    pod("train", "Job", 4, "wwsrrr.rrr", "Running"),
                    pod("late", "Job", 2, "...wwwwwww", "Pending"),
                    pod("web", "Deployment", 8, "rrrrrrrrrr", "Running"),
                ],
            ),
            group,
        );
        times.add(
            &hour(
                1,
                vec![
                    pod("train", "Job", 4, "rr........", "Succeeded"),
                    pod("late", "Job", 2, "wsrr......", "Failed"),
                ],
            ),
            group,
        );
        let sum = times.sums().remove(&vec![Some("ml".to_owned())]).unwrap();
        let hours = |minutes: f64| minutes / 60.0;
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        assert_eq!(
            (
                sum.jobs,
                sum.succeeded,
                sum.interruptions,
                sum.still_waiting
            ),
            (2, 1, 1, 0)
        );
        // Four devices for 2 + 1 minutes, two for 7 + 1.
        near(sum.waiting, 4.0 * hours(3.0) + 2.0 * hours(8.0));
        near(sum.starting, 4.0 * hours(1.0) + 2.0 * hours(1.0));
        near(sum.running, 4.0 * hours(3.0 + 3.0 + 2.0) + 2.0 * hours(2.0));
        // Half of four minutes.
        near(sum.lost, 4.0 * hours(2.0));
        let kept = 4.0 * 6.0 + 2.0 * 2.0;
        near(
            sum.effective_ratio().unwrap(),
            kept / (4.0 * 12.0 + 2.0 * 11.0),
        );
        near(sum.goodput().unwrap(), kept / (4.0 * 9.0 + 2.0 * 3.0));
        // Of the first one nobody knows since when it waits.
        assert_eq!(
            (sum.waits.clone(), sum.wait(0.5)),
            (vec![480.0], Some(480.0))
        );
    }

    #[test]
    fn another_run_after_a_good_end_is_no_interruption() {
        let mut times = JobTimes::new(0.0);
        let run = |name: &str, slots: &str| Allocation {
            pod: ("ml".into(), name.into()),
            ..pod("nightly", "CronJob", 1, slots, "Succeeded")
        };
        times.add(
            &hour(
                0,
                vec![run("first", "rrr......."), run("second", ".......rrr")],
            ),
            |_| Some(vec![None]),
        );
        let sum = times.sums().remove(&vec![None]).unwrap();
        assert_eq!(
            (sum.interruptions, sum.waiting, sum.effective_ratio()),
            (0, 0.0, Some(1.0))
        );
        // Neither is one that begins in a later piece of time, in which the first is told no more.
        times.add(&hour(1, vec![run("third", ".....rrr..")]), |_| {
            Some(vec![None])
        });
        let sum = times.sums().remove(&vec![None]).unwrap();
        assert_eq!((sum.interruptions, sum.waiting), (0, 0.0));
    }

    #[test]
    fn time_in_which_nobody_looked_interrupts_nothing() {
        let mut times = JobTimes::new(0.0);
        let mut ledger = hour(0, vec![pod("train", "Job", 1, "rrr...rrrr", "Running")]);
        (3..6).for_each(|slot| ledger.observed[slot] = false);
        times.add(&ledger, |_| Some(vec![None]));
        let sum = times.sums().remove(&vec![None]).unwrap();
        assert_eq!(
            (sum.interruptions, sum.waiting, sum.effective_ratio()),
            (0, 0.0, Some(1.0))
        );
        assert!((sum.running - 7.0 / 60.0).abs() < 1e-9);
    }

    #[test]
    fn parts_of_waits_are_waits() {
        let sum = JobSum {
            waits: vec![1.0, 2.0, 3.0, 4.0],
            ..JobSum::default()
        };
        assert_eq!(
            (sum.wait(0.5), sum.wait(0.9), JobSum::default().wait(0.5)),
            (Some(2.0), Some(4.0), None)
        );
        assert_eq!(JobSum::default().effective_ratio(), None);
    }
}
