//! Puts texts that control terminals or spreadsheets into all texts of a cluster and its
//! Prometheus, and runs every command that reads. Terminals and spreadsheets must get only escaped
//! texts, and JSON must preserve them.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::runner;
use crate::support::{Run, Scene, run};

/// Texts that a terminal, a bidirectional editor, or a spreadsheet interprets.
const HOSTILE: [&str; 9] = [
    "=cmd|'/C calc'!A0",
    "\u{1b}[2J\u{1b}[48;5;196mred",
    "\u{1b}]0;title\u{7}",
    "\u{1b}]8;;http://evil.example\u{1b}\\link",
    "\u{9b}5A\u{90}q\u{9c}",
    "\r\nerror: forged\n",
    "\u{202e}gnp.exe\u{2066}\u{200f}\u{61c}",
    "a\u{8}\u{8}\u{7f}\u{0}b",
    "\u{2028}\u{2029}\u{feff}\u{e0041}",
];

/// Fields of free text. Each gets the next hostile text as a prefix.
const FREE_TEXT_FIELDS: [&str; 7] = [
    "message",
    "reason",
    "image",
    "imageID",
    "note",
    "exported_container",
    "modelName",
];

/// All commands that read and need no argument but a name.
const READ_COMMANDS: &[&str] = &[
    "get jobs",
    "get jobs -A",
    "get nodes",
    "get nodes -A",
    "get pools",
    "get overview",
    "get consumers",
    "get workloads",
    "get workloads -A",
    "get claims",
    "get quotas",
    "get queues",
    "get defaults",
    "get label --all",
    "get node-labels",
    "get gpu-type",
    "get health",
    "get heatmap",
    "get namespaces",
    "get clusters",
    "get dimension-keys",
    "get dimension-values gpuctl/pool",
    "get metrics workload NAME",
    "get metrics job NAME",
    "get training-performance NAME",
    "get workload-metadata NAME",
    "describe job NAME",
    "describe node NODE",
    "describe pool POOL",
    "describe workload NAME",
    "tree NAME",
    "events NAME",
    "logs NAME",
    "why NAME",
    "why --all",
    "free",
    "eff NAME",
    "report --by team",
    "report --by namespace",
    "score",
    "score low",
    "score stats",
    "snapshot latest",
    "snapshot list",
    "stats cluster",
    "stats namespaces",
    "stats workloads",
    "report --ettr",
    "logs NAME --first-error",
    "describe queue NAME",
    "describe quota NAME",
    "describe defaults",
    "who gpu NODE/0",
    "drain NODE --plan",
    "top nodes",
    "top jobs",
    "top gpus",
    "doctor",
    "auth check",
];

/// The commands that fail here. Their error messages are checked too.
const FAILING_COMMANDS: [&str; 9] = [
    // The cluster has no queue, quota or default, and no job has a history yet.
    "get metrics workload NAME",
    "get training-performance NAME",
    "get workload-metadata NAME",
    "eff NAME",
    "snapshot latest",
    "describe queue NAME",
    "describe quota NAME",
    "describe defaults",
    "who gpu NODE/0",
];

/// Hostile names, which an API server would reject. A bundle is a file and can come from anyone.
const EVIL_JOB: &str = "evil\u{1b}]0;x\u{7}\u{202e}run";
const EVIL_NODE: &str = "hostile\u{1b}[2J\u{9b}0";

