//! Tests the times of jobs.

use super::*;
use crate::model::GpuCount;
use crate::stats::history::allocations::AllocationGaps;

const SLOT: i64 = 60_000;

/// Builds a pod with `gpus` GPUs. Each letter is a slot: the pod waits (`w`), starts (`s`), runs
/// (`r`) or does not exist (`.`).
fn pod(job: &str, kind: &str, gpus: u64, slots: &str, phase: &str) -> Allocation {
    let slots_in = |letters: &str| {
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
        requested: slots_in("wsr"),
        held: slots_in("sr"),
        running: slots_in("r"),
        phase: Some((slots.len() - 1, phase.into())),
        labels: None,
        annotations: None,
        gaps: AllocationGaps::default(),
    }
}

fn hour(number: i64, allocations: Vec<Allocation>) -> AllocationHistory {
    let slots = allocations[0].requested.len();
    let begin = number * i64::try_from(slots).unwrap() * SLOT;
    AllocationHistory::from_allocations(begin, SLOT, allocations)
}

#[test]
fn time_splits_into_waiting_starting_running_and_lost() {
    let mut times = JobTimes::new(240.0);
    let group = |_: &Allocation| Some(vec![Some("ml".to_owned())]);
    // In ten minutes, the pod waits for two, pulls its image for one, runs for three, is absent for
    // one, and runs again, also in the next hour.
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
    // Four devices wait for 2 + 1 minutes, and two devices for 7 + 1 minutes.
    near(sum.waiting, 4.0 * hours(3.0) + 2.0 * hours(8.0));
    near(sum.starting, 4.0 * hours(1.0) + 2.0 * hours(1.0));
    near(sum.running, 4.0 * hours(3.0 + 3.0 + 2.0) + 2.0 * hours(2.0));
    // Half of the checkpoint interval of four minutes is lost.
    near(sum.lost, 4.0 * hours(2.0));
    let productive = 4.0 * 6.0 + 2.0 * 2.0;
    near(
        sum.effective_ratio().unwrap(),
        productive / (4.0 * 12.0 + 2.0 * 11.0),
    );
    near(sum.goodput().unwrap(), productive / (4.0 * 9.0 + 2.0 * 3.0));
    // The first job was already waiting at the start, so its waiting time is unknown.
    assert_eq!(
        (sum.waits.clone(), sum.wait(0.5)),
        (vec![480.0], Some(480.0))
    );
}

#[test]
fn rerun_after_success_is_not_an_interruption() {
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
    // A run in a later chunk, after deletion of the first run's objects, does not count as an
    // interruption either.
    times.add(&hour(1, vec![run("third", ".....rrr..")]), |_| {
        Some(vec![None])
    });
    let sum = times.sums().remove(&vec![None]).unwrap();
    assert_eq!((sum.interruptions, sum.waiting), (0, 0.0));
}

#[test]
fn unobserved_time_is_not_an_interruption() {
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
fn percentiles_are_waiting_times_of_jobs() {
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

#[test]
fn job_that_was_deleted_while_it_waited_does_not_wait_any_longer() {
    let mut times = JobTimes::new(0.0);
    // Both wait in the first of ten minutes. One is deleted after three, the other still exists.
    let pods = vec![
        pod("gone", "Job", 2, "www.......", "Pending"),
        pod("waits", "Job", 4, "wwwwwwwwww", "Pending"),
    ];
    times.add(&hour(0, pods), |_| Some(vec![None]));
    let sum = times.sums().remove(&vec![None]).unwrap();
    assert_eq!((sum.jobs, sum.still_waiting), (2, 1));
    assert!((sum.waiting - (2.0 * 3.0 + 4.0 * 10.0) / 60.0).abs() < 1e-9);
}
