//! Measures how jobs spent their time (waiting, starting, running) and how often they were
//! interrupted. Services have no end, so they are excluded.
//!
//! The effective training time ratio is the fraction of a job's time, including the wait for
//! devices, during which it made progress that was kept (Kokolis et al., "Revisiting Reliability in
//! Large-Scale Machine Learning Research Clusters", arXiv 2410.21680). On average, an interruption
//! loses half of the time between two checkpoints. Goodput is the same fraction, but of the time
//! with devices.

use std::collections::{BTreeMap, BTreeSet};

use super::allocations::{Allocation, AllocationHistory};
use super::top_owner::TopOwner;
use crate::model::facts::reading::PodKey;
use crate::model::values::units::total;

/// Kinds of objects that serve until a user deletes them.
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

/// A job whose last slot ended at most this many milliseconds before the end of the window still
/// exists.
const RECENT: i64 = 300_000;

/// Values that define a group, in the order of the grouping keys.
pub type GroupValues = Vec<Option<String>>;

/// Activity of a job in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobActivity {
    /// At least one pod was not scheduled.
    Waiting,
    /// All pods were scheduled, but at least one did not run yet.
    Starting,
    Running,
}

/// Observed time of one job, in GPU-hours of the devices that it requested.
#[derive(Clone, Debug, Default)]
struct JobTime {
    waiting: f64,
    starting: f64,
    running: f64,
    lost: f64,
    interruptions: u64,
    /// Seconds from the first request until all pods had devices.
    waited: f64,
    /// True once all pods have had devices.
    placed: bool,
    /// True if the job already existed in the first observed slot, so that the length of its wait
    /// is unknown.
    started_before: bool,
    last: Option<JobActivity>,
    /// End of the job's last slot in milliseconds of observed time, and its number of devices in
    /// that slot.
    seen: Option<(i64, f64)>,
    /// Hours that the job has run since it started or was last interrupted.
    since: f64,
    /// Pods that were running in the job's last slot.
    running_pods: BTreeSet<PodKey>,
    succeeded: bool,
}

/// Collects the jobs of a window, one chunk of time after another.
#[derive(Clone, Debug, Default)]
pub struct JobTimes {
    /// Jobs by group and owner.
    jobs: BTreeMap<(GroupValues, TopOwner), JobTime>,
    /// Seconds between two checkpoints.
    checkpoint: f64,
    /// Milliseconds observed so far. Unobserved time is excluded from every sum and does not
    /// interrupt a job.
    clock: i64,
}

/// Totals of the jobs of a group. Times are in GPU-hours.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobSum {
    pub jobs: u64,
    pub succeeded: u64,
    pub interruptions: u64,
    pub waiting: f64,
    pub starting: f64,
    pub running: f64,
    /// Running time whose progress was lost to interruptions.
    pub lost: f64,
    /// Sorted waiting times, in seconds, of the jobs whose wait started and ended in the window.
    pub waits: Vec<f64>,
    /// Number of jobs that wait for their first devices at the end of the window.
    pub still_waiting: u64,
}

impl JobTimes {
    /// `checkpoint` is the time between two checkpoints in seconds, or 0 if unknown.
    pub fn new(checkpoint: f64) -> Self {
        Self {
            checkpoint,
            ..Self::default()
        }
    }

    /// Adds the next chunk of time. `group` returns the group of an allocation, or `None` to skip
    /// it.
    pub fn add(
        &mut self,
        ledger: &AllocationHistory,
        group: impl Fn(&Allocation) -> Option<GroupValues>,
    ) {
        let mut jobs: BTreeMap<(GroupValues, TopOwner), Vec<&Allocation>> = BTreeMap::new();
        for allocation in ledger
            .allocations
            .iter()
            .filter(|allocation| !SERVICES.contains(&allocation.top.kind.as_str()))
        {
            if let Some(group) = group(allocation) {
                jobs.entry((group, allocation.top.clone()))
                    .or_default()
                    .push(allocation);
            }
        }
        let clock = ObservedClock::new(self.clock, ledger);
        for (key, allocations) in jobs {
            let job = self.jobs.entry(key).or_default();
            job.follow(&allocations, &clock, self.checkpoint);
        }
        self.clock = clock.end;
    }