/// Writes a copy of the bundle with hostile texts in free-text fields, and optionally hostile
/// names.
fn poisoned(bundle: &Path, with_names: bool) -> PathBuf {
    let mut text = String::new();
    GzDecoder::new(std::fs::File::open(bundle).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    if with_names {
        let json_escaped = |name: &str| {
            let quoted = json!(name).to_string();
            quoted[1..quoted.len() - 1].to_owned()
        };
        text = text
            .replace("hostile-run", &json_escaped(EVIL_JOB))
            .replace("hostile-0", &json_escaped(EVIL_NODE));
    }
    let mut contents: Value = serde_json::from_str(&text).unwrap();
    let mut next = 0;
    poison(&mut contents["lists"], &mut next);
    poison(&mut contents["answers"], &mut next);
    let logs = contents["answers"]
        .as_object_mut()
        .unwrap()
        .iter_mut()
        .filter(|(request, _)| request.starts_with("LOG "));
    logs.for_each(|(_, answer)| poison_log(&mut answer["body"], &mut next));
    assert!(next > 50, "the bundle has only {next} hostile texts");
    let target = bundle.with_extension(format!("poisoned-{with_names}"));
    let mut packed = GzEncoder::new(std::fs::File::create(&target).unwrap(), Compression::fast());
    packed.write_all(contents.to_string().as_bytes()).unwrap();
    packed.finish().unwrap();
    target
}

fn poison(value: &mut Value, next: &mut usize) {
    match value {
        Value::Object(fields) => {
            let annotated = fields
                .get_mut("annotations")
                .and_then(Value::as_object_mut)
                .into_iter()
                .flatten();
            let free = annotated
                .filter(|(key, _)| !key.contains("gpuctl"))
                .map(|(_, value)| value);
            free.for_each(|value| prefix(value, next));
            for (key, value) in fields.iter_mut() {
                match FREE_TEXT_FIELDS.contains(&key.as_str()) && value.is_string() {
                    true => prefix(value, next),
                    false => poison(value, next),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| poison(item, next)),
        _ => {}
    }
}

/// Inserts a text after the timestamp of each log line.
fn poison_log(body: &mut Value, next: &mut usize) {
    let Value::String(text) = body else { return };
    let lines = text.lines().map(|line| {
        let (time, rest) = line.split_once(' ').unwrap_or((line, ""));
        *next += 1;
        format!(
            "{time} {}{rest}\n",
            HOSTILE[*next % HOSTILE.len()].replace('\n', "")
        )
    });
    *text = lines.collect();
}

fn prefix(value: &mut Value, next: &mut usize) {
    if let Value::String(text) = value {
        *text = format!("{}{text}", HOSTILE[*next % HOSTILE.len()]);
        *next += 1;
    }
}

/// Runs gpuctl on another machine with only the bundle.
fn replay(bundle: &Path, arguments: &[&str]) -> Run {
    let mut command = runner::gpuctl();
    command
        .env_remove("GPUCTL_PROMETHEUS")
        .env("HOME", "/nonexistent")
        .env("KUBECONFIG", "/nonexistent");
    command
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .env("XDG_CACHE_HOME", "/dev/null");
    command.arg("--replay").arg(bundle).args(arguments);
    run(command, "")
}

fn is_unsafe(c: char) -> bool {
    (c.is_control() && c != '\n')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{61c}')
        || matches!(c, '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Asserts that a text has no control characters and no forged line.
fn assert_harmless(command_line: &str, text: &str) {
    let unsafe_part = text.chars().position(is_unsafe).map(|at| {
        text.chars()
            .skip(at.saturating_sub(40))
            .take(80)
            .collect::<String>()
    });
    assert!(unsafe_part.is_none(), "{command_line}: {unsafe_part:?}");
    assert!(
        !text.lines().any(|line| line.starts_with("error: forged")),
        "{command_line}: {text}"
    );
}

#[test]
fn hostile_texts_do_not_reach_terminals_or_spreadsheets() {
    let scene = Scene::new("hostile", 2);
    scene.train("hostile-run", 2, 4);
    let yaml = "kind: training\nversion: v0.1\njob: {name: hostile-waits, annotations: {who: me}}\nenvironment: {image: busybox, command: [sleep, '1']}\nresources: {pool: hostile, gpu: 8, node_count: 3}\n";
    scene
        .gpuctl_with(&["create", "-f", "-", "--allow-pending"], yaml)
        .ok();
    scene.until(&["why", "hostile-run"], |answer| {
        !answer["notEvaluated"].to_string().contains("metrics")
    });
    scene.until(&["events", "hostile-waits"], |answer| {
        answer.to_string().contains("FailedScheduling")
    });
    let path = scene.cluster.folder().join("hostile.gpuctl");
    scene
        .gpuctl(&["doctor", "--bundle", path.to_str().unwrap(), "-o", "json"])
        .ok();

    let (mut escaped, mut preserved, mut failing) = (0, 0, Vec::new());
    for with_names in [false, true] {
        let bundle = poisoned(&path, with_names);
        let (job, node) = if with_names {
            (EVIL_JOB, EVIL_NODE)
        } else {
            ("hostile-waits", "hostile-0")
        };
        for command in READ_COMMANDS {
            let words: Vec<String> = command
                .split(' ')
                .map(|word| {
                    word.replace("NAME", job)
                        .replace("NODE", node)
                        .replace("POOL", "hostile")
                })
                .collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            for format in [
                &[][..],
                &["-o", "wide"],
                &["-o", "csv"],
                &["-o", "name"],
                &["--color=always"],
                &["-o", "json"],
                &["-o", "yaml"],
            ] {
                let arguments = [&["-n", "hostile"][..], &words, format].concat();
                let arguments = if words.contains(&"-A") {
                    &arguments[2..]
                } else {
                    &arguments
                };
                let result = replay(&bundle, arguments);
                let command_line = arguments.join(" ").escape_debug().to_string();
                // `doctor` exits with 13 or 14 after a complete report.
                let is_complete = matches!(result.code, 0 | 13 | 14);
                if !is_complete && format.is_empty() && !with_names {
                    failing.push(*command);
                }
                assert!(
                    !result.err.contains("panicked"),
                    "{command_line}: {}",
                    result.err
                );
                match format {
                    ["--color=always"] => {
                        assert_harmless(&command_line, &without_colors(&result.out));
                        assert_harmless(&command_line, &without_colors(&result.err));
                    }
                    [_, "json"] => {
                        if is_complete {
                            let answer: Value = serde_json::from_str(&result.out)
                                .unwrap_or_else(|error| panic!("{command_line}: {error}"));
                            preserved += usize::from(
                                HOSTILE.iter().any(|text| contains_text(&answer, text))
                                    || contains_text(&answer, EVIL_JOB),
                            );
                        }
                        assert_harmless(&command_line, &result.out);
                        assert_harmless(&command_line, &result.err);
                    }
                    [_, "csv"] => {
                        assert_harmless(&command_line, &result.out);
                        assert_harmless(&command_line, &result.err);
                        if result.code == 0 {
                            for cell in cells(&result.out) {
                                assert!(!is_formula(&cell), "{command_line}: {cell}");
                            }
                        }
                    }
                    _ => {
                        assert_harmless(&command_line, &result.out);
                        assert_harmless(&command_line, &result.err);
                        escaped += usize::from(
                            result.out.contains("\\u{1b}") || result.out.contains("forged"),
                        );
                    }
                }
            }
        }
    }
    // Whether a snapshot exists depends on the time since the first sample.
    failing.retain(|command| *command != "snapshot list");
    assert_eq!(
        failing, FAILING_COMMANDS,
        "commands that fail with this bundle"
    );
    // If no hostile text reached the output, this test would prove nothing.
    assert!(
        escaped > 20 && preserved > 10,
        "too few outputs contain hostile texts: {escaped} escaped, {preserved} in JSON"
    );
}

/// Removes gpuctl's own color sequences: `ESC [ digits m` with at most two numbers.
fn without_colors(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('m') {
            Some((code, rest))
                if code.split(';').count() < 3
                    && code.chars().all(|c| c.is_ascii_digit() || c == ';') =>
            {
                plain.push_str(rest);
            }
            _ => plain.push_str(&format!("\u{1b}[{part}")),
        }
    }
    plain
}

/// Whether a key or string of an answer contains a text verbatim.
fn contains_text(answer: &Value, text: &str) -> bool {
    match answer {
        Value::String(string) => string.contains(text),
        Value::Array(items) => items.iter().any(|item| contains_text(item, text)),
        Value::Object(fields) => fields
            .iter()
            .any(|(key, value)| key.contains(text) || contains_text(value, text)),
        _ => false,
    }
}

fn cells(csv: &str) -> Vec<String> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(csv.as_bytes());
    reader
        .records()
        .flat_map(|record| {
            record
                .unwrap()
                .iter()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Whether a spreadsheet would interpret the cell as a formula.
fn is_formula(cell: &str) -> bool {
    let is_number = cell
        .trim_end_matches(['%', 'd', 'h', 'm', 's'])
        .parse::<f64>()
        .is_ok();
    cell.len() > 1 && cell.starts_with(['=', '@', '+', '-', '\t', '\r']) && !is_number
}
