//! Preemption of jobs in the ClusterQueue and in its cohort.

use super::*;

fn preempting(within_queue: PreemptionPolicy, within_cohort: PreemptionPolicy) -> PreemptionRules {
    PreemptionRules {
        within_queue,
        within_cohort,
        ..PreemptionRules::default()
    }
}

/// A full ClusterQueue of 8 with two jobs of 4, with the priorities -1 and 0.
fn full(rules: PreemptionRules) -> OpenQueue {
    let mut queue = cluster_queue(&[("a", quota(8), 8)]);
    queue.preemption = rules;
    let mut open = open(&[("own", queue)]);
    open.reserved = Some(vec![
        reserved("n/low", "own", -1, gpus("a", 4)),
        reserved("n/equal", "own", 0, gpus("a", 4)),
    ]);
    open
}

const LOWER: PreemptionPolicy = PreemptionPolicy::LowerPriority;
const NEVER: PreemptionPolicy = PreemptionPolicy::Never;

#[test]
fn lower_priorities_in_the_queue_are_preempted() {
    // 0 free + 4 of the job with priority -1 = 4.
    let answer = job(full(preempting(LOWER, NEVER)), pods(1, 4));
    assert_eq!(
        (answer.admits, answer.preempts.as_slice()),
        (Admits::Preempting, &["n/low".to_owned()][..])
    );
    assert_eq!(causes(&answer), ["queue-quota"]);
    let expected = "queue research: Kueue would preempt n/low (withinClusterQueue: LowerPriority)";
    assert_eq!(answer.reasons[0].text, expected);
}

#[test]
fn equal_priorities_are_not_preempted() {
    // 5 need both jobs, but only the one with priority -1 may end: 4 < 5.
    let answer = job(full(preempting(LOWER, NEVER)), pods(1, 5));
    assert_eq!(
        (answer.admits, answer.missing[0].amount),
        (Admits::Later, 5000)
    );
    // With priority 1, both end.
    let answer = simulate(full(preempting(LOWER, NEVER)), 1, &[&[pods(1, 5)]]);
    assert_eq!(
        (answer.admits, answer.preempts.len()),
        (Admits::Preempting, 2)
    );
}

#[test]
fn no_job_ends_needlessly() {
    // Candidates in order: priority -1 (4), then 0 (4). 3 need only the first.
    let answer = simulate(full(preempting(LOWER, NEVER)), 9, &[&[pods(1, 3)]]);
    assert_eq!(answer.preempts, ["n/low"]);
}

#[test]
fn jobs_of_other_flavors_are_not_preempted() {
    let mut open = full(preempting(LOWER, NEVER));
    open.reserved = Some(vec![reserved("n/low", "own", -1, gpus("b", 8))]);
    assert_eq!(job(open, pods(1, 1)).admits, Admits::Later);
}

#[test]
fn without_a_policy_nothing_is_preempted() {
    let answer = simulate(full(PreemptionRules::default()), 9, &[&[pods(1, 1)]]);
    assert_eq!(answer.admits, Admits::Later);
    assert!(answer.not_evaluated.is_empty(), "{answer:#?}");
}

#[test]
fn unreadable_jobs_leave_preemption_open() {
    let mut open = full(preempting(LOWER, NEVER));
    open.reserved = None;
    let answer = job(open, pods(1, 4));
    assert_eq!(
        (answer.admits, answer.not_evaluated.len()),
        (Admits::Later, 1)
    );
}

/// The other queue borrows 4 beyond its 8, with two jobs of priority 5.
fn lent(rules: PreemptionRules) -> OpenQueue {
    let mut own = in_cohort("all", cluster_queue(&[("a", quota(8), 4)]));
    own.preemption = rules;
    let other = in_cohort("all", cluster_queue(&[("a", quota(8), 12)]));
    let mut open = open(&[("own", own), ("other", other)]);
    open.reserved = Some(vec![
        reserved("n/first", "other", 5, gpus("a", 8)),
        reserved("n/second", "other", 5, gpus("a", 4)),
        reserved("n/mine", "own", 0, gpus("a", 4)),
    ]);
    open
}

#[test]
fn lent_quota_is_reclaimed_whatever_the_priority() {
    // 16 - 4 - 12 = 0 free, but 4 of the own 8 are unused. After n/first or n/second ends, 4 fit.
    let answer = job(lent(preempting(NEVER, PreemptionPolicy::Any)), pods(1, 4));
    assert_eq!(
        (answer.admits, answer.preempts.len()),
        (Admits::Preempting, 1)
    );
    assert!(
        answer.reasons[0].text.contains("reclaimWithinCohort: Any"),
        "{answer:#?}"
    );
}

#[test]
fn reclaiming_respects_priorities_if_the_policy_does() {
    // 5 is higher than 0, but lower than 9.
    let rules = preempting(NEVER, LOWER);
    assert_eq!(job(lent(rules), pods(1, 4)).admits, Admits::Later);
    let answer = simulate(lent(rules), 9, &[&[pods(1, 4)]]);
    assert_eq!(answer.admits, Admits::Preempting);
}

#[test]
fn quota_within_the_nominal_share_of_others_is_not_reclaimed() {
    // The job needs 5, which exceeds the unused 8 - 4 = 4 of its own quota.
    let answer = job(lent(preempting(NEVER, PreemptionPolicy::Any)), pods(1, 5));
    assert_eq!(answer.admits, Admits::Later);
}

#[test]
fn jobs_can_be_preempted_while_borrowing() {
    // 4 + 5 = 9 borrows 1. `n/first` has priority 5, which is lower than 9: 0 + 8 free suffice.
    let mut rules = preempting(NEVER, LOWER);
    rules.while_borrowing = true;
    let answer = simulate(lent(rules), 9, &[&[pods(1, 5)]]);
    assert_eq!(answer.admits, Admits::Preempting, "{answer:#?}");
    // A threshold below 5 excludes them.
    rules.borrowing_threshold = Some(4);
    assert_eq!(
        simulate(lent(rules), 9, &[&[pods(1, 5)]]).admits,
        Admits::Later
    );
}

#[test]
fn a_later_flavor_is_tried_before_preemption() {
    // a is full with a job of priority -1. b has 4 free.
    let two = |next_before_preempting| {
        let mut queue = cluster_queue(&[("a", quota(4), 4), ("b", quota(4), 0)]);
        queue.preemption = preempting(LOWER, NEVER);
        queue.fungibility.next_before_preempting = next_before_preempting;
        let mut open = open(&[("own", queue)]);
        open.reserved = Some(vec![reserved("n/low", "own", -1, gpus("a", 4))]);
        open
    };
    let answer = job(two(true), pods(1, 4));
    assert_eq!(
        (answer.admits, answer.flavor_names()),
        (Admits::Now, vec!["b"])
    );
    assert_eq!(job(two(false), pods(1, 4)).admits, Admits::Preempting);
    // Without the list of jobs, Kueue might stop at a.
    let mut unreadable = two(false);
    unreadable.reserved = None;
    assert_eq!(job(unreadable, pods(1, 4)).admits, Admits::Unknown);
}

#[test]
fn fair_sharing_leaves_preemption_open() {
    let mut open = full(preempting(LOWER, NEVER));
    open.cluster_queues.get_mut("own").unwrap().shares_fairly = true;
    let answer = job(open, pods(1, 4));
    assert_eq!(
        (answer.admits, answer.not_evaluated.len()),
        (Admits::Later, 1)
    );
}
