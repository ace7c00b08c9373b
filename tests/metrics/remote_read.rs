//! Long ranges, whose samples come by remote read where a Prometheus serves it: twelve hours that
//! are asked for at once are answered as by three questions of four hours each, which are too short
//! for it, and Prometheus counts what it was asked.

use std::process::Command;

use serde_json::{Value, json};

use crate::past::{HOUR, Sample, Variant, ask, history, hours_ago, write};
use crate::support::cluster;

/// The same three hours four times, the first samples of each twelve seconds later than before.
fn twelve_hours() -> Vec<Sample> {
    let copy = |number: i64| {
        let shift = number * (3 * HOUR + 12);
        history(Variant::Plain)
            .0
            .into_iter()
            .map(move |one| Sample {
                at: one.at + shift,
                ..one
            })
    };
    (0..4).flat_map(copy).collect()
}

/// How many times remote read was served.
fn served(prometheus: &str) -> u64 {
    let told = Command::new("curl")
        .args(["-s", &format!("{prometheus}/metrics")])
        .output()
        .unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    let line = told.lines().find(|line| {
        line.starts_with("prometheus_http_requests_total{code=\"200\",handler=\"/api/v1/read\"}")
    });
    line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

#[test]
fn long_ranges_are_answered_alike_by_queries_and_by_chunks() {
    let begin = hours_ago(15);
    let name = "remote-read";
    write(name, twelve_hours(), begin);
    // What remote read adds to every series and queries do not.
    let prometheus = cluster()
        .labelled_prometheus(name, &json!({"cluster": "here"}), &[], &[])
        .unwrap();
    let cache = cluster().folder().join("remote-read-cache");
    let asked = |level: &str, from: i64, to: i64| -> Vec<Value> {
        let (start, end) = (
            (begin + from * HOUR).to_string(),
            (begin + to * HOUR).to_string(),
        );
        let mut arguments = vec![
            "stats",
            level,
            "--start",
            &start,
            "--end",
            &end,
            "-o",
            "json",
            "--no-cache",
        ];
        if level == "workloads" {
            arguments.extend(["--page-size", "1000"]);
        }
        let rows = ask(&prometheus, &cache, &arguments).ok().json();
        rows.as_array()
            .or(rows["data"].as_array())
            .unwrap_or_else(|| panic!("{rows:#}"))
            .clone()
    };
    // Which time an answer was made at is no part of it.
    let bare = |mut rows: Vec<Value>| {
        rows.iter_mut().for_each(|row| {
            ["created_at", "updated_at"]
                .iter()
                .for_each(|key| drop(row.as_object_mut().unwrap().remove(*key)));
        });
        rows.sort_by_key(ToString::to_string);
        rows
    };
    for level in ["cluster", "namespaces", "workloads"] {
        let before = served(&prometheus);
        let short: Vec<Value> = [0, 4, 8]
            .iter()
            .flat_map(|hour| asked(level, *hour, hour + 4))
            .collect();
        assert_eq!(
            served(&prometheus),
            before,
            "short ranges are asked for by queries"
        );
        assert!(short.len() >= 12, "{short:#?}");
        assert_eq!(bare(asked(level, 0, 12)), bare(short), "{level}");
        // Four hours by queries alone, one in both ways, and up to four that were on their way
        // until then.
        let reads = served(&prometheus) - before;
        assert!((4..=8).contains(&reads), "{level}: {reads}");
    }
}