    /// Returns the totals of each group.
    pub fn sums(&self) -> BTreeMap<GroupValues, JobSum> {
        let mut sums: BTreeMap<GroupValues, JobSum> = BTreeMap::new();
        for ((group, _), job) in &self.jobs {
            if job.seen.is_some() {
                sums.entry(group.clone())
                    .or_default()
                    .add_job(job, self.clock);
            }
        }
        sums.values_mut()
            .for_each(|sum| sum.waits.sort_by(f64::total_cmp));
        sums
    }
}

/// Slots of a chunk in observed time, without slots that have no samples.
struct ObservedClock {
    /// Slots with samples, and the start of each.
    begins: Vec<(usize, i64)>,
    /// Length of a slot in milliseconds.
    slot: i64,
    /// True for the first chunk of the window.
    is_first: bool,
    end: i64,
}

impl ObservedClock {
    fn new(start: i64, ledger: &AllocationHistory) -> Self {
        let mut end = start;
        let mut begins = Vec::new();
        for (slot, _) in ledger
            .observed
            .iter()
            .enumerate()
            .filter(|(_, seen)| **seen)
        {
            begins.push((slot, end));
            end += ledger.slot;
        }
        Self {
            begins,
            slot: ledger.slot,
            is_first: start <= 0,
            end,
        }
    }

    /// Returns true if the slot is the first observed one of the whole window.
    fn is_first_observed(&self, slot: usize) -> bool {
        self.is_first && self.begins.first().is_some_and(|(first, _)| *first == slot)
    }
}

impl JobTime {
    /// Adds a chunk of time. `checkpoint` is the time between two checkpoints in seconds.
    fn follow(&mut self, allocations: &[&Allocation], clock: &ObservedClock, checkpoint: f64) {
        let succeeded = |allocation: &&&Allocation| {
            allocation
                .phase
                .as_ref()
                .is_some_and(|(_, phase)| phase == "Succeeded")
        };
        let done: BTreeSet<&PodKey> = allocations
            .iter()
            .filter(succeeded)
            .map(|allocation| &allocation.pod)
            .collect();
        for (slot, time) in clock.begins.iter().copied() {
            let requesting = || {
                allocations
                    .iter()
                    .filter(|allocation| allocation.requested[slot])
            };
            let devices = total(requesting().map(|allocation| allocation.devices()));
            if requesting().next().is_none() {
                continue;
            }
            let activity = match () {
                () if !requesting().all(|allocation| allocation.held[slot]) => JobActivity::Waiting,
                () if !requesting().all(|allocation| allocation.running[slot]) => {
                    JobActivity::Starting
                }
                () => JobActivity::Running,
            };
            self.started_before |= self.seen.is_none() && clock.is_first_observed(slot);
            let running: BTreeSet<&PodKey> = requesting()
                .filter(|allocation| allocation.running[slot])
                .map(|allocation| &allocation.pod)
                .collect();
            // Compare with the previous slot's pods before replacing them.
            let lost = self.has_lost_pod(time, &running, &done);
            self.running_pods = running.into_iter().cloned().collect();
            self.add_slot(
                activity,
                time,
                devices,
                clock.slot,
                lost.then_some(checkpoint),
            );
        }
        // Forget pods that succeeded: the next run may start after their objects have been deleted,
        // and their absence must not look like an interruption.
        self.running_pods.retain(|pod| !done.contains(pod));
        // Failed pods coexist with their replacements, so the most active phase of a slot counts.
        let rank = |phase: &str| match phase {
            "Running" | "Pending" => 2,
            "Succeeded" => 1,
            _ => 0,
        };
        let phases = allocations
            .iter()
            .filter_map(|allocation| allocation.phase.as_ref());
        let last = phases.max_by_key(|(slot, phase)| (*slot, rank(phase)));
        self.succeeded = last.map_or(self.succeeded, |(_, phase)| phase == "Succeeded");
    }

