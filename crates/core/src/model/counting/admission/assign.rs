//! Assigns flavors to the pods of a job as Kueue does: for each group of resources, the first
//! flavor that suits the pods and has quota. Source: Kueue 0.18
//! (pkg/scheduler/flavorassigner/flavorassigner.go).

use super::assignment::{FlavorAssignment, FlavorAttempt, FlavorMode, QuotaShortage};
use super::facts::{
    ClusterQueue, FlavorAmounts, FlavorExclusion, FlavorResource, OpenQueue, PodSetRequest,
    PreemptionPolicy, ResourceGroup,
};
use super::preempt::Preemptor;
use super::quota_tree::QuotaTree;
use crate::model::counting::capacity::Amounts;

/// The resource that counts pods. Kueue adds it to the request if a group covers it.
const PODS: &str = "pods";

/// A ClusterQueue that assigns flavors.
#[derive(Clone, Copy)]
pub(super) struct Assigner<'f> {
    pub queue: &'f str,
    pub facts: &'f OpenQueue,
    pub rules: &'f ClusterQueue,
    /// `None` if the jobs or priorities that decide about preemption are unknown.
    pub preemptor: Option<Preemptor<'f>>,
    /// Whether labels of other flavors of a group exclude a flavor.
    pub compares_all_labels: bool,
}

/// How good a flavor is for a request.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FlavorRank {
    mode: FlavorMode,
    /// Height of the subtree of cohorts whose quota it needs. 0 is the ClusterQueue itself.
    height: usize,
}

/// The result for one flavor of a group.
struct FlavorResult {
    rank: FlavorRank,
    uses: FlavorAmounts,
    contested: FlavorAmounts,
}

