//! Jobs that wait before the new one, states of queues, and conditions after quota.

use super::*;

fn waiting(name: &str, priority: i64, is_tried: bool) -> WaitingJob {
    WaitingJob {
        name: name.to_owned(),
        priority,
        is_tried,
        ..WaitingJob::default()
    }
}

/// A queue with 8 free GPUs and these waiting jobs.
fn with_waiting(is_strict: bool, jobs: &[WaitingJob]) -> OpenQueue {
    let mut queue = cluster_queue(&[("a", quota(8), 0)]);
    queue.is_strict = is_strict;
    queue.waiting = Some(jobs.len() as u64);
    let mut open = open(&[("own", queue)]);
    open.waiting = jobs.to_vec();
    open
}

#[test]
fn a_strict_queue_admits_in_order() {
    let answer = job(
        with_waiting(true, &[waiting("n/large", 0, true)]),
        pods(1, 1),
    );
    assert_eq!(
        (answer.admits, causes(&answer)),
        (Admits::Later, vec!["queue-position"])
    );
    assert_eq!(answer.ahead, ["n/large"]);
    assert!(
        answer.reasons[0].text.contains("n/large waits"),
        "{answer:#?}"
    );
}

#[test]
fn a_strict_queue_tries_only_its_first_job() {
    let jobs = [waiting("n/large", 1, true), waiting("n/next", 0, false)];
    let answer = job(with_waiting(true, &jobs), pods(1, 1));
    assert_eq!(answer.admits, Admits::Later);
    assert_eq!(answer.ahead, ["n/large", "n/next"]);
}

#[test]
fn other_queues_let_jobs_pass() {
    let answer = job(
        with_waiting(false, &[waiting("n/large", 0, true)]),
        pods(1, 1),
    );
    assert_eq!(
        (answer.admits, answer.ahead.as_slice()),
        (Admits::Now, &["n/large".to_owned()][..])
    );
}

#[test]
fn a_higher_priority_goes_first() {
    let open = with_waiting(true, &[waiting("n/large", 0, true)]);
    let answer = simulate(open, 1, &[&[pods(1, 1)]]);
    assert_eq!((answer.admits, answer.ahead.len()), (Admits::Now, 0));
}

#[test]
fn untried_jobs_leave_the_answer_open() {
    for is_strict in [true, false] {
        let open = with_waiting(is_strict, &[waiting("n/new", 0, false)]);
        assert_eq!(job(open, pods(1, 1)).admits, Admits::Unknown);
    }
}

#[test]
fn unreadable_waiting_jobs_matter_only_in_strict_queues() {
    for (is_strict, admits) in [(true, Admits::Unknown), (false, Admits::Now)] {
        let mut open = with_waiting(is_strict, &[]);
        open.cluster_queues.get_mut("own").unwrap().waiting = Some(1);
        assert_eq!(job(open, pods(1, 1)).admits, admits);
    }
}

#[test]
fn a_strict_queue_of_the_cohort_may_reserve_quota() {
    // 8 own + 8 of the cohort. 9 borrow 1, and 8 borrow nothing.
    let mut other = in_cohort("all", cluster_queue(&[("a", quota(8), 0)]));
    (other.is_strict, other.waiting) = (true, Some(1));
    let own = in_cohort("all", cluster_queue(&[("a", quota(8), 0)]));
    let queues = open(&[("own", own), ("other", other)]);
    assert_eq!(job(queues.clone(), pods(1, 9)).admits, Admits::Unknown);
    assert_eq!(job(queues, pods(1, 8)).admits, Admits::Now);
}

#[test]
fn states_of_queues_have_their_own_causes() {
    let request = AdmissionRequest::default();
    let text = "stopped".to_owned();
    let cases = [
        (
            QueueState::Missing(text.clone()),
            Admits::Never,
            vec!["queue-missing"],
        ),
        (
            QueueState::Inactive(text.clone()),
            Admits::Later,
            vec!["queue-inactive"],
        ),
        (QueueState::Unreadable(text), Admits::Unknown, vec![]),
    ];
    for (state, admits, expected) in cases {
        let facts = QueueFacts {
            name: "research".to_owned(),
            cluster_queue: None,
            state,
        };
        let answer = admission(&facts, &request);
        assert_eq!((answer.admits, causes(&answer)), (admits, expected));
    }
}

#[test]
fn the_namespace_must_be_accepted() {
    let mut open = with_waiting(false, &[]);
    open.accepts_namespace = Some(false);
    let answer = job(open.clone(), pods(1, 1));
    assert_eq!(
        (answer.admits, causes(&answer)),
        (Admits::Never, vec!["queue-namespace"])
    );
    open.accepts_namespace = None;
    assert_eq!(job(open, pods(1, 1)).admits, Admits::Unknown);
}

#[test]
fn checks_and_topology_are_not_evaluated() {
    let mut open = with_waiting(false, &[]);
    let check = |name: &str, flavors: &[&str]| RequiredCheck {
        name: name.to_owned(),
        flavors: flavors.iter().map(|flavor| (*flavor).to_owned()).collect(),
    };
    let queue = open.cluster_queues.get_mut("own").unwrap();
    queue.checks = vec![
        check("budget", &[]),
        check("other", &["b"]),
        check("cloud", &["a"]),
    ];
    let flavor = ResourceFlavor {
        topology: Some("racks".to_owned()),
        ..ResourceFlavor::default()
    };
    open.flavors = Some(BTreeMap::from([("a".to_owned(), flavor)]));
    let answer = job(open, pods(1, 1));
    let causes: Vec<&str> = answer
        .not_evaluated
        .iter()
        .map(|reason| reason.cause.as_ref())
        .collect();
    assert_eq!(
        (answer.admits, causes),
        (Admits::Now, vec!["queue-checks", "queue-checks", "queue"])
    );
}
