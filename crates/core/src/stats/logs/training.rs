//! Parses the metrics that trainers and servers log, with a table of patterns. Unknown lines are
//! ignored.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use crate::model::Point;

/// One curve for each metric that a workload logs or exposes.
pub type TrainingCurves = BTreeMap<Measure, Vec<Point>>;

/// A metric that a line can contain. The serialized names are part of the output contract.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr, strum::VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum Measure {
    SamplesPerSecond,
    /// Per GPU if the trainer reports it per GPU.
    TokensPerSecond,
    /// Per GPU, because all trainers report it per GPU.
    Tflops,
    Loss,
    LearningRate,
    Accuracy,
    Iteration,
}

impl Measure {
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The log format of one trainer.
struct LogPattern {
    /// Names of the trainers that write this format.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "names the pattern for its readers and its test")
    )]
    name: &'static str,
    /// Pattern for lines of this format, except those that match `unless`.
    sign: &'static str,
    /// Pattern for lines with metrics of other data, such as validation.
    unless: Option<&'static str>,
    /// Patterns that each capture a number. Of several matching patterns for a measure, the first
    /// one wins.
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

/// Formats in order of precedence. The first one whose `sign` matches parses the line.
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
            // A fork of Megatron writes the current value and the average: `1.5/1.4`.
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
        // Downloads print progress bars too, so the line must start with a word for training or end
        // with a loss.
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

/// Escape sequences for colors and for moving the cursor.
static ANSI: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07").expect("the pattern is tested")
});

/// Patterns for batch size and time per iteration. Megatron does not log samples per second, so
/// they are computed from both values.
static BATCH: LazyLock<(Regex, Regex)> = LazyLock::new(|| {
    let regex = |text: &str| Regex::new(text).expect("the pattern is tested");
    (
        regex(number!(r"global batch size:\s*")),
        regex(number!(r"elapsed time per iteration \(ms\):\s*")),
    )
});

/// Parses the metrics in a line, each at most once. Only the last state of a redrawn progress bar
/// counts.
pub fn read(line: &str) -> Vec<(Measure, f64)> {
    let line = ANSI.replace_all(line, "");
    line.rsplit('\r')
        .map(read_part)
        .find(|values| !values.is_empty())
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
    let mut values: Vec<(Measure, f64)> = Vec::new();
    for (measure, regex) in &shape.fields {
        if let Some(value) =
            number(regex).filter(|_| values.iter().all(|(read, _)| read != measure))
        {
            values.push((*measure, value));
        }
    }
    if values
        .iter()
        .all(|(measure, _)| *measure != Measure::SamplesPerSecond)
        && let Some((batch, milliseconds)) = number(&BATCH.0)
            .zip(number(&BATCH.1))
            .filter(|(_, time)| *time > 0.0)
    {
        values.push((Measure::SamplesPerSecond, batch * 1000.0 / milliseconds));
    }
    values
}

/// Returns the measure for a metric that a workload exposes, by the end of the metric's name:
/// `train_samples_per_second`, `megatron:loss`. Names with words such as `eval` or `total` do not
/// describe the training itself.
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
    Measure::ALL.iter().copied().find(ends)
}

/// Formats the newest throughput in the lines, for example `245 tokens/sec`.
pub fn throughput<'a>(lines: impl DoubleEndedIterator<Item = &'a str>) -> Option<String> {
    lines.rev().find_map(|line| {
        let values = read(line);
        let value_of = |searched: Measure| {
            values
                .iter()
                .find(|(measure, _)| *measure == searched)
                .map(|(_, value)| *value)
        };
        let text = |value: f64, unit: &str| {
            if value < 10.0 {
                format!("{value:.1} {unit}")
            } else {
                format!("{value:.0} {unit}")
            }
        };
        value_of(Measure::TokensPerSecond)
            .map(|value| text(value, "tokens/sec"))
            .or_else(|| value_of(Measure::SamplesPerSecond).map(|value| text(value, "samples/sec")))
    })
}

#[cfg(test)]
mod tests;
