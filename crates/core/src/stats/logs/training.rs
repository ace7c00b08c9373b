//! Reads what trainers and servers print about their work, by a table of named patterns. Lines of
//! unknown shape are ignored.

use std::sync::LazyLock;

use regex::Regex;

/// What a line tells. Names are the contract's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    SamplesPerSecond,
    /// Of one GPU where the trainer tells it per GPU.
    TokensPerSecond,
    /// Of one GPU, as all trainers tell it.
    Tflops,
    Loss,
    LearningRate,
    Accuracy,
    Iteration,
}

impl Measure {
    pub const ALL: [Self; 7] = [
        Self::SamplesPerSecond,
        Self::TokensPerSecond,
        Self::Tflops,
        Self::Loss,
        Self::LearningRate,
        Self::Accuracy,
        Self::Iteration,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::SamplesPerSecond => "samples_per_second",
            Self::TokensPerSecond => "tokens_per_second",
            Self::Tflops => "tflops",
            Self::Loss => "loss",
            Self::LearningRate => "learning_rate",
            Self::Accuracy => "accuracy",
            Self::Iteration => "iteration",
        }
    }
}

/// How one trainer's lines look.
struct LogPattern {
    /// Who prints them.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "names the pattern for its readers and its test")
    )]
    name: &'static str,
    /// A line is this trainer's when this matches.
    sign: &'static str,
    /// And this does not: figures of other data than that of the training.
    unless: Option<&'static str>,
    /// What to look for in it; each captures a number. The first of several for one measure counts.
    fields: &'static [(Measure, &'static str)],
}

