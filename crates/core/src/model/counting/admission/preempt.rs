//! Chooses the jobs that Kueue would preempt, by its classical rules: first jobs of ClusterQueues
//! that borrow, then jobs of the same ClusterQueue, each with the lowest priority first. Source:
//! Kueue 0.18 (pkg/scheduler/preemption, pkg/scheduler/preemption/classical).

use std::cmp::Reverse;

use super::facts::{ClusterQueue, FlavorAmounts, PreemptionPolicy, ReservedJob};
use super::quota_tree::QuotaTree;

/// A job that needs quota of others.
#[derive(Clone, Copy)]
pub(super) struct Preemptor<'f> {
    pub queue: &'f str,
    pub rules: &'f ClusterQueue,
    pub priority: i64,
    pub reserved: &'f [ReservedJob],
}

/// Why a job can be preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PreemptionKind {
    SameQueue,
    /// The preemptor's part of the cohorts has the quota that the job's part borrows.
    Reclaim,
    /// Only if the preemptor does not borrow afterwards.
    WithoutBorrowing,
    WhileBorrowing,
}

#[derive(Clone, Copy)]
struct PreemptionCandidate<'f> {
    job: &'f ReservedJob,
    kind: PreemptionKind,
    /// The lowest cohort that contains both ClusterQueues.
    common_cohort: Option<usize>,
}

impl<'f> Preemptor<'f> {
    /// Returns the jobs to preempt for `request`, or none if preemption does not help. `contested`
    /// is the part of the request that lacks quota.
    pub(super) fn targets(
        self,
        tree: &QuotaTree,
        request: &FlavorAmounts,
        contested: &FlavorAmounts,
    ) -> Vec<&'f ReservedJob> {
        let same_queue = self.jobs_of(self.queue, None, false, contested);
        let (reclaimable, others) = self.cohort_candidates(tree, request, contested);
        let never_borrows = !self.rules.preemption.while_borrowing;
        let has_unused_quota = contested
            .keys()
            .all(|of| tree.usage(self.queue, of) < tree.nominal(self.queue, of));
        let attempts: &[bool] =
            if reclaimable.is_empty() && others.is_empty() || never_borrows && !has_unused_quota {
                &[true]
            } else if never_borrows && reclaimable.is_empty() {
                &[false, true]
            } else {
                &[true, false]
            };
        let candidates = in_order([reclaimable, others, same_queue]);
        let mut results = attempts
            .iter()
            .map(|borrows| self.attempt(tree, &candidates, request, contested, *borrows));
        results
            .find(|targets| !targets.is_empty())
            .unwrap_or_default()
    }

    /// Removes candidates until the request fits, and then keeps those that need not end.
    fn attempt(
        self,
        tree: &QuotaTree,
        candidates: &[PreemptionCandidate<'f>],
        request: &FlavorAmounts,
        contested: &FlavorAmounts,
        borrows: bool,
    ) -> Vec<&'f ReservedJob> {
        let mut tree = tree.clone();
        let mut targets: Vec<&ReservedJob> = Vec::new();
        for candidate in candidates {
            if !self.is_valid(&tree, candidate, contested, borrows) {
                continue;
            }
            tree.remove(&candidate.job.cluster_queue, &candidate.job.usage);
            targets.push(candidate.job);
            if self.fits(&tree, request, borrows) {
                return self.without_needless(&mut tree, targets, request, borrows);
            }
        }
        Vec::new()
    }

    fn without_needless(
        self,
        tree: &mut QuotaTree,
        mut targets: Vec<&'f ReservedJob>,
        request: &FlavorAmounts,
        borrows: bool,
    ) -> Vec<&'f ReservedJob> {
        for index in (0..targets.len().saturating_sub(1)).rev() {
            let target = targets[index];
            tree.add(&target.cluster_queue, &target.usage);
            if self.fits(tree, request, borrows) {
                targets.swap_remove(index);
            } else {
                tree.remove(&target.cluster_queue, &target.usage);
            }
        }
        targets
    }

    fn fits(self, tree: &QuotaTree, request: &FlavorAmounts, borrows: bool) -> bool {
        request.iter().all(|(of, amount)| {
            (borrows || !tree.borrows_with(self.queue, of, *amount))
                && *amount <= tree.available(self.queue, of)
        })
    }

    /// Whether a candidate's ClusterQueue, and every cohort below the common one, still borrows.
    fn is_valid(
        self,
        tree: &QuotaTree,
        candidate: &PreemptionCandidate<'_>,
        contested: &FlavorAmounts,
        borrows: bool,
    ) -> bool {
        if candidate.kind == PreemptionKind::SameQueue {
            return true;
        }
        if borrows && candidate.kind == PreemptionKind::WithoutBorrowing {
            return false;
        }
        let queue = candidate.job.cluster_queue.as_str();
        let cohorts = tree.ancestors(queue).into_iter();
        let below_common = cohorts.take_while(|cohort| Some(*cohort) != candidate.common_cohort);
        tree.index(queue)
            .into_iter()
            .chain(below_common)
            .all(|node| tree.exceeds_quota(node, contested))
    }

    /// Returns the candidates of other ClusterQueues: those whose quota belongs to the preemptor's
    /// part of the cohorts, and the others.
    fn cohort_candidates(
        self,
        tree: &QuotaTree,
        request: &FlavorAmounts,
        contested: &FlavorAmounts,
    ) -> (Vec<PreemptionCandidate<'f>>, Vec<PreemptionCandidate<'f>>) {
        let (mut reclaimable, mut others) = (Vec::new(), Vec::new());
        let own = tree.index(self.queue);
        let Some(own) =
            own.filter(|_| self.rules.preemption.within_cohort != PreemptionPolicy::Never)
        else {
            return (reclaimable, others);
        };
        let (mut has_advantage, mut rest) = tree.beyond_reserve(own, request);
        let mut searched = own;
        for cohort in tree.ancestors(self.queue) {
            let mut queues = Vec::new();
            borrowing_queues(tree, cohort, searched, contested, &mut queues);
            let found = queues
                .into_iter()
                .flat_map(|queue| self.jobs_of(queue, Some(cohort), has_advantage, contested));
            if has_advantage {
                reclaimable.extend(found);
            } else {
                others.extend(found);
            }
            let (fits, remaining) = tree.beyond_reserve(cohort, &rest);
            (has_advantage, rest, searched) = (has_advantage || fits, remaining, cohort);
        }
        (reclaimable, others)
    }

    fn jobs_of(
        self,
        queue: &str,
        common_cohort: Option<usize>,
        has_advantage: bool,
        contested: &FlavorAmounts,
    ) -> Vec<PreemptionCandidate<'f>> {
        let candidate = |job: &'f ReservedJob| {
            let uses_contested = contested
                .keys()
                .any(|of| job.usage.get(of).is_some_and(|amount| *amount > 0));
            let kind = self.kind_of(job, has_advantage)?;
            (job.cluster_queue == queue && uses_contested).then_some(PreemptionCandidate {
                job,
                kind,
                common_cohort,
            })
        };
        self.reserved.iter().filter_map(candidate).collect()
    }

    fn kind_of(self, job: &ReservedJob, has_advantage: bool) -> Option<PreemptionKind> {
        let rules = &self.rules.preemption;
        let is_own = job.cluster_queue == self.queue;
        let policy = if is_own {
            rules.within_queue
        } else {
            rules.within_cohort
        };
        let is_lower = job.priority < self.priority;
        let is_allowed = match policy {
            PreemptionPolicy::Never => false,
            PreemptionPolicy::LowerPriority => is_lower,
            PreemptionPolicy::Any => true,
        };
        let below_threshold = rules
            .borrowing_threshold
            .is_none_or(|threshold| job.priority <= threshold);
        is_allowed.then_some(if is_own {
            PreemptionKind::SameQueue
        } else if has_advantage {
            PreemptionKind::Reclaim
        } else if rules.while_borrowing && is_lower && below_threshold {
            PreemptionKind::WhileBorrowing
        } else {
            PreemptionKind::WithoutBorrowing
        })
    }
}

