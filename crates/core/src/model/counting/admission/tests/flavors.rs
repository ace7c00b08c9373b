//! One ClusterQueue without a cohort: quota, flavors and uncovered resources.

use super::*;

fn alone(queue: ClusterQueue) -> OpenQueue {
    open(&[("own", queue)])
}

#[test]
fn quota_that_is_exactly_free_suffices() {
    // 8 - 4 used = 4 free, and 2 pods x 2 = 4.
    let answer = job(alone(cluster_queue(&[("a", quota(8), 4)])), pods(2, 2));
    assert_eq!(answer.admits, Admits::Now, "{answer:#?}");
    let share = &answer.flavors[0];
    assert_eq!(
        (share.requested, share.nominal, share.used, share.borrowed),
        (4000, 8000, 4000, 0)
    );
    assert!(answer.reasons.is_empty() && answer.missing.is_empty());
}

#[test]
fn used_quota_makes_the_job_wait() {
    // 8 - 5 used = 3 free. 4 requested, so 1 more is needed.
    let answer = job(alone(cluster_queue(&[("a", quota(8), 5)])), pods(2, 2));
    assert_eq!(
        (answer.admits, causes(&answer)),
        (Admits::Later, vec!["queue-quota"])
    );
    assert_eq!(
        (answer.missing[0].amount, answer.missing[0].most),
        (1000, 8000)
    );
    let expected = "queue research: flavor a: 1 more nvidia.com/gpu needed";
    assert_eq!(answer.reasons[0].text, expected);
}

#[test]
fn more_than_the_quota_never_fits() {
    // 9 requested, but the quota is 8 even when nothing runs.
    let answer = job(alone(cluster_queue(&[("a", quota(8), 0)])), pods(9, 1));
    assert_eq!(
        (answer.admits, causes(&answer)),
        (Admits::Never, vec!["never-fits"])
    );
    let expected = "queue research: flavor a: 9 nvidia.com/gpu requested, at most 8 possible";
    assert_eq!(answer.reasons[0].text, expected);
}

#[test]
fn quota_reduced_below_its_use_needs_the_difference() {
    // 4 - 6 used = -2 free. 1 requested, so 3 more are needed. The job alone would fit into 4.
    let answer = job(alone(cluster_queue(&[("a", quota(4), 6)])), pods(1, 1));
    assert_eq!(answer.admits, Admits::Later);
    assert_eq!(
        answer.reasons[0].text,
        "queue research: flavor a: 3 more nvidia.com/gpu needed"
    );
}

#[test]
fn the_second_flavor_is_used_when_the_first_is_full() {
    // a: 4 - 4 = 0 free. b: 8 - 2 = 6 free, which suffices for 4.
    let queue = cluster_queue(&[("a", quota(4), 4), ("b", quota(8), 2)]);
    let answer = job(alone(queue), pods(1, 4));
    assert_eq!(
        (answer.admits, answer.flavor_names()),
        (Admits::Now, vec!["b"])
    );
}

#[test]
fn one_request_is_not_split_between_flavors() {
    // a has 4 and b has 4. A pod set of 6 fits into neither, although the sum is 8.
    let queue = cluster_queue(&[("a", quota(4), 0), ("b", quota(4), 0)]);
    let answer = job(alone(queue), pods(6, 1));
    assert_eq!(answer.admits, Admits::Never);
    assert_eq!(answer.missing.len(), 2);
}

#[test]
fn separate_workloads_can_use_separate_flavors() {
    // Six replicas of 1: four use a (4), two use b (4).
    let queue = cluster_queue(&[("a", quota(4), 0), ("b", quota(4), 0)]);
    let replica = [pods(1, 1)];
    let answer = simulate(alone(queue), 0, &[&replica[..]; 6]);
    assert_eq!(
        (answer.admits, answer.flavor_names()),
        (Admits::Now, vec!["a", "b"])
    );
    let requested: Vec<i128> = answer.flavors.iter().map(|share| share.requested).collect();
    assert_eq!(requested, [4000, 2000]);
}

#[test]
fn pod_sets_of_one_workload_share_the_quota() {
    // 8 free. The leader takes 1, so 8 - 1 = 7 remain, and 8 workers need 8.
    let queue = cluster_queue(&[("a", quota(8), 0)]);
    let answer = simulate(alone(queue.clone()), 0, &[&[pods(1, 1), pods(8, 1)]]);
    assert_eq!(answer.admits, Admits::Never);
    // With 7 workers, 1 + 7 = 8 fit.
    let answer = simulate(alone(queue), 0, &[&[pods(1, 1), pods(7, 1)]]);
    assert_eq!(
        (answer.admits, answer.flavors[0].requested),
        (Admits::Now, 8000)
    );
}

#[test]
fn a_flavor_with_an_untolerated_taint_is_skipped() {
    // a has 8 free but is excluded, b has 4 free, and 4 are requested.
    let queue = cluster_queue(&[("a", quota(8), 0), ("b", quota(4), 0)]);
    let mut set = pods(1, 4);
    let taint = FlavorExclusion::Taint("spot".to_owned());
    set.exclusions.insert("a".to_owned(), taint);
    let answer = job(alone(queue.clone()), set.clone());
    assert_eq!(
        (answer.admits, answer.flavor_names()),
        (Admits::Now, vec!["b"])
    );
    // Without b, the taint is the only cause.
    set.exclusions
        .insert("b".to_owned(), FlavorExclusion::Taint("spot".to_owned()));
    let answer = job(alone(queue), set);
    assert_eq!(
        (answer.admits, causes(&answer)),
        (Admits::Never, vec!["taint"])
    );
}

