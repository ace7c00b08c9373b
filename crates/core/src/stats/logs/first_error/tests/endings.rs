//! Endings of logs in their literal forms, with the line that states the cause.
//!
//! Each case of a data file starts with `## name`, and `=> line` with the expected line, or `=> -`
//! if no line qualifies. `{steps N}`, `{start N}` and `{info N}` are lines before the end. `\e` is
//! an escape character, `\r` a carriage return.

use super::*;

/// A log and the error that it states.
pub(super) struct LogEnding {
    pub name: String,
    /// `None` if no line qualifies.
    pub expected: Option<String>,
    pub lines: Vec<String>,
}

const FILES: [&str; 5] = [
    include_str!("findings.txt"),
    include_str!("python.txt"),
    include_str!("distributed.txt"),
    include_str!("serving.txt"),
    include_str!("system.txt"),
];

/// Harmless lines of the start of a training.
const START: &[&str] = &[
    "gpu-a-01:211:302 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal net plugin.",
    "gpu-a-01:211:302 [0] NCCL INFO NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: cannot open shared object file: No such file or directory",
    "E0000 00:00:1738317600.123456     211 cuda_dnn.cc:8310] Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN when one has already been registered",
    "2026-01-31 10:00:00.123456: E external/local_xla/xla/stream_executor/cuda/cuda_blas.cc:1418] Unable to register cuBLAS factory: Attempting to register factory for plugin cuBLAS when one has already been registered",
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
    "/entrypoint.sh: line 3: ldconfig: command not found",
    "wandb: ERROR Error while calling W&B API: project not found (<Response [404]>)",
    "huggingface/tokenizers: The current process just got forked, after parallelism has already been used. Disabling parallelism to avoid deadlocks...",
    "ImportError: No module named 'flash_attn' -- falling back to sdpa",
    "/usr/lib/python3/site-packages/torch/utils.py:12: UserWarning: RuntimeError: this will change",
    "INFO:root:loaded 812 shards, 0 errors",
    "[W131 10:00:00.123 socket.cpp:752] [c10d] The client socket has failed to connect to [gpu-a-01]:29500 (errno: 97 - Address family not supported by protocol).",
    "Loading checkpoint shards: 100%|██████████| 30/30 [00:30<00:00,  1.00s/it]",
];

fn expand(line: &str, lines: &mut Vec<String>) {
    let words = line
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    let words = words.and_then(|words| words.split_once(' '));
    let parsed = words.and_then(|(kind, count)| Some((kind, count.parse::<usize>().ok()?)));
    let Some((kind, count)) = parsed else {
        lines.push(line.replace("\\e", "\u{1b}").replace("\\r", "\r"));
        return;
    };
    let line = |index: usize| match kind {
        "steps" => format!("step {index}/99999 loss 2.31 lr 0.0001"),
        "start" => START[index % START.len()].to_owned(),
        "info" => format!("INFO 01-31 10:00:00 [worker.py:12] processed request {index}"),
        kind => panic!("{kind}"),
    };
    lines.extend((0..count).map(line));
}

pub(super) fn endings() -> Vec<LogEnding> {
    let mut all: Vec<LogEnding> = Vec::new();
    for line in FILES.iter().flat_map(|file| file.lines()) {
        if let Some(name) = line.strip_prefix("## ") {
            all.push(LogEnding {
                name: name.to_owned(),
                expected: None,
                lines: Vec::new(),
            });
        } else if let Some(expected) = line.strip_prefix("=> ") {
            all.last_mut().unwrap().expected = Some(expected)
                .filter(|expected| *expected != "-")
                .map(str::to_owned);
        } else {
            expand(line, &mut all.last_mut().unwrap().lines);
        }
    }
    all
}

pub(super) fn verdict<'a>(lines: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut scan = LogScan::default();
    lines.into_iter().for_each(|line| scan.take(None, line));
    scan.finish()
        .error
        .map(|error| error.line.trim().to_owned())
}

#[test]
fn error_that_ended_the_program_is_found() {
    let all = endings();
    assert!(all.len() > 90, "{}", all.len());
    let mut wrong = Vec::new();
    for ending in &all {
        let found = verdict(ending.lines.iter().map(String::as_str));
        if found != ending.expected {
            wrong.push(format!(
                "{}: {found:?}, not {:?}",
                ending.name, ending.expected
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The noise of a start, thousands of steps and handled errors do not hide the error.
#[test]
fn error_is_found_after_thousands_of_lines() {
    let mut before = Vec::new();
    expand("{start 2000}", &mut before);
    before.push("Traceback (most recent call last):".to_owned());
    before.push("  File \"/data.py\", line 3, in read".to_owned());
    before.push("OSError: shard 3 is missing".to_owned());
    expand("{steps 3000}", &mut before);
    let mut scan = LogScan::default();
    before.iter().for_each(|line| scan.take(None, line));
    let mut wrong = Vec::new();
    for ending in &endings() {
        let mut scan = scan.clone();
        ending.lines.iter().for_each(|line| scan.take(None, line));
        let found = scan.finish().error;
        let found = found.map(|error| error.line.trim().to_owned());
        if found != ending.expected {
            wrong.push(format!(
                "{}: {found:?}, not {:?}",
                ending.name, ending.expected
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