/// Collects the ClusterQueues below a cohort that borrow any of these, except those in a subtree
/// that was already searched.
fn borrowing_queues<'t>(
    tree: &'t QuotaTree,
    cohort: usize,
    searched: usize,
    contested: &FlavorAmounts,
    queues: &mut Vec<&'t str>,
) {
    for (child, queue) in tree.children(cohort) {
        if child == searched || !tree.exceeds_quota(child, contested) {
            continue;
        }
        match queue {
            Some(queue) => queues.push(queue),
            None => borrowing_queues(tree, child, searched, contested, queues),
        }
    }
}

/// Orders candidates as Kueue does: jobs that are being evicted, then the groups in this order. In
/// a group, the lowest priority comes first, and then the latest reservation.
fn in_order(groups: [Vec<PreemptionCandidate<'_>>; 3]) -> Vec<PreemptionCandidate<'_>> {
    let groups = groups.map(|mut group| {
        group.sort_by_key(|candidate| {
            let job = candidate.job;
            // A job without a time has just reserved its quota.
            let order = (job.reserved_at.is_some(), Reverse(job.reserved_at));
            (job.priority, order, job.uid.as_str())
        });
        group
    });
    let all = groups.concat();
    let (mut evicted, remaining): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|candidate| candidate.job.is_evicted);
    evicted.extend(remaining);
    evicted
}