    /// Returns true if a running pod was interrupted, rather than succeeded.
    fn has_lost_pod(
        &self,
        time: i64,
        running: &BTreeSet<&PodKey>,
        done: &BTreeSet<&PodKey>,
    ) -> bool {
        let was_gone = self.seen.is_some_and(|(until, _)| time > until);
        self.running_pods.iter().any(|pod| {
            if running.contains(pod) {
                was_gone
            } else {
                !done.contains(pod)
            }
        })
    }

    /// Adds a slot of `slot` milliseconds. If a running pod was lost, `lost` is the time between
    /// two checkpoints in seconds.
    fn add_slot(
        &mut self,
        activity: JobActivity,
        time: i64,
        devices: f64,
        slot: i64,
        lost: Option<f64>,
    ) {
        let hours = slot as f64 / 3_600_000.0;
        // Between the end of a pod and the start of its replacement, no pod exists.
        let gap = self.seen.map_or(0, |(until, _)| (time - until).max(0));
        let previous = self.last;
        let interrupted = lost.filter(|_| previous == Some(JobActivity::Running));
        if let Some(checkpoint) = interrupted {
            let lost = (checkpoint / 2.0 / 3600.0).min(self.since);
            self.interruptions += 1;
            self.lost += lost * self.seen.map_or(devices, |(_, devices)| devices);
            self.since = 0.0;
        }
        // A job that ended successfully before the gap did not wait in it: the next run is a new
        // one.
        let gap = if previous == Some(JobActivity::Running) && interrupted.is_none() {
            0
        } else {
            gap
        };
        self.waiting +=
            gap as f64 / 3_600_000.0 * self.seen.map_or(devices, |(_, devices)| devices);
        match activity {
            JobActivity::Waiting => self.waiting += hours * devices,
            JobActivity::Starting => self.starting += hours * devices,
            JobActivity::Running => {
                (self.running, self.since) = (self.running + hours * devices, self.since + hours);
            }
        }
        match activity {
            JobActivity::Waiting if !self.placed => self.waited += slot as f64 / 1000.0,
            JobActivity::Waiting => {}
            JobActivity::Starting | JobActivity::Running => self.placed = true,
        }
        (self.last, self.seen) = (Some(activity), Some((time + slot, devices)));
    }
}

impl JobSum {
    /// `end` is the end of the window in milliseconds of observed time.
    fn add_job(&mut self, job: &JobTime, end: i64) {
        let exists = job.seen.is_some_and(|(until, _)| end - until <= RECENT);
        self.jobs += 1;
        self.succeeded += u64::from(job.succeeded);
        self.interruptions += job.interruptions;
        self.waiting += job.waiting;
        self.starting += job.starting;
        self.running += job.running;
        self.lost += job.lost;
        match job.placed {
            // A job that was deleted while it waited does not wait any longer.
            false if exists => self.still_waiting += 1,
            true if !job.started_before => self.waits.push(job.waited),
            _ => {}
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

    fn productive(&self) -> f64 {
        (self.running - self.lost).max(0.0)
    }

    /// Computes the effective training time ratio from 0 to 1, or `None` if nothing was observed.
    pub fn effective_ratio(&self) -> Option<f64> {
        let total = self.waiting + self.starting + self.running;
        (total > 0.0).then(|| self.productive() / total)
    }

    /// Computes the ratio over the time with devices only.
    pub fn goodput(&self) -> Option<f64> {
        let held = self.starting + self.running;
        (held > 0.0).then(|| self.productive() / held)
    }

    /// Returns a quantile of the waiting times in seconds: the smallest wait that is at least as
    /// long as this fraction of the waits.
    pub fn wait(&self, part: f64) -> Option<f64> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a place in the list"
        )]
        let position = (part * self.waits.len() as f64).ceil() as usize;
        self.waits.get(position.max(1) - 1).copied()
    }
}

#[cfg(test)]
mod tests;