impl Assigner<'_> {
    /// Assigns flavors to the pod sets of one workload, with the usage in `tree`.
    pub(super) fn assign(&self, tree: &QuotaTree, pod_sets: &[PodSetRequest]) -> FlavorAssignment {
        let mut assignment = FlavorAssignment::default();
        for pod_set in pod_sets {
            let requests = self.requests(pod_set);
            for (resource, amount) in &requests {
                let is_covered = self
                    .rules
                    .groups
                    .iter()
                    .any(|group| group.resources.contains(resource));
                if !is_covered && *amount > 0 && !self.facts.excluded_resources.contains(resource) {
                    assignment.mode = FlavorMode::NoFit;
                    assignment.uncovered.push((resource.clone(), *amount));
                }
            }
            for group in &self.rules.groups {
                let requests: Amounts = requests
                    .iter()
                    .filter(|(resource, _)| group.resources.contains(*resource))
                    .map(|(resource, amount)| (resource.clone(), *amount))
                    .collect();
                if !requests.is_empty() {
                    self.assign_group(tree, pod_set, group, &requests, &mut assignment);
                }
            }
        }
        assignment
    }

    /// Returns the requests of all pods of a set.
    fn requests(&self, pod_set: &PodSetRequest) -> Amounts {
        let pods = i128::from(pod_set.pods);
        let mut requests: Amounts = pod_set
            .requests
            .iter()
            .filter(|(resource, _)| resource.as_str() != PODS)
            .map(|(resource, amount)| (resource.clone(), amount.saturating_mul(pods)))
            .collect();
        if self
            .rules
            .groups
            .iter()
            .any(|group| group.resources.contains(PODS))
        {
            requests.insert(PODS.to_owned(), pods * 1000);
        }
        requests
    }

    fn assign_group(
        &self,
        tree: &QuotaTree,
        pod_set: &PodSetRequest,
        group: &ResourceGroup,
        requests: &Amounts,
        assignment: &mut FlavorAssignment,
    ) {
        let mut best: Option<FlavorResult> = None;
        let mut may_stop_earlier = false;
        for flavor in &group.flavors {
            if let Some(exclusion) = self.exclusion(pod_set, flavor) {
                assignment.attempts.push(FlavorAttempt {
                    flavor: flavor.clone(),
                    exclusion: Some(exclusion),
                    shortages: Vec::new(),
                });
                continue;
            }
            let (result, lacks_facts) = self.try_flavor(tree, flavor, requests, assignment);
            assignment.lacks_preemption_facts |= lacks_facts;
            let fungibility = self.rules.fungibility;
            may_stop_earlier |= lacks_facts && !fungibility.next_before_preempting;
            // Versions of Kueue differ in whether a flavor without candidates can win here.
            may_stop_earlier |=
                fungibility.prefers_preemption && result.rank.mode == FlavorMode::NoCandidates;
            let is_final = !self.tries_next(result.rank);
            let is_better = best
                .as_ref()
                .is_none_or(|best| self.is_preferred(result.rank, best.rank));
            if is_final || is_better {
                best = Some(result);
            }
            if is_final {
                break;
            }
        }
        match best.filter(|best| best.rank.mode > FlavorMode::NoFit) {
            Some(best) => {
                assignment.is_uncertain |= may_stop_earlier && best.rank.mode == FlavorMode::Fit;
                assignment.mode = assignment.mode.min(best.rank.mode);
                add(&mut assignment.uses, &best.uses);
                add(&mut assignment.contested, &best.contested);
            }
            None => assignment.mode = FlavorMode::NoFit,
        }
    }

    fn exclusion(&self, pod_set: &PodSetRequest, flavor: &str) -> Option<FlavorExclusion> {
        let exclusion = pod_set.exclusions.get(flavor)?;
        let depends_on_version = matches!(exclusion, FlavorExclusion::LabelOfOtherFlavor(_));
        (self.compares_all_labels || !depends_on_version).then(|| exclusion.clone())
    }

    /// Compares a request with the quota of one flavor. Also returns whether facts about preemption
    /// are missing.
    fn try_flavor(
        &self,
        tree: &QuotaTree,
        flavor: &str,
        requests: &Amounts,
        assignment: &mut FlavorAssignment,
    ) -> (FlavorResult, bool) {
        let mut worst = FlavorRank {
            mode: FlavorMode::Fit,
            height: 0,
        };
        let (mut uses, mut contested) = (FlavorAmounts::new(), FlavorAmounts::new());
        let (mut shortages, mut lacks_facts) = (Vec::new(), false);
        for (resource, amount) in requests {
            let of = FlavorResource::new(flavor, resource);
            let total = amount + assignment.uses.get(&of).copied().unwrap_or(0);
            let (rank, is_unknown) = self.rank(tree, &of, total);
            lacks_facts |= is_unknown;
            if rank.mode < FlavorMode::Fit {
                shortages.push(QuotaShortage {
                    requested: total,
                    available: tree.available(self.queue, &of),
                    most: tree.most(self.queue, &of),
                    quota: of.clone(),
                });
                contested.insert(of.clone(), *amount);
            }
            uses.insert(of, *amount);
            if self.is_preferred(worst, rank) {
                worst = rank;
            }
        }
        assignment.attempts.push(FlavorAttempt {
            flavor: flavor.to_owned(),
            exclusion: None,
            shortages,
        });
        let result = FlavorResult {
            rank: worst,
            uses,
            contested,
        };
        (result, lacks_facts)
    }

    /// Ranks a flavor for one resource. Also returns whether facts about preemption are missing.
    fn rank(&self, tree: &QuotaTree, of: &FlavorResource, total: i128) -> (FlavorRank, bool) {
        let no_fit = FlavorRank {
            mode: FlavorMode::NoFit,
            height: 0,
        };
        if total > tree.most(self.queue, of) {
            return (no_fit, false);
        }
        let (height, may_reclaim) = tree.borrowing_height(self.queue, of, total);
        if total <= tree.available(self.queue, of) {
            let mode = FlavorMode::Fit;
            return (FlavorRank { mode, height }, false);
        }
        let rules = self.rules.preemption;
        let may_preempt = tree.nominal(self.queue, of) >= total
            || may_reclaim
            || rules.while_borrowing
            || self.rules.shares_fairly;
        if !may_preempt {
            return (no_fit, false);
        }
        let without_candidates = FlavorRank {
            mode: FlavorMode::NoCandidates,
            height,
        };
        let never = PreemptionPolicy::Never;
        if rules.within_queue == never && rules.within_cohort == never {
            return (without_candidates, false);
        }
        let Some(preemptor) = self.preemptor else {
            return (without_candidates, true);
        };
        let request = FlavorAmounts::from([(of.clone(), total)]);
        let targets = preemptor.targets(tree, &request, &request);
        if targets.is_empty() {
            return (without_candidates, false);
        }
        let mut after = tree.clone();
        for target in &targets {
            after.remove(&target.cluster_queue, &target.usage);
        }
        let is_own = targets
            .iter()
            .any(|target| target.cluster_queue == self.queue);
        let mode = match is_own {
            true => FlavorMode::Preempt,
            false => FlavorMode::Reclaim,
        };
        let (height, _) = after.borrowing_height(self.queue, of, total);
        (FlavorRank { mode, height }, false)
    }

    /// Whether Kueue tries the next flavor after this one.
    fn tries_next(&self, rank: FlavorRank) -> bool {
        let fungibility = self.rules.fungibility;
        match rank.mode {
            FlavorMode::NoFit | FlavorMode::NoCandidates => true,
            FlavorMode::Preempt | FlavorMode::Reclaim if fungibility.next_before_preempting => true,
            _ => rank.height > 0 && fungibility.next_before_borrowing,
        }
    }

    fn is_preferred(&self, rank: FlavorRank, to: FlavorRank) -> bool {
        let is_viable = |rank: FlavorRank| rank.mode > FlavorMode::NoCandidates;
        if rank.mode == FlavorMode::NoFit || to.mode == FlavorMode::NoFit {
            return rank.mode > to.mode;
        }
        if is_viable(rank) != is_viable(to) {
            return is_viable(rank);
        }
        if self.rules.fungibility.prefers_preemption && rank.height != to.height {
            return rank.height < to.height;
        }
        rank.mode > to.mode || rank.mode == to.mode && rank.height < to.height
    }
}

fn add(sums: &mut FlavorAmounts, amounts: &FlavorAmounts) {
    for (of, amount) in amounts {
        *sums.entry(of.clone()).or_default() += amount;
    }
}
