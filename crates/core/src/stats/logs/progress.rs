//! Parses the progress of a training from the log lines that common trainers write. Unknown lines
//! are ignored.

use std::sync::LazyLock;

use jiff::Timestamp;
use regex::Regex;

use crate::model::Percent;

/// The form in which one trainer writes progress lines. The patterns are in order of precedence,
/// because steps are finer than epochs.
struct ProgressPattern {
    /// The trainer.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "names the pattern for its readers and its test")
    )]
    name: &'static str,
    /// Captures (done, total), or only a percentage.
    shape: &'static str,
    /// True if the first number is the current epoch. One epoch less is then complete.
    started: bool,
}

const PATTERNS: [ProgressPattern; 4] = [
    ProgressPattern {
        name: "tqdm, Hugging Face Trainer, Lightning",
        shape: r"(?:^|[\s:])(\d{1,3})%\|[^|]*\|\s*(?:\d|\?)",
        started: false,
    },
    ProgressPattern {
        name: "Megatron, Primus",
        shape: r"(?i)\biteration\s+(\d+)\s*/\s*(\d+)\s*\|",
        started: false,
    },
    ProgressPattern {
        name: "step i/N",
        shape: r"(?i)\b(?:global[_ ]?)?step[\s:=\[]*(\d+)\s*/\s*(\d+)",
        started: false,
    },
    ProgressPattern {
        name: "epoch i/N",
        shape: r"(?i)\bepoch[\s:=\[]*(\d+)\s*/\s*(\d+)",
        started: true,
    },
];

static SHAPES: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    PATTERNS
        .iter()
        .map(|pattern| Regex::new(pattern.shape).expect("the patterns are tested"))
        .collect()
});

/// Finds the newest progress in the lines, from 0 to 100. `None` if no line contains any. Steps
/// take precedence over epochs, even if the epochs are in a later line.
pub fn percent<'a>(lines: impl DoubleEndedIterator<Item = &'a str> + Clone) -> Option<Percent> {
    PATTERNS
        .iter()
        .zip(SHAPES.iter())
        .find_map(|(pattern, shape)| {
            lines
                .clone()
                .rev()
                .find_map(|line| read(pattern, shape, line))
        })
}

/// The time of a program's last step, and the interval between its steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Cadence {
    pub last: Timestamp,
    /// The median interval in seconds.
    pub seconds: f64,
}

/// A pattern for lines that mention a step, whatever else they contain.
const STEP: &str = r"(?i)\b(?:step|iter|iteration|batch)\b[\s:=\[#]*\d+|\d{1,3}%\|";

static STEPS: LazyLock<Regex> = LazyLock::new(|| Regex::new(STEP).expect("the pattern is tested"));

/// Computes the time between lines that mention a step. `None` if there are fewer than three.
pub fn cadence<'a>(lines: impl Iterator<Item = (Timestamp, &'a str)>) -> Option<Cadence> {
    let times: Vec<Timestamp> = lines
        .filter(|(_, line)| STEPS.is_match(line))
        .map(|(time, _)| time)
        .collect();
    let mut between: Vec<f64> = times
        .windows(2)
        .map(|pair| pair[1].duration_since(pair[0]).as_secs_f64())
        .collect();
    if between.len() < 2 {
        return None;
    }
    between.sort_by(f64::total_cmp);
    Some(Cadence {
        last: *times.last()?,
        seconds: between[between.len() / 2].max(0.0),
    })
}

fn read(pattern: &ProgressPattern, shape: &Regex, line: &str) -> Option<Percent> {
    // A progress bar redraws itself with carriage returns, so only its last state matters.
    let captures = line.rsplit('\r').find_map(|part| shape.captures(part))?;
    let number = |index: usize| {
        captures
            .get(index)
            .and_then(|text| text.as_str().parse::<u64>().ok())
    };
    let Some(total) = number(2) else {
        return number(1)
            .filter(|percent| *percent <= 100)
            .map(|percent| Percent(percent as f64));
    };
    let done = number(1)?;
    let done = if pattern.started {
        done.checked_sub(1)?
    } else {
        done
    };
    Percent::from_ratio(done as f64, total as f64).filter(|_| done <= total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cadence_is_measured_from_steps() {
        let time = |second: i64| Timestamp::from_second(second).unwrap();
        let lines = [
            (0, "loading"),
            (10, "step 1/100 loss 2"),
            (19, "iteration 2"),
            (28, "step: 3"),
            (90, "evaluating"),
            (91, "Batch 4"),
        ];
        let cadence_of = |count: usize| {
            cadence(
                lines[..count]
                    .iter()
                    .map(|(second, line)| (time(*second), *line)),
            )
        };
        // The intervals are 9, 9 and 63 seconds.
        assert_eq!(
            cadence_of(6),
            Some(Cadence {
                last: time(91),
                seconds: 9.0
            })
        );
        assert_eq!(cadence_of(3), None);
    }

    #[test]
    fn progress_lines_of_all_trainers_parse() {
        for (name, line, expected) in [
            (
                PATTERNS[0].name,
                " 65%|██████▌   | 650/1000 [10:00<05:23,  1.08it/s, loss=0.87]",
                65.0,
            ),
            (
                PATTERNS[0].name,
                "Epoch 0:  40%|████      | 4/10 [00:01<00:02, v_num=1]",
                40.0,
            ),
            (
                PATTERNS[0].name,
                "  1%| | 1/100\r 50%|█████ | 50/100\r",
                50.0,
            ),
            (
                PATTERNS[1].name,
                " [2026-01-01 00:00:00] iteration       30/     120 | consumed samples:  7680 | lm loss: 2.3E+00 |",
                25.0,
            ),
            (PATTERNS[2].name, "[INFO] step 100/400 loss=1.2", 25.0),
            (
                PATTERNS[3].name,
                "2024-06-01 10:06:30 [INFO] Epoch 2/4, Step 100, Loss: 0.87",
                25.0,
            ),
            (PATTERNS[3].name, "Epoch [3/3]", 200.0 / 3.0),
        ] {
            let progress = percent([line].into_iter()).unwrap_or_else(|| panic!("{name}: {line}"));
            let Percent(progress) = progress;
            assert!((progress - expected).abs() < 1e-9, "{name}: {progress}");
        }
    }

    #[test]
    fn unknown_lines_are_ignored() {
        for line in [
            "loss 0.5 at 65%",
            "{'loss': 0.5, 'epoch': 1.2}",
            "step 5/0",
            "Epoch 0/3",
            "step 9/3",
            "150%|x| 1",
            "",
        ] {
            assert_eq!(percent([line].into_iter()), None, "{line}");
        }
    }

    #[test]
    fn newest_line_wins_and_steps_precede_epochs() {
        assert_eq!(
            percent(["step 1/10", "step 2/10", "saving"].into_iter()),
            Some(Percent(20.0))
        );
        assert_eq!(
            percent(["step 7/10", "Epoch 1/3"].into_iter()),
            Some(Percent(70.0))
        );
    }
}
