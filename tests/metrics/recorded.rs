//! Tests `doctor --recording-rules`. A Prometheus with the rules gives the same answers as one
//! without, and gpuctl queries the recorded series.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gpuctl_sandbox::eventually;
use gpuctl_sandbox::exporter::Dialect;
use serde_json::{Value, json};

use crate::support::{Scene, scrape};

const MINUTE: i64 = 60;
/// Seconds of a block of Prometheus. promtool evaluates rules block by block and stops at the first
/// block without a due evaluation, so a start in the last minute of a block would record nothing.
/// Therefore the tests start at the begin of a block.
const BLOCK: i64 = 2 * 60 * MINUTE;

/// XID errors before now: node, device, code, first and last minute before now.
const ERRORS: [(&str, u32, u32, i64, i64); 6] = [
    ("recorded-0", 3, 79, 40, 38),
    // A later, harmless error with a larger number.
    ("recorded-0", 3, 94, 37, 3),
    // More than an hour ago.
    ("recorded-0", 5, 79, 90, 80),
    // An error that applications can cause.
    ("recorded-1", 2, 31, 20, 10),
    ("recorded-1", 4, 48, 30, 29),
    // Reported since before the hour. It remains until the driver is loaded again.
    ("recorded-1", 6, 74, 95, 2),
];

/// XID errors of the last hundred minutes every half minute, in the OpenMetrics format of promtool.
fn history(now: i64) -> String {
    let mut text = String::new();
    let devices: BTreeSet<(&str, u32)> = ERRORS
        .iter()
        .map(|(node, index, ..)| (*node, *index))
        .collect();
    for (node, index) in devices {
        for at in (now - 100 * MINUTE..now - 2 * MINUTE).step_by(30) {
            let is_active = |(name, number, _, first, last): &&(&str, u32, u32, i64, i64)| {
                (*name, *number) == (node, index)
                    && (now - first * MINUTE..=now - last * MINUTE).contains(&at)
            };
            let code = ERRORS.iter().find(is_active).map_or(0, |error| error.2);
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

fn run_to_success(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn recording_rules_do_not_change_the_reported_errors() {
    let scene = Scene::new("recorded", 2);
    let (folder, promtool) = (scene.cluster.folder(), scene.cluster.binary("promtool"));
    let rules = scene.gpuctl(&["doctor", "--recording-rules"]).ok().out;
    let samples = folder.join("recorded.om");
    std::fs::write(&samples, history(now())).unwrap();
    let start = |name: &str, rules: Option<&Path>| {
        let blocks = folder.join(format!("{name}-tsdb"));
        run_to_success(
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
    let check_nodes = |prometheus: &str| {
        let arguments = ["get", "nodes", "--pool", "recorded", "-o", "json"];
        let fields = |node: &Value| {
            (
                node["nodeName"].clone(),
                node["status"].clone(),
                node["reason"].clone(),
            )
        };
        // Before the first scrape only the history is known.
        let nodes = eventually("all devices have samples", Duration::from_secs(40), || {
            let nodes = scene.gpuctl_at(prometheus, &arguments, "").ok().json();
            if nodes["coverage"]["gpusSampled"] == 16 {
                Ok(nodes)
            } else {
                Err(nodes)
            }
        });
        let items = nodes["items"].as_array().unwrap();
        let actual: Vec<_> = items.iter().map(fields).collect();
        assert_eq!(actual, expected, "{prometheus}");
    };
    let is_recorded = |prometheus: &str| {
        let doctor = scene
            .gpuctl_at(prometheus, &["doctor", "-o", "json"], "")
            .json();
        doctor["checks"]
            .as_array()
            .unwrap()
            .iter()
            .any(|check| check["check"] == "recording-rules")
    };

    let (plain, plain_log) = start("without-rules", None);
    check_nodes(&plain);
    assert!(!is_recorded(&plain));

    // Rules for another set of codes are ignored, although they recorded the same values.
    let other_rules = rules.replace("46,48,", "48,");
    assert_ne!(other_rules, rules);
    for (name, rules, is_used) in [
        ("with-rules", &rules, true),
        ("with-other-rules", &other_rules, false),
    ] {
        let file = folder.join(format!("{name}-rules.yml"));
        std::fs::write(&file, rules).unwrap();
        run_to_success(Command::new(&promtool).args(["check", "rules"]).arg(&file));
        // Backfill the rules as if they had been loaded more than an hour ago.
        let (start_at, end_at) = ((now() - 65 * MINUTE) / BLOCK * BLOCK, now());
        run_to_success(
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
        check_nodes(&prometheus);
        assert_eq!(is_recorded(&prometheus), is_used, "{name}");
        let query_log = std::fs::read_to_string(log).unwrap();
        assert_eq!(
            query_log.contains("gpuctl:DCGM_FI_DEV_XID_ERRORS:fatal[1h]"),
            is_used,
            "{name}"
        );
        assert_eq!(query_log.contains("[1h:1m]"), !is_used, "{name}");
    }
    let query_log = std::fs::read_to_string(plain_log).unwrap();
    assert!(query_log.contains("[1h:1m]") && !query_log.contains("XID_ERRORS:fatal[1h]"));
}
