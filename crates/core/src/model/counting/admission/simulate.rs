//! Simulates the admission of all workloads of a job, and the effect of jobs that already wait.

use super::answer::{Admits, FlavorShare, QueueAdmission};
use super::assign::Assigner;
use super::assignment::{FlavorAssignment, FlavorMode};
use super::facts::{
    AdmissionRequest, ClusterQueue, FlavorAmounts, OpenQueue, QueueFacts, QueueState, WaitingJob,
};
use super::preempt::Preemptor;
use super::quota_tree::{QuotaGap, QuotaTree};
use super::reasons;
use crate::model::counting::fit_reason::FitReason;

/// The workloads of a job in one order of events.
struct SimulatedRun {
    /// Quota that the admitted workloads use.
    uses: FlavorAmounts,
    /// The first workload that is not admitted.
    failed: Option<FlavorAssignment>,
    is_uncertain: bool,
}

/// Simulates the admission of a new job.
pub fn admission(facts: &QueueFacts, request: &AdmissionRequest) -> QueueAdmission {
    let mut answer = QueueAdmission {
        queue: facts.name.clone(),
        cluster_queue: facts.cluster_queue.clone(),
        cohort: None,
        admits: Admits::Unknown,
        flavors: Vec::new(),
        missing: Vec::new(),
        preempts: Vec::new(),
        ahead: Vec::new(),
        reasons: Vec::new(),
        not_evaluated: Vec::new(),
    };
    let mut end = |admits, cause, text: &str| {
        let reason = FitReason::new(cause, format!("queue {}: {text}", facts.name));
        answer.admits = admits;
        if admits == Admits::Unknown {
            answer.not_evaluated.push(reason);
        } else {
            answer.reasons.push(reason);
        }
    };
    let name = facts.cluster_queue.as_deref().unwrap_or_default();
    match &facts.state {
        QueueState::Missing(text) => end(Admits::Never, "queue-missing", text),
        QueueState::Inactive(text) => end(Admits::Later, "queue-inactive", text),
        QueueState::Unreadable(text) => end(Admits::Unknown, "queue", text),
        QueueState::Open(open) => match open.cluster_queues.get(name) {
            None => end(
                Admits::Never,
                "queue-missing",
                &format!("ClusterQueue {name} does not exist"),
            ),
            Some(rules) => {
                let simulation = Simulation {
                    name,
                    facts: open,
                    rules,
                    request,
                };
                answer.cohort.clone_from(&rules.cohort);
                simulation.run(&mut answer);
            }
        },
    }
    answer
}

/// A job and an open queue.
struct Simulation<'f> {
    name: &'f str,
    facts: &'f OpenQueue,
    rules: &'f ClusterQueue,
    request: &'f AdmissionRequest,
}

