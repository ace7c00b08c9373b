//! `doctor --recording-rules`: a Prometheus that runs them answers as one without, and is asked for
//! what they recorded.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gpuctl_sandbox::exporter::Dialect;
use serde_json::{Value, json};

use crate::support::{Scene, scrape};

const MINUTE: i64 = 60;
/// Seconds of a block of Prometheus. promtool evaluates rules block by block and stops at the first
/// in which no evaluation is due, so a start in the last minute of a block would leave everything
/// out; tests start where a block does.
const BLOCK: i64 = 2 * 60 * MINUTE;

/// Errors that devices told before now: node, device, code, the first and the last minute ago.
const TOLD: [(&str, u32, u32, i64, i64); 5] = [
    ("recorded-0", 3, 79, 40, 38),
    // What came after it has a larger number and is harmless.
    ("recorded-0", 3, 94, 37, 3),
    // More than an hour ago.
    ("recorded-0", 5, 79, 90, 80),
    // What a program can cause by itself.
    ("recorded-1", 2, 31, 20, 10),
    ("recorded-1", 4, 48, 30, 29),
];

/// Errors of the last hundred minutes as exporters told them, every half minute, in the format that
/// promtool reads.
fn history(now: i64) -> String {
    let mut text = String::new();
    let devices: BTreeSet<(&str, u32)> = TOLD
        .iter()
        .map(|(node, index, ..)| (*node, *index))
        .collect();
    for (node, index) in devices {
        for at in (now - 100 * MINUTE..now - 2 * MINUTE).step_by(30) {
            let is_told = |(of, number, _, first, last): &&(&str, u32, u32, i64, i64)| {
                (*of, *number) == (node, index)
                    && (now - first * MINUTE..=now - last * MINUTE).contains(&at)
            };
            let code = TOLD.iter().find(is_told).map_or(0, |told| told.2);
            writeln!(text, r#"DCGM_FI_DEV_XID_ERRORS{{Hostname="{node}",gpu="{index}",UUID="GPU-{node}-{index}"}} {code} {at}"#)
                .unwrap();
        }
    }
    text + "# EOF\n"
}

fn now() -> i64 {
    i64::try_from(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs(),
    )
    .unwrap()
}

fn done(command: &mut Command) {
    let made = command.output().unwrap();
    assert!(
        made.status.success(),
        "{}{}",
        String::from_utf8_lossy(&made.stdout),
        String::from_utf8_lossy(&made.stderr)
    );
}

#[test]
fn recorded_errors_are_those_that_devices_told() {
    let scene = Scene::new("recorded", 2);
    let (folder, promtool) = (scene.cluster.folder(), scene.cluster.binary("promtool"));
    let rules = scene.gpuctl(&["doctor", "--recording-rules"]).ok().out;
    let samples = folder.join("recorded.om");
    std::fs::write(&samples, history(now())).unwrap();
    let start = |name: &str, rules: Option<&Path>| {
        let blocks = folder.join(format!("{name}-tsdb"));
        done(
            Command::new(&promtool)
                .args(["tsdb", "create-blocks-from", "openmetrics"])
                .args([&samples, &blocks]),
        );
        let log = folder.join(format!("{name}.log"));
        let configuration = json!({
            "global": {"scrape_interval": "1s", "query_log_file": log},
            "rule_files": rules.into_iter().collect::<Vec<_>>(),
            "scrape_configs": [scrape(&scene.exporter, Dialect::Dcgm, false)],
        });
        (
            scene.cluster.prometheus_with(name, &configuration).unwrap(),
            log,
        )
    };
    let expected = [
        (json!("recorded-0"), json!("faulty"), json!("gpu-3: XID 79")),
        (json!("recorded-1"), json!("faulty"), json!("gpu-4: XID 48")),
    ];
    let answers_so = |prometheus: &str| {
        let arguments = ["get", "nodes", "--pool", "recorded", "-o", "json"];
        let of = |node: &Value| {
            (
                node["nodeName"].clone(),
                node["status"].clone(),
                node["reason"].clone(),
            )
        };
        let end = Instant::now() + Duration::from_secs(40);
        loop {
            let nodes = scene.gpuctl_at(prometheus, &arguments, "").ok().json();
            let told: Vec<_> = nodes["items"].as_array().unwrap().iter().map(of).collect();
            // Until the first scrape nothing but the past is known.
            if nodes["coverage"]["gpusSampled"] == 16 {
                return assert_eq!(told, expected, "{prometheus}");
            }
            assert!(Instant::now() < end, "{nodes:#}");
            std::thread::sleep(Duration::from_millis(300));
        }
    };
    let is_recorded = |prometheus: &str| {
        let told = scene
            .gpuctl_at(prometheus, &["doctor", "-o", "json"], "")
            .ok()
            .json();
        told["checks"]
            .as_array()
            .unwrap()
            .iter()
            .any(|check| check["check"] == "recording-rules")
    };

    let (plain, plain_log) = start("without-rules", None);
    answers_so(&plain);
    assert!(!is_recorded(&plain));

    // Rules that ran for another set of codes are not those of this program, though they recorded
    // the same.
    let other = rules.replace("48,64,", "48,");
    assert_ne!(other, rules);
    for (name, rules, counts) in [
        ("with-rules", &rules, true),
        ("with-other-rules", &other, false),
    ] {
        let file = folder.join(format!("{name}-rules.yml"));
        std::fs::write(&file, rules).unwrap();
        done(Command::new(&promtool).args(["check", "rules"]).arg(&file));
        // As if they had been loaded more than an hour ago.
        let (start_at, end_at) = ((now() - 65 * MINUTE) / BLOCK * BLOCK, now());
        done(
            Command::new(&promtool)
                .args(["tsdb", "create-blocks-from", "rules", "--url", &plain])
                .args([
                    "--start",
                    &start_at.to_string(),
                    "--end",
                    &end_at.to_string(),
                    "--output-dir",
                ])
                .args([&folder.join(format!("{name}-tsdb")), &file]),
        );
        let (prometheus, log) = start(name, Some(&file));
        answers_so(&prometheus);
        assert_eq!(is_recorded(&prometheus), counts, "{name}");
        let asked = std::fs::read_to_string(log).unwrap();
        assert_eq!(
            asked.contains("gpuctl:DCGM_FI_DEV_XID_ERRORS:fatal[1h]"),
            counts,
            "{name}"
        );
        assert_eq!(asked.contains("[1h:1m]"), !counts, "{name}");
    }
    let asked = std::fs::read_to_string(plain_log).unwrap();
    assert!(asked.contains("[1h:1m]") && !asked.contains("XID_ERRORS:fatal[1h]"));
}
