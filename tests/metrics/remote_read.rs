//! Tests remote read of long ranges. One command for twelve hours gives the same answer as three
//! commands for four hours each, which do not use remote read. Prometheus' own metrics count its
//! requests.

use std::process::Command;

use serde_json::{Value, json};

use crate::past::{HOUR, Sample, Variant, ask, history, hours_ago, write};
use crate::support::cluster;

/// The same three hours four times, each copy shifted by another twelve seconds.
fn twelve_hours() -> Vec<Sample> {
    let copy = |number: i64| {
        let shift = number * (3 * HOUR + 12);
        history(Variant::Plain)
            .0
            .into_iter()
            .map(move |sample| Sample {
                at: sample.at + shift,
                ..sample
            })
    };
    (0..4).flat_map(copy).collect()
}

/// The number of remote read requests that Prometheus served.
fn remote_reads(prometheus: &str) -> u64 {
    let output = Command::new("curl")
        .args(["-s", &format!("{prometheus}/metrics")])
        .output()
        .unwrap();
    let metrics = String::from_utf8(output.stdout).unwrap();
    let line = metrics.lines().find(|line| {
        line.starts_with("prometheus_http_requests_total{code=\"200\",handler=\"/api/v1/read\"}")
    });
    line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

#[test]
fn remote_read_gives_the_same_answers_as_queries() {
    let begin = hours_ago(15);
    let name = "remote-read";
    write(name, twelve_hours(), begin);
    // Remote read adds external labels to every series; queries do not.
    let prometheus = cluster()
        .labelled_prometheus(name, &json!({"cluster": "here"}), &[], &[])
        .unwrap();
    let cache = cluster().folder().join("remote-read-cache");
    let stats = |level: &str, from: i64, to: i64| -> Vec<Value> {
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
    // Removes the times of the query.
    let without_times = |mut rows: Vec<Value>| {
        rows.iter_mut().for_each(|row| {
            ["created_at", "updated_at"]
                .iter()
                .for_each(|key| drop(row.as_object_mut().unwrap().remove(*key)));
        });
        rows.sort_by_key(ToString::to_string);
        rows
    };
    for level in ["cluster", "namespaces", "workloads"] {
        let before = remote_reads(&prometheus);
        let rows_of_queries: Vec<Value> = [0, 4, 8]
            .iter()
            .flat_map(|hour| stats(level, *hour, hour + 4))
            .collect();
        assert_eq!(
            remote_reads(&prometheus),
            before,
            "short ranges use queries"
        );
        assert!(rows_of_queries.len() >= 12, "{rows_of_queries:#?}");
        assert_eq!(
            without_times(stats(level, 0, 12)),
            without_times(rows_of_queries),
            "{level}"
        );
        // Of twelve hours, four are queried, the next one is read in both ways for comparison, and
        // up to four more are queried during that comparison. The rest uses remote read.
        let reads = remote_reads(&prometheus) - before;
        assert!((4..=8).contains(&reads), "{level}: {reads}");
    }
}
