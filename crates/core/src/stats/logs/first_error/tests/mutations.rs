//! Changes that do not change what a log says must not change the verdict.

use super::endings::{LogEnding, endings, verdict};
use super::*;

/// Changes long numbers: addresses, process ids, dates, sizes. The status 200 has a meaning.
fn with_other_numbers(line: &str, shift: u32) -> String {
    let mut changed = String::new();
    let mut digits = String::new();
    let flush = |digits: &mut String, changed: &mut String| {
        if digits.len() < 3 || digits == "200" || digits == "404" {
            changed.push_str(digits);
        } else {
            changed.extend(digits.chars().map(|digit| {
                // A number must not start with zero in JSON.
                match digit.to_digit(10).unwrap() {
                    0 => '0',
                    digit => char::from_digit((digit - 1 + shift) % 9 + 1, 10).unwrap(),
                }
            }));
        }
        digits.clear();
    };
    for character in line.chars() {
        if character.is_ascii_digit() {
            digits.push(character);
            continue;
        }
        flush(&mut digits, &mut changed);
        changed.push(character);
    }
    flush(&mut digits, &mut changed);
    changed
}

fn with_other_names(line: &str) -> String {
    line.replace("gpu-a-01", "node17.example.com")
        .replace("10.0.0.1", "192.168.7.23")
        .replace("rank3", "rank117")
        .replace("/train.py", "/opt/app/run_model.py")
}

/// Compares a verdict with the changed line, which may have a prefix more.
fn same(expected: &str, found: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<String>();
    words(&text::visible(expected)).ends_with(&words(found))
}

fn mutate(name: &str, change: impl Fn(usize, &str) -> Vec<String>) {
    let mut wrong = Vec::new();
    for LogEnding {
        name: case,
        expected,
        lines,
    } in endings()
    {
        let changed: Vec<String> = lines
            .iter()
            .enumerate()
            .flat_map(|(index, line)| change(index, line))
            .collect();
        let found = verdict(changed.iter().map(String::as_str));
        let expected = expected.map(|line| change(0, &line)[0].clone());
        // A prefix of the whole line is a part of the verdict.
        let is_right = match (&found, &expected) {
            (Some(found), Some(expected)) => same(expected, found),
            (found, expected) => found == expected,
        };
        if !is_right {
            wrong.push(format!("{case}: {found:?}, not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{name}\n{}", wrong.join("\n"));
}

#[test]
fn numbers_do_not_change_the_verdict() {
    for shift in [1, 4] {
        mutate("numbers", |_, line| vec![with_other_numbers(line, shift)]);
    }
}

#[test]
fn names_do_not_change_the_verdict() {
    mutate("names", |_, line| vec![with_other_names(line)]);
}

#[test]
fn prefixes_do_not_change_the_verdict() {
    for prefix in [
        "0: ",
        "[3]: ",
        "[1,0]<stderr>:",
        "(TrainWorker pid=4711, ip=10.0.0.7) ",
        "(EngineCore_DP0 pid=12) ",
        "2026-01-31T10:00:00.123456789Z ",
        "[default3]:",
        "worker-0: ",
        "trainer-1  | ",
    ] {
        mutate(prefix, |_, line| vec![format!("{prefix}{line}")]);
    }
}

#[test]
fn colors_do_not_change_the_verdict() {
    mutate("colors", |_, line| {
        vec![format!("\u{1b}[31m{line}\u{1b}[0m")]
    });
    mutate("line ends", |_, line| vec![format!("{line}\r")]);
    mutate("bars", |_, line| {
        vec![format!("  3%|▎| 30/1000 [00:10<05:23]\r{line}")]
    });
}

#[test]
fn docker_does_not_change_the_verdict() {
    let wrong: Vec<String> = endings()
        .into_iter()
        .filter_map(|ending| {
            let wrap = |line: &String| {
                serde_json::json!({"log": format!("{line}\n"), "stream": "stderr"}).to_string()
            };
            let lines: Vec<String> = ending.lines.iter().map(wrap).collect();
            let found = verdict(lines.iter().map(String::as_str));
            (found != ending.expected).then(|| format!("{}: {found:?}", ending.name))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn lines_of_loggers_do_not_change_the_verdict() {
    for every in [2, 3, 5] {
        for logged in [
            "INFO 01-31 10:00:00 [heartbeat.py:12] alive",
            "2026-01-31 10:00:00,123 - monitor - WARNING - GPU 3 at 81 C",
            "gpu-a-01:211:302 [3] NCCL INFO Channel 03/0 : 3[3] -> 4[4] via P2P/IPC",
        ] {
            mutate(logged, |index, line| {
                let mut lines = vec![line.to_owned()];
                if index % every == 1 {
                    lines.push(logged.to_owned());
                }
                lines
            });
        }
    }
}

/// The last lines of 100,000 take as long as the first ones. The fastest part of each half counts,
/// because other programs run at the same time.
#[test]
fn time_is_linear() {
    let lines = [
        "Traceback (most recent call last):",
        "  File \"/train.py\", line 3, in step",
        "ValueError: x",
        "ERROR 01-31 10:00:00 [core.py:12] failed",
        "{\"level\":\"error\",\"msg\":\"a\"}",
        "step 5 loss 2.5",
        "just a line of a program with some words",
    ];
    let mut scan = LogScan::default();
    let mut part = || {
        let start = std::time::Instant::now();
        (0..5_000).for_each(|index| scan.take(None, lines[index % lines.len()]));
        start.elapsed()
    };
    let times: Vec<std::time::Duration> = (0..20).map(|_| part()).collect();
    let (first, last) = times.split_at(times.len() / 2);
    let (first, last) = (first.iter().min().unwrap(), last.iter().min().unwrap());
    assert!(*last < *first * 5, "{first:?} {last:?}");
}
