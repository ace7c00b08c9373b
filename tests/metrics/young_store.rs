//! Tests long ranges over a store that has samples of only a few hours.

use crate::past::{HOUR, Variant, ask, history, store, unix_now};
use crate::support::cluster;

const MONTH: i64 = 30 * 24 * HOUR;

#[test]
fn hours_before_the_first_sample_are_not_queried() {
    let begin = unix_now() / HOUR * HOUR - 5 * HOUR;
    let prometheus = store("young", history(Variant::Plain).0, begin);
    let cache = cluster().folder().join("young-cache");
    let end = (begin + 3 * HOUR).to_string();
    let run = |command: &[&str], start: i64, more: &[&str]| {
        let start = start.to_string();
        let range = ["--start", &start, "--end", &end, "-o", "json"];
        ask(&prometheus, &cache, &[command, &range[..], more].concat()).ok()
    };
    let exact = run(&["report"], begin, &[]).json();
    let long = run(&["report"], begin - MONTH, &["-vv"]);
    let report = long.json();
    assert_eq!(
        (&report["items"], &report["sum"]),
        (&exact["items"], &exact["sum"])
    );
    // Reading all 723 hours would take thousands of requests.
    let requests = long
        .err
        .lines()
        .filter(|line| line.contains("gpuctl::prometheus"))
        .count();
    assert!((1..150).contains(&requests), "{requests} requests");

    let exact = run(&["stats", "cluster"], begin, &["--no-cache"]).json();
    let long = run(&["stats", "cluster"], begin - MONTH, &["--no-cache"]);
    assert!(!long.err.contains("million samples"), "{}", long.err);
    assert!(!long.out.contains("-0.0"), "{}", long.out);
    let rows = long.json();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 30 * 24 + 3);
    assert_eq!(
        &rows[rows.len() - 3..],
        exact.as_array().unwrap().as_slice()
    );
    // Hours without data are unknown, not zero.
    assert!(rows[0]["allocated_gpu_count"].is_null(), "{}", rows[0]);
}
