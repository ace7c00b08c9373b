//! Borrowing and lending in cohorts.

use super::*;

/// Two ClusterQueues of one cohort: the job's, and another with `used` of 8 GPUs.
fn pair(own: FlavorQuota, own_used: i128, other: FlavorQuota, used: i128) -> OpenQueue {
    open(&[
        (
            "own",
            in_cohort("all", cluster_queue(&[("a", own, own_used)])),
        ),
        (
            "other",
            in_cohort("all", cluster_queue(&[("a", other, used)])),
        ),
    ])
}

#[test]
fn unused_quota_of_the_cohort_is_borrowed() {
    // The cohort has 8 + 8 = 16, of which 6 + 0 are used. 6 + 6 = 12 exceeds 8 by 4.
    let answer = job(pair(quota(8), 6, quota(8), 0), pods(1, 6));
    assert_eq!(
        (answer.admits, answer.flavors[0].borrowed),
        (Admits::Borrowing, 4000)
    );
    assert_eq!(answer.cohort.as_deref(), Some("all"));
}

#[test]
fn earlier_borrowing_does_not_count_for_the_job() {
    // 10 used already exceed 8 by 2. With 3 more, the excess is 5, so the job adds 3.
    let answer = job(pair(quota(8), 10, quota(8), 0), pods(1, 3));
    assert_eq!(
        (answer.admits, answer.flavors[0].borrowed),
        (Admits::Borrowing, 3000)
    );
}

#[test]
fn the_borrowing_limit_is_a_maximum() {
    // 8 + limit 2 = 10, so 11 never fit. 10 fit.
    let own = limits(8, Some(2), None);
    assert_eq!(
        job(pair(own, 0, quota(8), 0), pods(1, 11)).admits,
        Admits::Never
    );
    assert_eq!(
        job(pair(own, 0, quota(8), 0), pods(1, 10)).admits,
        Admits::Borrowing
    );
    // With 4 used, 8 + 2 - 4 = 6 are available: 7 need 1 more.
    let answer = job(pair(own, 4, quota(8), 0), pods(1, 7));
    assert_eq!(
        (answer.admits, answer.missing[0].amount),
        (Admits::Later, 1000)
    );
}

#[test]
fn the_lending_limit_of_others_is_a_maximum() {
    // The other queue lends 3 of 8. 8 + 3 = 11 possible.
    let other = limits(8, None, Some(3));
    assert_eq!(
        job(pair(quota(8), 0, other, 0), pods(1, 12)).admits,
        Admits::Never
    );
    let answer = job(pair(quota(8), 0, other, 0), pods(1, 11));
    assert_eq!(
        (answer.admits, answer.flavors[0].borrowed),
        (Admits::Borrowing, 3000)
    );
}

#[test]
fn quota_that_is_not_lent_is_free_for_its_owner() {
    // The job's queue lends 2 of 8, so the 6 others are its own. The other queue uses 8 + 2 = 10,
    // so 6 of 8 remain: 6 are admitted, 7 are not.
    let own = limits(8, None, Some(2));
    assert_eq!(
        job(pair(own, 0, quota(8), 10), pods(1, 6)).admits,
        Admits::Now
    );
    let answer = job(pair(own, 0, quota(8), 10), pods(1, 7));
    assert_eq!(
        (answer.admits, answer.missing[0].amount),
        (Admits::Later, 1000)
    );
}

#[test]
fn quota_lent_to_others_is_missing() {
    // The other queue uses 14 of its 8, so 16 - 14 = 2 are free, although 8 belong to the queue.
    let answer = job(pair(quota(8), 0, quota(8), 14), pods(1, 4));
    assert_eq!(
        (answer.admits, answer.missing[0].amount),
        (Admits::Later, 2000)
    );
}

#[test]
fn a_flavor_without_quota_can_be_borrowed() {
    let answer = job(pair(quota(0), 0, quota(8), 4), pods(1, 4));
    assert_eq!(
        (answer.admits, answer.flavors[0].borrowed),
        (Admits::Borrowing, 4000)
    );
}

#[test]
fn a_cohort_object_adds_quota() {
    // 8 + 8 + the cohort's 4 = 20.
    let mut open = pair(quota(8), 0, quota(8), 0);
    let cohort = Cohort {
        parent: None,
        quotas: BTreeMap::from([(of("a"), quota(4))]),
    };
    open.cohorts = Some(BTreeMap::from([("all".to_owned(), cohort)]));
    assert_eq!(job(open.clone(), pods(1, 20)).admits, Admits::Borrowing);
    assert_eq!(job(open, pods(1, 21)).admits, Admits::Never);
}

