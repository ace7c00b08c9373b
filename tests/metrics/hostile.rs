//! One corpus of texts that steer terminals and spreadsheets, put into everything a cluster and its
//! Prometheus say, and through every command that reads: nothing of it reaches a terminal or a
//! spreadsheet, and JSON says it as it was.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::runner;
use crate::support::{Run, Scene, run};

/// Texts that a terminal, an editor of two directions, or a spreadsheet takes for more than text.
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

/// What is said of a job in words that nobody checks: each gets the next of the corpus at its
/// front.
const FREE: [&str; 7] = [
    "message",
    "reason",
    "image",
    "imageID",
    "note",
    "exported_container",
    "modelName",
];

/// Everything that reads and needs no more than a name.
const READING: &[&str] = &[
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

/// Those of them that end with an error here, whose messages are looked at all the same.
const UNANSWERED: [&str; 11] = [
    // No queue, quota or default is there, and no job has a history yet.
    "get queues",
    "get metrics workload NAME",
    "get training-performance NAME",
    "get workload-metadata NAME",
    "eff NAME",
    "snapshot latest",
    "snapshot list",
    "describe queue NAME",
    "describe quota NAME",
    "describe defaults",
    "who gpu NODE/0",
];

/// Names with a text inside, which no API server takes: a bundle is a file, and files come from
/// anybody.
const EVIL_JOB: &str = "evil\u{1b}]0;x\u{7}\u{202e}run";
const EVIL_NODE: &str = "hostile\u{1b}[2J\u{9b}0";

/// The bundle with hostile texts in it: free ones at their front, names in all places at once.
fn poisoned(bundle: &Path, with_names: bool) -> PathBuf {
    let mut text = String::new();
    GzDecoder::new(std::fs::File::open(bundle).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    if with_names {
        let inside = |name: &str| {
            let quoted = json!(name).to_string();
            quoted[1..quoted.len() - 1].to_owned()
        };
        text = text
            .replace("hostile-run", &inside(EVIL_JOB))
            .replace("hostile-0", &inside(EVIL_NODE));
    }
    let mut whole: Value = serde_json::from_str(&text).unwrap();
    let mut next = 0;
    poison(&mut whole["lists"], &mut next);
    poison(&mut whole["answers"], &mut next);
    let logs = whole["answers"]
        .as_object_mut()
        .unwrap()
        .iter_mut()
        .filter(|(question, _)| question.starts_with("LOG "));
    logs.for_each(|(_, kept)| poison_log(&mut kept["body"], &mut next));
    assert!(next > 50, "the corpus is hardly in it: {next}");
    let target = bundle.with_extension(format!("poisoned-{with_names}"));
    let mut packed = GzEncoder::new(std::fs::File::create(&target).unwrap(), Compression::fast());
    packed.write_all(whole.to_string().as_bytes()).unwrap();
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
            free.for_each(|value| spoil(value, next));
            for (key, value) in fields.iter_mut() {
                match FREE.contains(&key.as_str()) && value.is_string() {
                    true => spoil(value, next),
                    false => poison(value, next),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| poison(item, next)),
        _ => {}
    }
}

/// Puts a text behind the time of each line.
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

fn spoil(value: &mut Value, next: &mut usize) {
    if let Value::String(text) = value {
        *text = format!("{}{text}", HOSTILE[*next % HOSTILE.len()]);
        *next += 1;
    }
}

/// gpuctl on somebody's machine, who was sent the file.
fn replay(bundle: &Path, arguments: &[&str]) -> Run {
    let mut command = runner::gpuctl();
    command
        .env_remove("GPUCTL_PROMETHEUS")
        .env("HOME", "/nonexistent")
        .env("KUBECONFIG", "/nonexistent");
    command
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .env("XDG_CACHE_HOME", "/nonexistent");
    command.arg("--replay").arg(bundle).args(arguments);
    run(command, "")
}

fn steers(c: char) -> bool {
    (c.is_control() && c != '\n')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{61c}')
        || matches!(c, '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Nothing in a text steers, and nothing begins a line that the program did not write.
fn harmless(what: &str, text: &str) {
    let found = text.chars().position(steers).map(|at| {
        text.chars()
            .skip(at.saturating_sub(40))
            .take(80)
            .collect::<String>()
    });
    assert!(found.is_none(), "{what}: {found:?}");
    assert!(
        !text.lines().any(|line| line.starts_with("error: forged")),
        "{what}: {text}"
    );
}

#[test]
fn nothing_that_a_cluster_says_steers_a_terminal_or_a_spreadsheet() {
    let scene = Scene::new("hostile", 2);
    scene.train("hostile-run", 2, 4);
    let yaml = "kind: training\nversion: v0.1\njob: {name: hostile-waits, annotations: {who: me}}\nenvironment: {image: busybox, command: [sleep, '1']}\nresources: {pool: hostile, gpu: 8, node_count: 3}\n";
    scene
        .gpuctl_with(&["create", "-f", "-", "--allow-pending"], yaml)
        .ok();
    scene.until(&["why", "hostile-run"], |answer| {
        answer["notEvaluated"] == json!([])
    });
    scene.until(&["events", "hostile-waits"], |answer| {
        answer.to_string().contains("FailedScheduling")
    });
    let path = scene.cluster.folder().join("hostile.gpuctl");
    scene
        .gpuctl(&["doctor", "--bundle", path.to_str().unwrap(), "-o", "json"])
        .ok();

    let (mut shown, mut told, mut refused) = (0, 0, Vec::new());
    for with_names in [false, true] {
        let bundle = poisoned(&path, with_names);
        let (job, node) = if with_names {
            (EVIL_JOB, EVIL_NODE)
        } else {
            ("hostile-waits", "hostile-0")
        };
        for command in READING {
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
                let found = replay(&bundle, arguments);
                let what = arguments.join(" ").escape_debug().to_string();
                if found.code != 0 && format.is_empty() && !with_names {
                    refused.push(*command);
                }
                assert!(!found.err.contains("panicked"), "{what}: {}", found.err);
                match format {
                    ["--color=always"] => {
                        harmless(&what, &without_colors(&found.out));
                        harmless(&what, &without_colors(&found.err));
                    }
                    [_, "json"] => {
                        if found.code == 0 {
                            let answer: Value = serde_json::from_str(&found.out)
                                .unwrap_or_else(|error| panic!("{what}: {error}"));
                            told += usize::from(
                                HOSTILE.iter().any(|text| says(&answer, text))
                                    || says(&answer, EVIL_JOB),
                            );
                        }
                        harmless(&what, &found.out);
                        harmless(&what, &found.err);
                    }
                    [_, "csv"] => {
                        harmless(&what, &found.out);
                        harmless(&what, &found.err);
                        if found.code == 0 {
                            cells(&found.out)
                                .iter()
                                .for_each(|cell| assert!(!computes(cell), "{what}: {cell}"));
                        }
                    }
                    _ => {
                        harmless(&what, &found.out);
                        harmless(&what, &found.err);
                        shown += usize::from(
                            found.out.contains("\\u{1b}") || found.out.contains("forged"),
                        );
                    }
                }
            }
        }
    }
    assert_eq!(
        refused, UNANSWERED,
        "commands that the file does not answer"
    );
    // The corpus reached what is printed: otherwise all of this proves nothing.
    assert!(
        shown > 20 && told > 10,
        "hardly anything of the corpus was shown: {shown} and {told}"
    );
}

/// The text without what colors it: `ESC [ digits m`, at most two numbers, which the program writes
/// itself.
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

/// True when one of the texts of an answer holds this one as it is.
fn says(answer: &Value, text: &str) -> bool {
    match answer {
        Value::String(told) => told.contains(text),
        Value::Array(items) => items.iter().any(|item| says(item, text)),
        Value::Object(fields) => fields
            .iter()
            .any(|(key, value)| key.contains(text) || says(value, text)),
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

/// True when a spreadsheet would compute the cell.
fn computes(cell: &str) -> bool {
    let is_number = cell
        .trim_end_matches(['%', 'd', 'h', 'm', 's'])
        .parse::<f64>()
        .is_ok();
    cell.len() > 1 && cell.starts_with(['=', '@', '+', '-', '\t', '\r']) && !is_number
}