#[test]
fn a_flavor_with_other_labels_is_skipped() {
    let queue = cluster_queue(&[("a", quota(8), 0)]);
    let mut set = pods(1, 1);
    let label = FlavorExclusion::Label("gpu=h100".to_owned());
    set.exclusions.insert("a".to_owned(), label);
    let answer = job(alone(queue), set);
    assert_eq!(
        (answer.admits, causes(&answer)),
        (Admits::Never, vec!["node-selector"])
    );
    assert!(answer.reasons[0].text.contains("gpu=h100"), "{answer:#?}");
}

#[test]
fn a_label_that_only_old_versions_compare_makes_the_answer_unknown() {
    // Old versions skip a and use b. New versions use a.
    let queue = cluster_queue(&[("a", quota(8), 0), ("b", quota(8), 0)]);
    let mut set = pods(1, 1);
    let label = FlavorExclusion::LabelOfOtherFlavor("gpu=h100".to_owned());
    set.exclusions.insert("a".to_owned(), label);
    assert_eq!(job(alone(queue), set.clone()).admits, Admits::Unknown);
    // With a full, all versions use b: a has 4 - 4 = 0 free.
    let queue = cluster_queue(&[("a", quota(4), 4), ("b", quota(8), 0)]);
    let answer = job(alone(queue), set);
    assert_eq!(
        (answer.admits, answer.flavor_names()),
        (Admits::Now, vec!["b"])
    );
}

#[test]
fn a_resource_without_a_group_never_fits() {
    let mut set = pods(1, 1);
    set.requests.insert("cpu".to_owned(), 500);
    let queue = cluster_queue(&[("a", quota(8), 0)]);
    let answer = job(alone(queue.clone()), set.clone());
    assert_eq!(
        (answer.admits, causes(&answer)),
        (Admits::Never, vec!["never-fits"])
    );
    assert_eq!(
        (answer.missing[0].flavor.as_ref(), answer.missing[0].amount),
        (None, 500)
    );
    // An amount of 0 needs no quota.
    set.requests.insert("cpu".to_owned(), 0);
    assert_eq!(job(alone(queue.clone()), set.clone()).admits, Admits::Now);
    // An admitted job shows that Kueue's configuration excludes the resource.
    set.requests.insert("cpu".to_owned(), 500);
    let mut excluding = alone(queue);
    excluding.excluded_resources.insert("cpu".to_owned());
    assert_eq!(job(excluding, set).admits, Admits::Now);
}

#[test]
fn pods_are_a_resource_only_if_a_group_covers_them() {
    // The group covers pods with a quota of 3, so 4 pods never fit and 3 pods do.
    let mut queue = cluster_queue(&[("a", quota(8), 0)]);
    queue.groups[0].resources.insert("pods".to_owned());
    queue
        .quotas
        .insert(FlavorResource::new("a", "pods"), quota(3));
    let answer = job(alone(queue.clone()), pods(4, 1));
    assert_eq!(
        (answer.admits, answer.missing[0].resource.as_str()),
        (Admits::Never, "pods")
    );
    assert_eq!(job(alone(queue), pods(3, 1)).admits, Admits::Now);
}

#[test]
fn groups_get_flavors_independently() {
    // GPUs: flavor b has 8. CPU: flavor c has 16 - 15 = 1 free, and 2 are requested.
    let mut queue = cluster_queue(&[("b", quota(8), 0)]);
    queue.groups.push(ResourceGroup {
        resources: BTreeSet::from(["cpu".to_owned()]),
        flavors: vec!["c".to_owned()],
    });
    let cpu = FlavorResource::new("c", "cpu");
    queue.quotas.insert(cpu.clone(), quota(16));
    queue.usage.as_mut().unwrap().insert(cpu, 15_000);
    let mut set = pods(1, 1);
    set.requests.insert("cpu".to_owned(), 2000);
    let answer = job(alone(queue), set);
    assert_eq!(answer.admits, Admits::Later);
    assert_eq!(
        answer.reasons[0].text,
        "queue research: flavor c: 1 more cpu needed"
    );
}

#[test]
fn memory_is_reported_in_binary_units() {
    let mut queue = cluster_queue(&[("a", quota(8), 0)]);
    queue.groups[0].resources.insert("memory".to_owned());
    let memory = FlavorResource::new("a", "memory");
    queue.quotas.insert(memory, quota(64 << 30));
    let mut set = pods(2, 1);
    // 2 x 48Gi = 96Gi of at most 64Gi.
    set.requests.insert("memory".to_owned(), (48 << 30) * 1000);
    let answer = job(alone(queue), set);
    let expected = "queue research: flavor a: 96Gi memory requested, at most 64Gi possible";
    assert_eq!(answer.reasons[0].text, expected);
}
