//! Follows three users through their first half hour: an engineer who trains models, an
//! administrator, and a script. A snapshot holds their output on a terminal of 80 columns. No line
//! may be wider than the terminal, at 60, 80 and 120 columns. The same commands also run in a pipe
//! with `LANG=C`, and as a user with permissions in one namespace only.

use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use gpuctl_sandbox::nodes::{fleet, volumes};
use gpuctl_sandbox::{Cluster, Options, Persona};
use regex::Regex;
use serde_json::{Value, json};

use crate::runner::{Run, finish, gpuctl, run};

/// Commands typed by each user.
const ENGINEER: [&str; 14] = [
    "init training",
    "create bad.yaml",
    "create huge.yaml",
    "create lost.yaml",
    "get jobs",
    "get job sft",
    "describe sft",
    "events sft",
    "logs sft",
    "get claims",
    "explain gpu",
    "stop sft",
    "describe sfd",
    "get gpu-type",
];
const PLATFORM: [&str; 10] = [
    "get nodes",
    "get node gpu-h-01",
    "get nodes --gpu-detail",
    "describe node gpu-h-01",
    "get pools",
    "describe pool training-pool",
    "get quotas",
    "get consumers",
    "get workloads",
    "auth check",
];
const SCRIPT: [&str; 8] = [
    "get jobs -o json",
    "get jobs -o csv",
    "get jobs -o name",
    "get nodes -o csv --gpu-type a10-24g",
    "get claims -o yaml",
    "validate bad.yaml -o json",
    "get jobs -o custom-columns=NAME:.jobId,GPUS:.gpuHeld",
    "get job nothing -o json",
];

fn file(cluster: &Cluster, name: &str, text: &str) {
    std::fs::write(cluster.folder().join(name), text).unwrap();
}

fn piped(cluster: &Cluster, persona: Persona, line: &str) -> Run {
    let mut command = gpuctl();
    command
        .env("KUBECONFIG", cluster.kubeconfig(persona))
        .env("LANG", "C")
        .env("LC_ALL", "C");
    command.current_dir(cluster.folder()).args(line.split(' '));
    run(command, "")
}

/// The control sequence that erases a line (ECMA-48, 8.3.41).
const ERASE: &str = "\u{1b}[2K";

/// Runs commands on a terminal with this number of columns and returns the output.
fn on_terminal(cluster: &Cluster, columns: u16, line: &str) -> String {
    let mut command = Command::new("script");
    let typed = format!("stty rows 50 cols {columns}; \"$GPUCTL\" {line}");
    command
        .args(["-qec", &typed, "/dev/null"])
        .env("KUBECONFIG", cluster.kubeconfig(Persona::Admin))
        .env("NO_COLOR", "1");
    command
        .env("GPUCTL", env!("CARGO_BIN_EXE_gpuctl"))
        .env("GPUCTL_PROMETHEUS", "none")
        .env("TERM", "xterm");
    command
        .env("LC_ALL", "C.UTF-8")
        .env_remove("COLUMNS")
        .current_dir(cluster.folder());
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let keyboard = child.stdin.take();
    let run = finish(child, Duration::from_secs(60));
    drop(keyboard);
    // Progress lines are erased before other output replaces them.
    let shown = run.out.replace('\r', "");
    let lines = shown.split('\n');
    let lines: Vec<&str> = lines
        .map(|line| line.rsplit(ERASE).next().unwrap())
        .collect();
    lines.join("\n")
}

/// Masks words that differ between runs.
fn masked(text: &str) -> String {
    let replaced = [
        (r"\b\d+(s|m|h)\b", "AGE"),
        (r"-[a-z0-9]{5}\b( |$|,|/|:)", "-SUFFIX$1"),
        // The scheduler may place either rank on either of two equal nodes.
        (r"\bboth-[01]-SUFFIX", "both-N-SUFFIX"),
        (r"\bgpu-a-0[1-4]\b", "gpu-a-0N"),
        (r"kernel kwok-\S+", "kernel KWOK"),
        (r"[ \t]+", " "),
    ];
    let mask = |text: String, (pattern, with): &(&str, &str)| {
        Regex::new(pattern)
            .unwrap()
            .replace_all(&text, *with)
            .into_owned()
    };
    let lines = text.lines().map(|line| {
        replaced
            .iter()
            .fold(line.to_owned(), mask)
            .trim_end()
            .to_owned()
    });
    let mut lines: Vec<String> = lines.collect();
    // The scheduler may choose any of several equal nodes, so their order in a list differs.
    let node_lines: Vec<usize> = (0..lines.len())
        .filter(|index| lines[*index].starts_with("gpu-a-0N"))
        .collect();
    let mut sorted: Vec<String> = node_lines
        .iter()
        .map(|index| lines[*index].clone())
        .collect();
    sorted.sort();
    for (index, line) in node_lines.into_iter().zip(sorted) {
        lines[index] = line;
    }
    lines.join("\n")
}