macro_rules! number {
    ($before:literal) => {
        concat!($before, r#"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"#)
    };
    ($before:literal, $after:literal) => {
        concat!(
            $before,
            r#"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"#,
            $after
        )
    };
}

/// Tried in this order; the first whose sign is in a line reads it.
const PATTERNS: [LogPattern; 6] = [
    LogPattern {
        name: "Hugging Face Trainer, LLaMA-Factory",
        sign: r#"\{.*['"](?:loss|train_loss|eval_loss|eval_accuracy|train_samples_per_second)['"]\s*:"#,
        unless: None,
        fields: &[
            (
                Measure::Loss,
                number!(r#"['"](?:train_)?loss['"]\s*:\s*['"]?"#),
            ),
            (
                Measure::LearningRate,
                number!(r#"['"]learning_rate['"]\s*:\s*['"]?"#),
            ),
            (
                Measure::Accuracy,
                number!(r#"['"](?:eval_)?accuracy['"]\s*:\s*['"]?"#),
            ),
            (
                Measure::SamplesPerSecond,
                number!(r#"['"]train_samples_per_second['"]\s*:\s*['"]?"#),
            ),
            (
                Measure::TokensPerSecond,
                number!(r#"['"](?:throughput|train_tokens_per_second)['"]\s*:\s*['"]?"#),
            ),
        ],
    },
    LogPattern {
        name: "Megatron, Primus",
        sign: r"\biteration\s+\d+\s*/\s*\d+\s*\|",
        unless: None,
        fields: &[
            (Measure::Iteration, r"\biteration\s+(\d+)\s*/"),
            (Measure::Loss, number!(r"\blm loss:\s*")),
            (Measure::LearningRate, number!(r"\blearning rate:\s*")),
            // A fork writes current and average: `1.5/1.4`.
            (
                Measure::Tflops,
                number!(r"throughput per GPU \(TFLOP/s/GPU\):\s*"),
            ),
            (
                Measure::TokensPerSecond,
                number!(r"tokens per GPU \(tokens/s/GPU\):\s*"),
            ),
        ],
    },
    LogPattern {
        name: "DeepSpeed",
        sign: r"\bstep=\d+, skipped=\d+, lr=\[|\bCurrSamplesPerSec=|\bRunningAvgSamplesPerSec=",
        unless: None,
        fields: &[
            (Measure::Iteration, r"\b(?:global_)?step=(\d+)"),
            (Measure::LearningRate, number!(r"\blr=\[")),
            (Measure::SamplesPerSecond, number!(r"\bCurrSamplesPerSec=")),
            (
                Measure::SamplesPerSecond,
                number!(r"\bRunningAvgSamplesPerSec="),
            ),
        ],
    },
    LogPattern {
        name: "vLLM",
        sign: r"Avg generation throughput:",
        unless: None,
        fields: &[(
            Measure::TokensPerSecond,
            number!(r"Avg generation throughput:\s*", r"\s*tokens/s"),
        )],
    },
    LogPattern {
        name: "tqdm, Lightning",
        // Every download has a bar: it is a training's by its name, or by what stands at its end.
        sign: r"^\s*(?i:(?:epoch|train|training|steps?)\b[^%|]*)?\d{1,3}%\|[^|]*\|\s*\d+/\d+ \[|%\|[^|]*\|\s*\d+/\d+ \[.*\bloss=",
        unless: Some(r"(?i)^\s*(?:eval|valid|test|predict)"),
        fields: &[
            (Measure::Iteration, r"%\|[^|]*\|\s*(\d+)/\d+ \["),
            (
                Measure::Loss,
                number!(r"[\[,\s](?:train[_/])?loss(?:_step)?="),
            ),
            (
                Measure::LearningRate,
                number!(r"[\[,\s](?:lr|learning_rate)="),
            ),
            (
                Measure::Accuracy,
                number!(r"[\[,\s](?:train[_/])?acc(?:uracy)?(?:_step)?="),
            ),
        ],
    },
    LogPattern {
        name: "step and loss",
        sign: r"(?i)\b(?:step|iter(?:ation)?)\b[\s:=\[]*\d+.*\bloss\b\s*[:=]",
        unless: Some(r"(?i)\b(?:eval|val|valid|validation|test)[_ -]?(?:loss|acc)"),
        fields: &[
            (
                Measure::Iteration,
                r"(?i)\b(?:global[_ ]?)?(?:step|iter(?:ation)?)[\s:=\[]*(\d+)",
            ),
            (
                Measure::Loss,
                number!(r"(?i)\b(?:train[_ ])?loss\s*[:=]\s*"),
            ),
            (
                Measure::LearningRate,
                number!(r"(?i)\b(?:lr|learning[_ ]rate)\s*[:=]\s*"),
            ),
            (Measure::Accuracy, number!(r"(?i)\bacc(?:uracy)?\s*[:=]\s*")),
            (
                Measure::TokensPerSecond,
                number!(r"(?i)\btokens/s(?:ec)?\s*[:=]\s*"),
            ),
            (
                Measure::TokensPerSecond,
                number!(r"(?i)\b", r"\s*tokens/s(?:ec)?\b"),
            ),
            (
                Measure::SamplesPerSecond,
                number!(r"(?i)\bsamples/s(?:ec)?\s*[:=]\s*"),
            ),
            (
                Measure::SamplesPerSecond,
                number!(r"(?i)\b", r"\s*samples/s(?:ec)?\b"),
            ),
            (Measure::Tflops, number!(r"(?i)\btflops\s*[:=]\s*")),
        ],
    },
];

struct LogShape {
    sign: Regex,
    unless: Option<Regex>,
    fields: Vec<(Measure, Regex)>,
}

static SHAPES: LazyLock<Vec<LogShape>> = LazyLock::new(|| {
    let regex = |text: &str| Regex::new(text).expect("the patterns are tested");
    let shape = |pattern: &LogPattern| LogShape {
        sign: regex(pattern.sign),
        unless: pattern.unless.map(regex),
        fields: pattern
            .fields
            .iter()
            .map(|(measure, text)| (*measure, regex(text)))
            .collect(),
    };
    PATTERNS.iter().map(shape).collect()
});

/// Sequences that color and move on a terminal.
static ANSI: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07").expect("the pattern is tested")
});

/// Megatron tells the size of a batch and the time that it took.
static BATCH: LazyLock<(Regex, Regex)> = LazyLock::new(|| {
    let regex = |text: &str| Regex::new(text).expect("the pattern is tested");
    (
        regex(number!(r"global batch size:\s*")),
        regex(number!(r"elapsed time per iteration \(ms\):\s*")),
    )
});

/// Returns what a line tells, each measure at most once. A bar that redraws itself tells its last
/// state.
pub fn read(line: &str) -> Vec<(Measure, f64)> {
    let line = ANSI.replace_all(line, "");
    line.rsplit('\r')
        .map(read_part)
        .find(|found| !found.is_empty())
        .unwrap_or_default()
}

fn read_part(line: &str) -> Vec<(Measure, f64)> {
    let Some(shape) = SHAPES.iter().find(|shape| shape.sign.is_match(line)) else {
        return Vec::new();
    };
    if shape
        .unless
        .as_ref()
        .is_some_and(|unless| unless.is_match(line))
    {
        return Vec::new();
    }
    let number = |regex: &Regex| {
        regex
            .captures(line)?
            .get(1)?
            .as_str()
            .parse::<f64>()
            .ok()
            .filter(|value| value.is_finite())
    };
    let mut found: Vec<(Measure, f64)> = Vec::new();
    for (measure, regex) in &shape.fields {
        if let Some(value) =
            number(regex).filter(|_| found.iter().all(|(known, _)| known != measure))
        {
            found.push((*measure, value));
        }
    }
    if found
        .iter()
        .all(|(measure, _)| *measure != Measure::SamplesPerSecond)
        && let Some((batch, milliseconds)) = number(&BATCH.0)
            .zip(number(&BATCH.1))
            .filter(|(_, time)| *time > 0.0)
    {
        found.push((Measure::SamplesPerSecond, batch * 1000.0 / milliseconds));
    }
    found
}

/// Returns what a metric of a workload's own is, by the end of its name:
/// `train_samples_per_second`, `megatron:loss`. What is measured on other data than that of the
/// training is none of it.
pub fn exposed(name: &str) -> Option<Measure> {
    let name = name.to_ascii_lowercase();
    let words: Vec<&str> = name.split(['_', ':']).collect();
    if words.iter().any(|word| {
        matches!(
            *word,
            "eval"
                | "val"
                | "valid"
                | "validation"
                | "test"
                | "packet"
                | "total"
                | "bucket"
                | "count"
        )
    }) {
        return None;
    }
    let ends = |measure: &Measure| {
        let before = name.strip_suffix(measure.name());
        before.is_some_and(|before| before.is_empty() || before.ends_with(['_', ':']))
    };
    Measure::ALL.into_iter().find(ends)
}

/// Returns the newest throughput in some lines, as people say it: `245 tokens/sec`.
pub fn throughput<'a>(lines: impl DoubleEndedIterator<Item = &'a str>) -> Option<String> {
    lines.rev().find_map(|line| {
        let found = read(line);
        let of = |wanted: Measure| {
            found
                .iter()
                .find(|(measure, _)| *measure == wanted)
                .map(|(_, value)| *value)
        };
        let text = |value: f64, unit: &str| {
            if value < 10.0 {
                format!("{value:.1} {unit}")
            } else {
                format!("{value:.0} {unit}")
            }
        };
        of(Measure::TokensPerSecond)
            .map(|value| text(value, "tokens/sec"))
            .or_else(|| of(Measure::SamplesPerSecond).map(|value| text(value, "samples/sec")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trainer_has_lines_that_are_understood() {
        use Measure::{
            Accuracy, Iteration, LearningRate, Loss, SamplesPerSecond, Tflops, TokensPerSecond,
        };
        type Case = (&'static str, &'static str, &'static [(Measure, f64)]);
        let cases: [Case; 12] = [
            (
                PATTERNS[0].name,
                "{'loss': 0.8712, 'grad_norm': 1.25, 'learning_rate': 1.9e-05, 'epoch': 0.52}",
                &[(Loss, 0.8712), (LearningRate, 1.9e-5)],
            ),
            (
                PATTERNS[0].name,
                "{'loss': '0.87', 'learning_rate': '2e-05', 'epoch': '1'}",
                &[(Loss, 0.87), (LearningRate, 2e-5)],
            ),
            (
                PATTERNS[0].name,
                "[INFO|callbacks.py:143] {'loss': 1.1, 'learning_rate': 5.0e-06, 'epoch': 0.01, 'throughput': 2457.25}",
                &[
                    (Loss, 1.1),
                    (LearningRate, 5e-6),
                    (TokensPerSecond, 2457.25),
                ],
            ),
            (
                PATTERNS[0].name,
                "{'train_runtime': 12.5, 'train_samples_per_second': 80.0, 'train_steps_per_second': 2.5, 'train_loss': 0.5}",
                &[(Loss, 0.5), (SamplesPerSecond, 80.0)],
            ),
            (
                PATTERNS[0].name,
                "{'eval_loss': 0.4, 'eval_accuracy': 0.95, 'epoch': 1.0}",
                &[(Accuracy, 0.95)],
            ),
            (
                PATTERNS[1].name,
                " [2026-01-01 00:00:00] iteration       30/     120 | consumed samples:         7680 | elapsed time per iteration (ms): 512.0 | throughput per GPU (TFLOP/s/GPU): 431.5 | learning rate: 1.200000E-04 | global batch size:   256 | lm loss: 2.300000E+00 | loss scale: 1.0 | grad norm: 0.9 |",
                &[
                    (Iteration, 30.0),
                    (Loss, 2.3),
                    (LearningRate, 1.2e-4),
                    (Tflops, 431.5),
                    (SamplesPerSecond, 500.0),
                ],
            ),
            (
                PATTERNS[1].name,
                " iteration 5/ 50 | elapsed time per iteration (ms): 1000.0/1010.0 | throughput per GPU (TFLOP/s/GPU): 450.5/448.1 | tokens per GPU (tokens/s/GPU): 9000.5/8990.1 | lm loss: 1.5E+00 |",
                &[
                    (Iteration, 5.0),
                    (Loss, 1.5),
                    (Tflops, 450.5),
                    (TokensPerSecond, 9000.5),
                ],
            ),
            (
                PATTERNS[2].name,
                "[2026-01-01 00:00:00,000] [INFO] [logging.py:96:log_dist] [Rank 0] step=20, skipped=0, lr=[2e-05, 2e-05], mom=[(0.9, 0.999)]",
                &[(Iteration, 20.0), (LearningRate, 2e-5)],
            ),
            (
                PATTERNS[2].name,
                "epoch=0/micro_step=20/global_step=20, RunningAvgSamplesPerSec=118.5, CurrSamplesPerSec=120.25, MemAllocated=10.1GB",
                &[(Iteration, 20.0), (SamplesPerSecond, 120.25)],
            ),
            (
                PATTERNS[3].name,
                "INFO 01-01 00:00:00 [loggers.py:116] Engine 000: Avg prompt throughput: 10.5 tokens/s, Avg generation throughput: 245.3 tokens/s, Running: 4 reqs",
                &[(TokensPerSecond, 245.3)],
            ),
            (
                PATTERNS[4].name,
                "Epoch 0:   1%| | 1/10 [00:01<?]\r\u{1b}[32mEpoch 0:  40%|████      | 4/10 [00:01<00:02, 3.9it/s, v_num=1, train_loss=0.870]\u{1b}[0m\r",
                &[(Iteration, 4.0), (Loss, 0.87)],
            ),
            (
                PATTERNS[5].name,
                "2024-06-01 10:06:30 [INFO] Epoch 1/3, Step 100, Loss: 0.87, lr=2e-5, 245 tokens/s",
                &[
                    (Iteration, 100.0),
                    (Loss, 0.87),
                    (LearningRate, 2e-5),
                    (TokensPerSecond, 245.0),
                ],
            ),
        ];
        for (name, line, expected) in cases {
            let mut found = read(line);
            found.sort_by_key(|(measure, _)| *measure);
            let mut expected = expected.to_vec();
            expected.sort_by_key(|(measure, _)| *measure);
            assert_eq!(found, expected, "{name}: {line}");
        }
    }

    #[test]
    fn unknown_lines_are_no_guess() {
        for line in [
            "loss of connection at step 4",
            "tokens/s 100",
            "{'lossy': 1}",
            "step 3: saved",
            "",
            "{'loss': nan, 'epoch': 1}",
            "iteration 5 of 9",
            "Loading checkpoint shards:  50%|█████     | 2/4 [00:10<00:10,  5.0s/it]",
            "Map:  40%|████      | 400/1000 [00:01<00:02, 300.00 examples/s]",
            "step 100: eval loss: 0.9",
            "Validation:  50%|█████ | 1/2 [00:01<00:01, val_loss=0.5, val_acc=0.9]",
            "downloading: 40%|████ | 4.0M/10M [00:01<00:02, 3.9MB/s]",
        ] {
            assert_eq!(read(line), [], "{line}");
        }
    }

    #[test]
    fn a_metric_is_known_by_the_end_of_its_name() {
        assert_eq!(
            exposed("train_samples_per_second"),
            Some(Measure::SamplesPerSecond)
        );
        assert_eq!(exposed("megatron:loss"), Some(Measure::Loss));
        assert_eq!(exposed("TFLOPS"), Some(Measure::Tflops));
        for other in [
            "eval_loss",
            "packet_loss_total",
            "glossy",
            "loss_scale",
            "iteration_count",
        ] {
            assert_eq!(exposed(other), None, "{other}");
        }
    }

    #[test]
    fn the_newest_throughput_counts() {
        let lines = [
            "step 1 loss=2 tokens/s=100",
            "step 2 loss=2 tokens/s=245",
            "saving",
        ];
        assert_eq!(
            throughput(lines.into_iter()).as_deref(),
            Some("245 tokens/sec")
        );
        assert_eq!(
            throughput(["CurrSamplesPerSec=2.25"].into_iter()).as_deref(),
            Some("2.2 samples/sec")
        );
        assert_eq!(throughput(["nothing"].into_iter()), None);
    }
}