/// The job's cohort and another one have the same parent.
fn hierarchy(limit: Option<i128>, used_in_other: i128) -> OpenQueue {
    let mut open = open(&[
        (
            "own",
            in_cohort("left", cluster_queue(&[("a", quota(4), 0)])),
        ),
        (
            "far",
            in_cohort("right", cluster_queue(&[("a", quota(8), used_in_other)])),
        ),
    ]);
    let child = |quotas: FlavorQuotas| Cohort {
        parent: Some("root".to_owned()),
        quotas,
    };
    let left = BTreeMap::from([(of("a"), limits(0, limit, None))]);
    open.cohorts = Some(BTreeMap::from([
        ("left".to_owned(), child(left)),
        ("right".to_owned(), child(BTreeMap::new())),
    ]));
    open
}

#[test]
fn quota_of_the_parent_cohort_is_borrowed() {
    // 4 in the own cohort and 8 in the other one: 12 possible, 12 - 5 used = 7 free.
    assert_eq!(
        job(hierarchy(None, 5), pods(1, 7)).admits,
        Admits::Borrowing
    );
    assert_eq!(job(hierarchy(None, 5), pods(1, 8)).admits, Admits::Later);
    assert_eq!(job(hierarchy(None, 0), pods(1, 13)).admits, Admits::Never);
}

#[test]
fn a_cohorts_borrowing_limit_is_a_maximum() {
    // The cohort may borrow 2 from its parent: 4 + 2 = 6.
    assert_eq!(
        job(hierarchy(Some(2), 0), pods(1, 6)).admits,
        Admits::Borrowing
    );
    assert_eq!(job(hierarchy(Some(2), 0), pods(1, 7)).admits, Admits::Never);
}

#[test]
fn cyclic_cohorts_admit_nothing() {
    let mut open = open(&[("own", in_cohort("x", cluster_queue(&[("a", quota(4), 0)])))]);
    let parent = |name: &str| Cohort {
        parent: Some(name.to_owned()),
        quotas: BTreeMap::new(),
    };
    open.cohorts = Some(BTreeMap::from([
        ("x".to_owned(), parent("y")),
        ("y".to_owned(), parent("x")),
    ]));
    let answer = job(open, pods(1, 1));
    assert_eq!(
        (answer.admits, causes(&answer)),
        (Admits::Later, vec!["queue-inactive"])
    );
}

#[test]
fn unreadable_facts_are_never_a_verdict() {
    // Without Cohort objects, the cohort's quota and parents are unknown.
    let mut without_cohorts = pair(quota(8), 8, quota(8), 8);
    without_cohorts.cohorts = None;
    let mut without_usage = pair(quota(8), 0, quota(8), 0);
    without_usage.cluster_queues.get_mut("other").unwrap().usage = None;
    let mut without_flavors = pair(quota(8), 0, quota(8), 0);
    without_flavors.flavors = None;
    for open in [without_cohorts, without_usage, without_flavors] {
        let answer = job(open, pods(1, 99));
        assert_eq!(
            (answer.admits, answer.not_evaluated.len()),
            (Admits::Unknown, 1)
        );
        assert!(answer.reasons.is_empty());
    }
    // The usage of a ClusterQueue in another cohort does not matter.
    let mut unrelated = pair(quota(8), 0, quota(8), 0);
    let mut far = in_cohort("elsewhere", cluster_queue(&[("a", quota(8), 0)]));
    far.usage = None;
    unrelated.cluster_queues.insert("far".to_owned(), far);
    assert_eq!(job(unrelated, pods(1, 1)).admits, Admits::Now);
}

#[test]
fn borrowing_waits_for_a_flavor_without_borrowing_if_the_queue_says_so() {
    // a: 4 own + 8 of the cohort, so 6 borrow 2. b: 8 own, so 6 need no borrowing.
    let own = cluster_queue(&[("a", quota(4), 0), ("b", quota(8), 0)]);
    let other = in_cohort("all", cluster_queue(&[("a", quota(8), 0)]));
    let queues =
        |own: ClusterQueue| open(&[("own", in_cohort("all", own)), ("other", other.clone())]);
    let answer = job(queues(own.clone()), pods(1, 6));
    assert_eq!(
        (answer.admits, answer.flavor_names()),
        (Admits::Borrowing, vec!["a"])
    );
    let mut patient = own;
    patient.fungibility.next_before_borrowing = true;
    let answer = job(queues(patient), pods(1, 6));
    assert_eq!(
        (answer.admits, answer.flavor_names()),
        (Admits::Now, vec!["b"])
    );
}
