//! Tests that GPU-hours are neither lost nor invented, whatever the scrapes look like.

use std::collections::BTreeSet;

use super::GpuHours;
use super::generated::{GeneratedSeries, HOUR, Random, SECOND, TargetScrapes, TruePod};
use crate::stats::history::slots::TimeSpan;

/// Time of the first window in milliseconds.
const BEGIN: i64 = 1_700_000_000 * SECOND / HOUR * HOUR;
const NODES: [&str; 2] = ["n1", "n2"];
const NAMESPACES: [&str; 3] = ["a", "b", "c"];

/// Picks scrape times from two hours before the window to two hours after it: with a changing
/// interval, holes, lost scrapes, restarts of the target, and an occasional sample twice. Also
/// returns the longest interval.
fn torn_scrapes(random: &mut Random, names: [&'static str; 2]) -> (TargetScrapes, i64) {
    let intervals = [5, 15, 30, 60, 120, 300].map(|seconds| seconds * SECOND);
    let pair = [random.pick(&intervals), random.pick(&intervals)];
    let change = BEGIN + random.below(HOUR);
    let restart = BEGIN + random.below(3 * HOUR);
    let lost = random.pick(&[0, 0, 5, 30, 50]);
    let holes: Vec<(i64, i64)> = (0..random.below(4))
        .map(|_| {
            let start = BEGIN - HOUR + random.below(3 * HOUR);
            (start, start + random.below(HOUR / 2))
        })
        .collect();
    let mut scrapes = Vec::new();
    let mut at = BEGIN - 2 * HOUR + random.below(pair[0]);
    while at < BEGIN + 3 * HOUR {
        let in_hole = holes
            .iter()
            .any(|(start, end)| (*start..*end).contains(&at));
        if !in_hole && !random.chance(lost) {
            let instance = names[usize::from(at >= restart)];
            scrapes.push((at, instance));
            if random.chance(2) {
                scrapes.push((at, instance));
            }
        }
        let interval = pair[usize::from(at >= change)];
        at += interval + random.below(20) - 10;
    }
    (scrapes, pair[0].max(pair[1]))
}

fn random_pods(random: &mut Random) -> Vec<TruePod> {
    let pod = |number: i64, random: &mut Random| {
        let start = BEGIN - HOUR + random.below(3 * HOUR);
        let gpus = u64::try_from(1 + random.below(4)).unwrap();
        TruePod {
            namespace: random.pick(&NAMESPACES).to_owned(),
            name: format!("pod-{number}"),
            node: random.pick(&NODES),
            gpus,
            start,
            end: start + random.below(2 * HOUR),
            kept: random.pick(&[0, 0, HOUR]),
            // Pods may claim the same device, as after a wrong label of an exporter.
            first_device: u64::try_from(random.below(8)).unwrap(),
        }
    };
    (0..=random.below(6))
        .map(|number| pod(number, random))
        .collect()
}

fn near(a: f64, b: f64, seed: u64, what: &str) {
    assert!((a - b).abs() < 1e-6, "seed {seed}: {what}: {a} and {b}");
}

/// Checks that held is the sum of used, wasted and unknown.
fn check_identity(hours: &GpuHours, seed: u64) {
    let used = hours.used().unwrap_or(0.0);
    let wasted = hours.wasted().unwrap_or(0.0);
    let sum = used + wasted + hours.unknown();
    near(sum, hours.held, seed, "used + wasted + unknown and held");
    let all = [used, wasted, hours.unknown(), hours.bridged, hours.unseen];
    assert!(
        all.iter().all(|part| *part >= 0.0),
        "seed {seed}: {hours:?}"
    );
    assert!(hours.bridged <= hours.held + 1e-6, "seed {seed}: {hours:?}");
    let covered = hours.covered().map_or(0.0, |percent| percent.0);
    assert!((0.0..=100.001).contains(&covered), "seed {seed}: {covered}");
}

fn check_seed(seed: u64) {
    let random = &mut Random::new(seed);
    let pods = random_pods(random);
    let mut generated = GeneratedSeries::default();
    let (state, interval) = torn_scrapes(random, ["state-1", "state-2"]);
    generated.add_state(&pods, &NODES, &state);
    if random.chance(30) {
        // A second replica of the scraper.
        let (state, _) = torn_scrapes(random, ["other-1", "other-2"]);
        generated.add_state(&pods, &NODES, &state);
    }
    let (exporter, _) = torn_scrapes(random, ["exporter-1", "exporter-2"]);
    generated.add_devices(&pods, &exporter, 40.0);
    if random.chance(30) {
        // A second exporter of the same devices, which reports them 7 s later.
        let shifted = exporter.iter().map(|(at, _)| (at + 7 * SECOND, "second"));
        generated.add_devices(&pods, &shifted.collect(), 60.0);
    }
    let span = TimeSpan {
        start: BEGIN,
        end: BEGIN + HOUR,
    };
    let (history, usage) = generated.read(span, BEGIN + 3 * HOUR);
    let total = GpuHours::new(&history, &usage, |_| true);
    check_identity(&total, seed);
    let mut sum = GpuHours::default();
    for namespace in NAMESPACES {
        let group = GpuHours::new(&history, &usage, |pod| pod.pod.0 == namespace);
        check_identity(&group, seed);
        sum.add(group);
    }
    check_identity(&sum, seed);
    for (a, b, what) in [
        (sum.held, total.held, "held"),
        (sum.measured, total.measured, "measured"),
        (sum.unknown(), total.unknown(), "unknown"),
        (sum.bridged, total.bridged, "bridged"),
        (sum.unseen, total.unseen, "unseen"),
        (
            sum.used().unwrap_or(0.0),
            total.used().unwrap_or(0.0),
            "used",
        ),
        (
            sum.energy.unwrap_or(0.0),
            total.energy.unwrap_or(0.0),
            "energy",
        ),
    ] {
        near(a, b, seed, what);
    }
    // Each end of a pod is known to two and a half intervals. A pod without samples is invisible.
    let names: BTreeSet<&String> = history.allocations.iter().map(|pod| &pod.pod.1).collect();
    let (mut truth, mut tolerance) = (0.0, 0.0);
    for pod in pods.iter().filter(|pod| names.contains(&pod.name)) {
        truth += pod.held(span);
        tolerance += pod.gpus as f64 * 6.0 * interval as f64 / HOUR as f64;
    }
    assert!(
        total.held <= truth + tolerance,
        "seed {seed}: {total:?} of {truth}"
    );
    assert!(
        total.held + total.unseen >= truth - tolerance,
        "seed {seed}: {total:?} of {truth}"
    );
}

#[test]
fn rows_add_up_in_random_histories() {
    (0..1000).for_each(check_seed);
}

/// Scrapes of eight days, a minute apart unless `keeps` drops them.
fn scrapes_of_eight_days(mut keeps: impl FnMut(i64) -> bool) -> TargetScrapes {
    (0..8 * 24 * 60)
        .map(|minute| BEGIN + minute * 60 * SECOND + 7 * SECOND)
        .filter(|at| keeps(*at))
        .map(|at| (at, "state"))
        .collect()
}

/// Pods of eight days: one for the whole time, one of half an hour in each third hour, and one of
/// ten hours each day.
fn pods_of_eight_days() -> Vec<TruePod> {
    let pod = |name: String, node, gpus, start: i64, end: i64| TruePod {
        namespace: "ml".to_owned(),
        name,
        node,
        gpus,
        start: BEGIN + start,
        end: BEGIN + end,
        kept: 0,
        first_device: 0,
    };
    let short = (0..8 * 8).map(|number| {
        let start = number * 3 * HOUR + 13 * 60 * SECOND;
        pod(format!("short-{number}"), "n2", 4, start, start + HOUR / 2)
    });
    let daily = (0..8).map(|day| {
        let start = day * 24 * HOUR + 5 * HOUR;
        pod(format!("daily-{day}"), "n2", 2, start, start + 10 * HOUR)
    });
    [pod("long".to_owned(), "n1", 8, 0, 8 * 24 * HOUR)]
        .into_iter()
        .chain(short)
        .chain(daily)
        .collect()
}

fn hours_of_eight_days(scrapes: &TargetScrapes) -> (GpuHours, f64) {
    hours_of_pods(&pods_of_eight_days(), scrapes)
}

/// Sums the hours of eight days, one by one. Also returns the hours without samples.
fn hours_of_pods(pods: &[TruePod], scrapes: &TargetScrapes) -> (GpuHours, f64) {
    let mut generated = GeneratedSeries::default();
    generated.add_state(pods, &NODES, scrapes);
    let now = BEGIN + 8 * 24 * HOUR;
    let (mut sum, mut unobserved) = (GpuHours::default(), 0.0);
    for hour in 0..8 * 24 {
        let span = TimeSpan {
            start: BEGIN + hour * HOUR,
            end: BEGIN + (hour + 1) * HOUR,
        };
        let (history, usage) = generated.read(span, now);
        sum.add(GpuHours::new(&history, &usage, |_| true));
        unobserved += history.unobserved_hours();
    }
    (sum, unobserved)
}

#[test]
fn torn_scrapes_give_the_hours_of_perfect_ones() {
    // 8 GPUs for 192 h, 4 GPUs for 64 · 0.5 h, and 2 GPUs for 8 · 10 h: 1536 + 128 + 160.
    let truth = 1824.0;
    let (perfect, unobserved) = hours_of_eight_days(&scrapes_of_eight_days(|_| true));
    assert!((perfect.held - truth).abs() < truth * 0.001, "{perfect:?}");
    assert_eq!(
        (perfect.bridged, perfect.unseen, unobserved),
        (0.0, 0.0, 0.0)
    );

    // 20 minutes without scrapes in each hour, which no short pod reaches: minutes 43 to 63.
    let minute = |at: i64| (at - BEGIN) / (60 * SECOND) % 60;
    let (holes, unobserved) = hours_of_eight_days(&scrapes_of_eight_days(|at| {
        !(44..=59).contains(&minute(at))
    }));
    assert!((holes.held - truth).abs() < truth * 0.01, "{holes:?}");
    // 16 minutes without samples follow the last interval, so 16/60 of 192 h.
    assert!(
        (unobserved - 192.0 * 16.0 / 60.0).abs() < 2.0,
        "{unobserved}"
    );
    assert!(holes.bridged > 300.0, "{holes:?}");

    // Every second scrape is lost at random.
    let random = &mut Random::new(7);
    let (half, _) = hours_of_eight_days(&scrapes_of_eight_days(|_| random.chance(50)));
    assert!((half.held - truth).abs() < truth * 0.01, "{half:?}");

    // Five hours without scrapes each day, from 03:20 to 08:20. The daily pod begins in it. Pods in
    // it without any sample are not in any sum: short pods at 03:13 and 06:13, 64 / 8 · 2 each day.
    let outage = (200 * 60 * SECOND)..(500 * 60 * SECOND);
    let of_day = |at: i64| (at - BEGIN) % (24 * HOUR);
    let (outages, _) =
        hours_of_eight_days(&scrapes_of_eight_days(|at| !outage.contains(&of_day(at))));
    let missing = truth - outages.held;
    // 8 · 4 GPUs · 0.5 h at 06:13 are invisible.
    assert!(
        missing <= outages.unseen + 16.0 + truth * 0.01,
        "{missing}: {outages:?}"
    );
    assert!(outages.held <= truth * 1.001, "{outages:?}");
    // The long pod holds its devices for 5 h in each of the outages: 8 · 8 · 5.
    assert!((outages.bridged - 320.0).abs() < 4.0, "{outages:?}");
}

#[test]
fn outages_of_days_are_bridged_or_unseen() {
    // No scrapes on the days 2, 3 and 4 of eight.
    let outage = 48 * HOUR..120 * HOUR;
    let scrapes = scrapes_of_eight_days(|at| !outage.contains(&(at - BEGIN)));
    let (hours, unobserved) = hours_of_pods(&pods_of_eight_days()[..1], &scrapes);
    // 8 GPUs for 192 h, 72 h of them bridged: 1536 and 576.
    assert!((hours.held - 1536.0).abs() < 1.0, "{hours:?}");
    assert!((hours.bridged - 576.0).abs() < 1.0, "{hours:?}");
    assert!(hours.unseen < 1e-6, "{hours:?}");
    // The last scrape is 7 s after a minute, so it covers 7 s of the outage.
    assert!((unobserved - 72.0).abs() < 0.1, "{unobserved}");

    // One pod of 8 GPUs ends, and another one begins, 36 h after the start of the outage. Nobody
    // can know: 48 · 8 + 72 · 8 hours are held, and 2 · 72 · 8 may be.
    let mut pods = vec![pods_of_eight_days().remove(0); 2];
    pods[0].end = BEGIN + 84 * HOUR;
    pods[1].name = "next".to_owned();
    pods[1].start = BEGIN + 84 * HOUR;
    let (hours, _) = hours_of_pods(&pods, &scrapes);
    assert!((hours.held - 960.0).abs() < 1.0, "{hours:?}");
    assert!((hours.unseen - 1152.0).abs() < 1.0, "{hours:?}");
    // 960 + 1152 is at least the truth of 1536.

    // An outage until now has one side: 48 · 8 hours are held, and 144 · 8 may be.
    let scrapes = scrapes_of_eight_days(|at| at < BEGIN + 48 * HOUR);
    let (hours, _) = hours_of_pods(&pods_of_eight_days()[..1], &scrapes);
    assert!((hours.held - 384.0).abs() < 1.0, "{hours:?}");
    assert!((hours.unseen - 1152.0).abs() < 1.0, "{hours:?}");
}

#[test]
fn hours_do_not_depend_on_the_scrape_interval() {
    let pods = pods_of_eight_days();
    // Half an hour at 60 s, then at 5 s; at 15 minutes; at 7 s.
    let changed =
        |second: i64| second < 1800 && second % 60 == 0 || second >= 1800 && second % 5 == 0;
    let rules: [&dyn Fn(i64) -> bool; 4] = [
        &|second| second % 30 == 0,
        &changed,
        &|second| second % 900 == 0,
        &|second| second % 7 == 0,
    ];
    for (number, is_scraped) in rules.iter().enumerate() {
        let times = (0..3600).filter(|second| is_scraped(*second));
        let scrapes: TargetScrapes = times.map(|second| (BEGIN + second * SECOND, "s")).collect();
        let mut generated = GeneratedSeries::default();
        generated.add_state(&pods, &NODES, &scrapes);
        generated.add_devices(&pods[..1], &scrapes, 50.0);
        let span = TimeSpan {
            start: BEGIN,
            end: BEGIN + HOUR,
        };
        let (history, usage) = generated.read(span, BEGIN + HOUR);
        let long = GpuHours::new(&history, &usage, |pod| pod.pod.1 == "long");
        // 8 GPUs for an hour at 50 % and 100 W: 8 held, 4 used, 0.8 kWh.
        assert!((long.held - 8.0).abs() < 1e-6, "{number}: {long:?}");
        assert!(
            (long.used().unwrap() - 4.0).abs() < 0.05,
            "{number}: {long:?}"
        );
        assert!(
            (long.energy.unwrap() - 0.8).abs() < 0.01,
            "{number}: {long:?}"
        );
        assert_eq!((long.bridged, long.unseen), (0.0, 0.0), "{number}");
    }
}
