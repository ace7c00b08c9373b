//! Parses the progress of a training from log lines of common trainers. Unknown lines are ignored.

use std::sync::LazyLock;

use jiff::Timestamp;
use regex::Regex;

use super::bars::{BAR, bar_counts, counts};
use super::steps::is_of_other_phase;
use crate::model::Percent;

/// Format of one trainer's progress lines. The patterns are in order of precedence: steps before
/// epochs, because they are finer.
struct ProgressPattern {
    /// Name of the trainer.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "names the pattern for its readers and its test")
    )]
    name: &'static str,
    /// Captures (done, total), or only a percentage.
    shape: &'static str,
    /// True if the first number is the epoch in progress, so that one epoch less is complete.
    started: bool,
}

const PATTERNS: [ProgressPattern; 4] = [
    ProgressPattern {
        name: "tqdm, Hugging Face Trainer, Lightning",
        shape: BAR,
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

/// Returns the newest progress from 0 to 100, or `None` if no line contains any. Steps take
/// precedence over epochs, even over those in later lines, and longer bars over shorter ones, such
/// as those of evaluations.
pub fn percent<'a>(lines: impl DoubleEndedIterator<Item = &'a str> + Clone) -> Option<Percent> {
    let newest = |(pattern, shape): (&ProgressPattern, &Regex)| {
        let all = lines.clone().filter_map(|line| {
            let steps = bar_counts(line).map_or(0.0, |(_, total)| total);
            Some((steps, read(pattern, shape, line)?))
        });
        // Of equal totals, the last line wins.
        let longest = all.max_by(|(a, _), (b, _)| a.total_cmp(b));
        longest.map(|(_, percent)| percent)
    };
    PATTERNS.iter().zip(SHAPES.iter()).find_map(newest)
}

/// A progress line with its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProgressPoint {
    pub at: Timestamp,
    /// Completed share of the training, from 0 to 1.
    pub done: f64,
    /// Smallest difference between two values in lines of this format.
    pub resolution: f64,
}

/// A bar for a single epoch of several, as in Lightning.
const EPOCH_BAR: &str = r"(?i)\bepoch\b[^|%]*\d{1,3}%\|";

static EPOCH_BARS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(EPOCH_BAR).expect("the pattern is tested"));

/// Returns the progress of the whole training from timestamped lines, in the most precise format
/// that occurs. Ignores bars with a smaller total than the largest one, such as those of
/// evaluations, and bars of a single epoch.
pub fn history<'a>(
    lines: impl Iterator<Item = (Timestamp, &'a str)> + Clone,
) -> Vec<ProgressPoint> {
    let read_all = |(pattern, shape): (&ProgressPattern, &Regex)| {
        let points: Vec<ProgressPoint> = lines
            .clone()
            .filter_map(|(at, line)| point(pattern, shape, at, line))
            .collect();
        (!points.is_empty()).then_some(points)
    };
    let mut points = PATTERNS
        .iter()
        .zip(SHAPES.iter())
        .find_map(read_all)
        .unwrap_or_default();
    let finest = points
        .iter()
        .map(|point| point.resolution)
        .fold(1.0, f64::min);
    points.retain(|point| point.resolution <= finest);
    points
}

fn point(
    pattern: &ProgressPattern,
    shape: &Regex,
    at: Timestamp,
    line: &str,
) -> Option<ProgressPoint> {
    if EPOCH_BARS.is_match(line) {
        return None;
    }
    let Percent(percent) = read(pattern, shape, line)?;
    // Only tqdm's lines have a percentage.
    let (done, total) = match (bar_counts(line), counts(shape, line)) {
        (Some((done, total)), None) => (done / total, total),
        (_, Some((_, total))) => (percent / 100.0, total),
        (None, None) => (percent / 100.0, 100.0),
    };
    Some(ProgressPoint {
        at,
        done,
        resolution: 1.0 / total,
    })
}