impl Simulation<'_> {
    fn run(&self, answer: &mut QueueAdmission) {
        let queue = answer.queue.clone();
        if self.facts.accepts_namespace == Some(false) {
            answer.admits = Admits::Never;
            answer.reasons.push(reasons::namespace(&queue, self.name));
            return;
        }
        let tree = match QuotaTree::build(self.facts, self.name) {
            Ok(tree) => tree,
            Err(QuotaGap::Cycle(cohort)) => {
                answer.admits = Admits::Later;
                answer.reasons.push(reasons::cycle(&queue, &cohort));
                return;
            }
            Err(QuotaGap::Usage(name)) => return answer.doubt(reasons::unknown_usage(&name)),
            Err(QuotaGap::Cohorts(name)) => return answer.doubt(reasons::unknown_cohort(&name)),
        };
        if self.facts.flavors.is_none() {
            return answer.doubt(reasons::unknown_flavors());
        }
        self.decide(&tree, true, answer);
        if self.depends_on_other_labels() {
            let mut newer = QueueAdmission {
                admits: Admits::Unknown,
                reasons: Vec::new(),
                not_evaluated: Vec::new(),
                missing: Vec::new(),
                ..answer.clone()
            };
            self.decide(&tree, false, &mut newer);
            if (newer.admits, newer.flavor_names()) != (answer.admits, answer.flavor_names()) {
                answer.doubt(reasons::other_labels());
            }
        }
        self.count_waiting(answer);
        self.add_limits(&tree, answer);
    }

    /// Whether a flavor is excluded only in some versions of Kueue.
    fn depends_on_other_labels(&self) -> bool {
        let sets = self.request.workloads.iter().flatten();
        let mut exclusions = sets.flat_map(|set| set.exclusions.values());
        exclusions.any(|exclusion| {
            matches!(
                exclusion,
                super::facts::FlavorExclusion::LabelOfOtherFlavor(_)
            )
        })
    }

    /// Determines the verdict from quota alone.
    fn decide(&self, tree: &QuotaTree, compares_all_labels: bool, answer: &mut QueueAdmission) {
        let preemptor = self.preemptor();
        let assigner = Assigner {
            queue: self.name,
            facts: self.facts,
            rules: self.rules,
            preemptor,
            compares_all_labels,
        };
        let run = self.admit_all(&assigner, tree.clone());
        let Some(failed) = run.failed else {
            answer.flavors = self.shares(tree, &run.uses);
            let borrows = answer.flavors.iter().any(|share| share.borrowed > 0);
            answer.admits = if borrows {
                Admits::Borrowing
            } else {
                Admits::Now
            };
            if run.is_uncertain {
                answer.doubt(reasons::uncertain_flavor());
            }
            return;
        };
        // Earlier workloads of the job are admitted, so the targets must leave quota for them.
        let mut used = tree.clone();
        used.add(self.name, &run.uses);
        let targets = preemptor
            .filter(|_| failed.mode > FlavorMode::NoFit)
            .map(|preemptor| preemptor.targets(&used, &failed.uses, &failed.contested))
            .unwrap_or_default();
        answer.flavors = self.shares(tree, &run.uses);
        if !targets.is_empty() {
            answer.admits = Admits::Preempting;
            answer.preempts = targets.iter().map(|job| job.name.clone()).collect();
            answer.preempts.sort_unstable();
            answer.reasons.push(reasons::preempts(answer, self.rules));
            return;
        }
        // The job never fits if Kueue does not admit it even when nothing else runs.
        let empty = self.admit_all(&assigner, tree.emptied());
        let never = empty.failed.is_some();
        answer.admits = if never { Admits::Never } else { Admits::Later };
        let shown = empty.failed.as_ref().unwrap_or(&failed);
        answer.missing = reasons::missing(shown, never);
        answer
            .reasons
            .push(reasons::refusal(answer, self.name, shown, never));
        if !never && failed.lacks_preemption_facts {
            answer
                .not_evaluated
                .push(reasons::unknown_preemption(self.rules));
        }
    }

    fn preemptor(&self) -> Option<Preemptor<'_>> {
        // Fair sharing preempts by other rules.
        if self.rules.shares_fairly {
            return None;
        }
        Some(Preemptor {
            queue: self.name,
            rules: self.rules,
            priority: self.request.priority?,
            reserved: self.facts.reserved.as_deref()?,
        })
    }

    fn admit_all(&self, assigner: &Assigner<'_>, mut tree: QuotaTree) -> SimulatedRun {
        let mut run = SimulatedRun {
            uses: FlavorAmounts::new(),
            failed: None,
            is_uncertain: false,
        };
        for pod_sets in &self.request.workloads {
            let assignment = assigner.assign(&tree, pod_sets);
            if assignment.mode < FlavorMode::Fit {
                run.failed = Some(assignment);
                break;
            }
            tree.add(self.name, &assignment.uses);
            run.is_uncertain |= assignment.is_uncertain;
            for (of, amount) in assignment.uses {
                *run.uses.entry(of).or_default() += amount;
            }
        }
        run
    }

    fn shares(&self, tree: &QuotaTree, uses: &FlavorAmounts) -> Vec<FlavorShare> {
        let share = |(of, requested): (&super::facts::FlavorResource, &i128)| {
            let (nominal, used) = (tree.nominal(self.name, of), tree.usage(self.name, of));
            let beyond = |amount: i128| (amount - nominal).max(0);
            FlavorShare {
                quota: of.clone(),
                requested: *requested,
                nominal,
                used,
                borrowed: beyond(used + requested) - beyond(used),
            }
        };
        uses.iter().map(share).collect()
    }

    /// Adds the jobs that wait before the new one, which is the last of its priority.
    fn count_waiting(&self, answer: &mut QueueAdmission) {
        let priority = self.request.priority;
        let is_ahead = |job: &&WaitingJob| priority.is_none_or(|own| job.priority >= own);
        let mut ahead: Vec<&WaitingJob> = self.facts.waiting.iter().filter(is_ahead).collect();
        ahead.sort_by_key(|job| (std::cmp::Reverse(job.priority), job.created));
        answer.ahead = ahead.iter().map(|job| job.name.clone()).collect();
        let seen = self.facts.waiting.len() as u64;
        let unseen = self
            .rules
            .waiting
            .map_or(0, |waiting| waiting.saturating_sub(seen));
        let is_admitted = answer.admits <= Admits::Preempting;
        if !is_admitted {
            return;
        }
        let is_untried = |job: &&WaitingJob| !job.is_tried;
        if !self.rules.is_strict {
            if ahead.iter().any(is_untried) {
                answer.doubt(reasons::untried(&answer.queue));
            }
            return;
        }
        if unseen > 0 || !ahead.is_empty() && priority.is_none() {
            return answer.doubt(reasons::unseen_waiting(&answer.queue));
        }
        // Kueue tries only the first job of a strict queue, which holds back all others.
        match ahead.first() {
            None => {}
            Some(first) if is_untried(first) => answer.doubt(reasons::untried(&answer.queue)),
            Some(_) => {
                answer.admits = Admits::Later;
                answer.flavors.clear();
                answer.preempts.clear();
                answer.reasons = vec![reasons::position(answer, self.name)];
            }
        }
    }

    /// Adds what Kueue evaluates after quota, and what may change the result.
    fn add_limits(&self, tree: &QuotaTree, answer: &mut QueueAdmission) {
        if answer.admits == Admits::Never {
            return;
        }
        if self.facts.accepts_namespace.is_none() {
            answer.doubt(reasons::unknown_namespace(self.name));
        }
        let is_strict = |(name, queue): &(&String, &ClusterQueue)| {
            name.as_str() != self.name
                && queue.is_strict
                && queue.waiting != Some(0)
                && tree.shares_quota(self.name, name)
        };
        // The first job of a strict queue reserves quota while it waits (pkg/scheduler/scheduler.go).
        let mut in_tree = self.facts.cluster_queues.iter();
        if answer.admits == Admits::Borrowing
            && let Some((name, _)) = in_tree.find(is_strict)
        {
            answer.doubt(reasons::strict_neighbor(name));
        }
        let flavors: Vec<String> = answer
            .flavor_names()
            .into_iter()
            .map(ToOwned::to_owned)
            .collect();
        let applies = |check: &&super::facts::RequiredCheck| {
            check.flavors.is_empty() || flavors.iter().any(|name| check.flavors.contains(name))
        };
        for check in self.rules.checks.iter().filter(applies) {
            answer
                .not_evaluated
                .push(reasons::check(&check.name, self.name));
        }
        for name in &flavors {
            let flavor = self
                .facts
                .flavors
                .as_ref()
                .and_then(|flavors| flavors.get(name));
            if let Some(topology) = flavor.and_then(|flavor| flavor.topology.as_ref()) {
                answer.not_evaluated.push(reasons::topology(topology, name));
            }
        }
    }
}

impl QueueAdmission {
    /// Makes the verdict unknown for this reason, unless the job never fits anyway.
    fn doubt(&mut self, reason: FitReason) {
        if self.admits != Admits::Never {
            self.admits = Admits::Unknown;
            self.reasons.clear();
        }
        self.not_evaluated.push(reason);
    }
}