#[test]
fn output_for_three_users_fits_every_terminal() {
    let cluster = Cluster::start(&Options::default()).unwrap_or_else(|error| panic!("{error:#}"));
    cluster.add_nodes(&fleet());
    let admin = cluster.kubectl(Persona::Admin);
    admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": volumes(4)}));
    let training = |name: &str, resources: &str, rest: &str| {
        format!(
            "kind: training\nversion: v0.1\njob: {{name: {name}}}\nenvironment: {{image: 'pytorch/pytorch:2.9.0'}}\nresources: {{{resources}}}\n{rest}"
        )
    };
    file(
        &cluster,
        "sft.yaml",
        &training(
            "sft",
            "gpu: 4, gpu-type: a100-80g",
            "storage: {workdirs: [{path: /out, size: 10Gi}]}\n",
        ),
    );
    file(
        &cluster,
        "both.yaml",
        &training("both", "gpu: 8, gpu-type: h100-80g, node_count: 2", ""),
    );
    file(
        &cluster,
        "huge.yaml",
        &training("huge", "gpu: 16, gpu-type: h100-80g", ""),
    );
    file(
        &cluster,
        "lost.yaml",
        &training(
            "lost",
            "gpu: 1, gpu-type: a10-24g",
            "storage: {workdirs: [{path: /m, pvc: models}]}\n",
        ),
    );
    file(
        &cluster,
        "bad.yaml",
        "kind: training\nversion: v0.1\njob: {name: Bad_Name}\nenvironment: {image: x}\nresources: {gpus: 4}\n",
    );
    file(
        &cluster,
        "quota.yaml",
        "kind: quota\nversion: v0.1\nquota: {name: team}\nnamespace: {team-a: {gpu: 8, cpu: 64}}\n",
    );
    for line in [
        "create sft.yaml both.yaml --wait --timeout 90s",
        "create quota.yaml",
    ] {
        piped(&cluster, Persona::Admin, line).ok();
    }
    admin.until(&["get", "pvc", "sft-out", "-n", "default"], |claim| {
        claim["status"]["phase"] == "Bound"
    });

    let (mut seen, mut too_wide) = (String::new(), String::new());
    for (user, lines) in [
        ("ENGINEER WHO TRAINS MODELS", &ENGINEER[..]),
        ("ADMINISTRATOR", &PLATFORM),
    ] {
        writeln!(seen, "# {user}\n").unwrap();
        for line in lines {
            let shown = on_terminal(&cluster, 80, line);
            // The order of events within one second can differ between runs.
            let kept = match (
                line.starts_with("events"),
                shown.split_once("EVENTS\n"),
                shown.split_once("SUBMITTED\n"),
            ) {
                (true, ..) => "…".to_owned(),
                (_, Some((before, _)), Some((_, after))) => {
                    format!("{before}EVENTS\n…\nSUBMITTED\n{after}")
                }
                _ => shown,
            };
            writeln!(seen, "$ gpuctl {line}\n{}\n", masked(&kept)).unwrap();
            // `init` prints a file, and hints repeat what the user typed. Neither is wrapped.
            if !line.starts_with("init") {
                for columns in [60, 80, 120] {
                    let shown = on_terminal(&cluster, columns, line);
                    let wide = |text: &&str| text.chars().count() > usize::from(columns);
                    let wide: Vec<&str> = shown
                        .lines()
                        .filter(wide)
                        .filter(|text| !text.starts_with("hint: "))
                        .collect();
                    if !wide.is_empty() {
                        writeln!(too_wide, "{line} at {columns}: {wide:#?}").unwrap();
                    }
                }
            }
            let pipe = piped(&cluster, Persona::Admin, line);
            assert!(
                !pipe.out.contains('\u{1b}') && !pipe.err.contains('\u{1b}'),
                "{line}: {}{}",
                pipe.out,
                pipe.err
            );
        }
    }
    writeln!(seen, "# SCRIPT\n").unwrap();
    let (number, time) = (
        Regex::new(r",\d+,").unwrap(),
        Regex::new(r"\d{4}-\d\d-\d\dT[0-9:]+Z").unwrap(),
    );
    for line in SCRIPT {
        let run = piped(&cluster, Persona::Admin, line);
        // Other tests check the fields of the JSON. Here, stdout must only be one document or
        // empty.
        if line.ends_with("json") {
            let is_json = run.out.is_empty() || serde_json::from_str::<Value>(&run.out).is_ok();
            assert!(
                is_json
                    && run
                        .err
                        .lines()
                        .all(|line| serde_json::from_str::<Value>(line).is_ok()),
                "{line}: {}{}",
                run.out,
                run.err
            );
            writeln!(seen, "$ gpuctl {line}\nexit {}\n", run.code).unwrap();
        } else {
            let numbers = number.replace_all(&masked(&run.out), ",N,").into_owned();
            let numbers = time.replace_all(&numbers, "TIME").into_owned();
            writeln!(seen, "$ gpuctl {line}\n{numbers}\nexit {}\n", run.code).unwrap();
        }
    }
    assert!(too_wide.is_empty(), "{too_wide}");
    insta::with_settings!({prepend_module_to_snapshot => false}, { insta::assert_snapshot!(seen) });

    // A user with permissions in one namespace gets errors that name `auth check`. Everything else
    // works.
    admin.run(&[
        "create",
        "rolebinding",
        "carol",
        "--clusterrole=edit",
        "--user=carol",
        "-n",
        "default",
    ]);
    for line in ENGINEER.iter().chain(&PLATFORM).chain(&SCRIPT) {
        let (full, restricted) = (
            piped(&cluster, Persona::Admin, line),
            piped(&cluster, Persona::Carol, line),
        );
        let allowed_codes = [full.code, 0, 5];
        assert!(
            allowed_codes.contains(&restricted.code),
            "{line}: {} for carol, {} for admin: {}{}",
            restricted.code,
            full.code,
            restricted.out,
            restricted.err
        );
        assert!(
            restricted.code != 5 || restricted.err.contains("auth check"),
            "{line} does not mention `auth check`: {}",
            restricted.err
        );
        if line.ends_with("json") && !restricted.out.is_empty() {
            assert!(
                serde_json::from_str::<Value>(&restricted.out).is_ok(),
                "{line}: {}",
                restricted.out
            );
        }
    }
}