fn read(pattern: &ProgressPattern, shape: &Regex, line: &str) -> Option<Percent> {
    // Lines of evaluations and data sets have steps too.
    if pattern.shape != BAR && is_of_other_phase(line) {
        return None;
    }
    // A progress bar redraws itself with carriage returns, so only its last state counts.
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
    use super::super::bars::is_training_bar;
    use super::*;

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
    fn the_history_follows_the_whole_training() {
        let time = |second: i64| Timestamp::from_second(second).unwrap();
        let values = |lines: &[&str]| -> Vec<(i64, f64)> {
            let lines = lines.iter().enumerate();
            let timed = lines.map(|(index, line)| (time(i64::try_from(index).unwrap()), *line));
            history(timed)
                .iter()
                .map(|point| (point.at.as_second(), point.done))
                .collect()
        };
        // Counts are finer than percentages, and the bar of the evaluation is ignored.
        let bars = [
            "  1%|          | 101/10000 [01:00<9:00, 1.2it/s]",
            "loss 0.5",
            "  1%|          | 102/10000 [01:01<9:00, 1.2it/s]",
            " 50%|█████     | 25/50 [00:01<00:01, 20it/s]",
        ];
        assert_eq!(values(&bars), [(0, 0.0101), (2, 0.0102)]);
        let steps = ["step 1/4", "Epoch 1/2", "step 2/4"];
        assert_eq!(values(&steps), [(0, 0.25), (2, 0.5)]);
        // The bar of one epoch does not show the progress of the whole training.
        let epoch = "Epoch 0:  40%|████      | 4/10 [00:01<00:02, v_num=1]";
        assert_eq!(values(&[epoch]), []);
        assert_eq!(values(&[" 40%|████ | ?"]), [(0, 0.4)]);
    }

    #[test]
    fn bars_of_downloads_data_sets_and_checkpoints_are_not_progress() {
        for line in [
            "Map (num_proc=8):  80%|████████  | 8000/10000 [00:10<00:02, 800.00 examples/s]",
            "Loading checkpoint shards:  50%|█████     | 2/4 [00:10<00:10,  5.00s/it]",
            "model-00001-of-00030.safetensors:  45%|████▌     | 2.21G/4.91G [00:30<00:36, 73MB/s]",
            "Tokenizing train dataset (num_proc=4):  10%|█ | 100/1000 [00:01<00:09]",
            "Validation DataLoader 0:  50%|█████     | 5/10 [00:00<00:00]",
            "Sanity Checking DataLoader 0:  50%|█████     | 1/2 [00:00<00:00]",
            "Capturing CUDA graph shapes:  20%|██        | 7/35 [00:05<00:20]",
            "(EngineCore pid=7) Loading safetensors checkpoint shards:  25% Completed | 1/4",
            "Training data preparation:  10%|█ | 1/10",
            "eval step 5/100",
            "Validation: iteration 1/20 |",
            "Tokenizing batch, step 3/5",
            "[Map]:  80%|████████  | 8000/10000 [00:10<00:02]",
            "(val)  50%|█████     | 5/10 [00:00<00:00]",
            "[rank0]: (eval) 50%|█████     | 5/10 [00:00<00:00]",
            "[Filter (num_proc=8)]: 50%|█████     | 5/10 [00:00<00:00]",
            "Filter:  50%|█████     | 5/10 [00:00<00:00]",
            "[validation 3] 50%|█████     | 5/10 [00:00<00:00]",
            "Fetching 5 files:  20%|██        | 1/5 [00:00<00:00]",
        ] {
            assert_eq!(percent([line].into_iter()), None, "{line}");
            assert!(!is_training_bar(line), "{line}");
        }
    }

    #[test]
    fn bars_of_trainings_can_have_titles_and_prefixes() {
        for line in [
            "Training Progress:  25%|██▌  | 25/100 [00:10<00:30]",
            "Steps:  25%|██▌       | 25/100 [00:10<00:30, lr=0.0001, step_loss=0.1]",
            "1|25|Loss: 1.2345:  25%|██▌       | 25/100 [00:10<00:30]",
            "[rank0]:  25%|██▌       | 25/100 [00:10<00:30]",
            "(RayTrainWorker pid=1234, ip=10.0.0.1)  25%|██▌       | 25/100 [00:10<00:30]",
            "worker-1:  25%|██▌       | 25/100 [00:10<00:30]",
            "[default0]:  25%|██▌       | 25/100 [00:10<00:30]",
            "[rank 0, local 0]:  25%|██▌       | 25/100 [00:10<00:30]",
            "[1,0]<stderr>:  25%|██▌       | 25/100 [00:10<00:30]",
            "[2026-01-01 00:00:00,123][trainer.main][INFO] -  25%|██▌   | 25/100 [00:10<00:30]",
            "(train)  25%|██▌       | 25/100 [00:10<00:30]",
            "2026-01-01T00:00:00.123Z  25%|██▌       | 25/100 [00:10<00:30]",
            "Epoch 1/1:  25%|██▌       | 25/100 [00:10<00:30]",
            "Loading weights: 100%|███| 4/4\r 25%|██▌       | 25/100 [00:10<00:30]",
        ] {
            assert_eq!(percent([line].into_iter()), Some(Percent(25.0)), "{line}");
            assert!(line.rsplit('\r').any(is_training_bar), "{line}");
        }
        // An evaluation of 10 batches runs during a training of 100 steps.
        let lines = [" 25%|██▌ | 25/100 [00:10]", " 90%|█████████ | 9/10 [00:01]"];
        assert_eq!(percent(lines.into_iter()), Some(Percent(25.0)));
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
