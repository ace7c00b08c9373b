//! Recognizes lines that show that a program works: steps of a training, answered requests,
//! restarts.

use std::sync::LazyLock;

use regex::bytes::{Regex, RegexSet, RegexSetBuilder};

use super::text::{LogSeverity, LogText};

/// What a line without an error says about the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineActivity {
    /// A step of a training, or an answered request.
    Step,
    /// The launcher starts the program again.
    Restart,
    /// A fallback or a retry: the error before it was handled.
    Handled,
    /// A part of a longer message, such as a stack trace, or output of a process that ends.
    Neutral,
    Ordinary,
}

const STEP: &[&str] = &[
    // Trainers of Hugging Face, Megatron, NeMo, DeepSpeed, torchtitan, verl, fairseq, mmengine.
    r"(?i)\b(?:global[_ ]?)?(?:step|iter|iteration|epoch|batch|episode)s?\b[\x22']?[\s:=\[(#/]*[0-9]+",
    r"(?i)\b(?:step|iter|epoch)_[0-9]+\b",
    r"(?i)\bepoch\((?:train|val)\)",
    r"(?i)\bloss[\x22']?\s*[:=]\s*-?[0-9]",
    r"(?i)[0-9]\s*(?:it|tok|tokens?|samples?|steps?|examples?|images?)/s(?:ec)?\b",
    // Keras.
    r"^\s*[0-9]+/[0-9]+ (?:\[[=>.]+\]|\xe2\x94\x81)",
    // uvicorn and other servers.
    r#"HTTP/[0-9](?:\.[0-9])?" 2[0-9]{2}\b"#,
    // vLLM (`vllm/v1/metrics/loggers.py`), SGLang (`scheduler_metrics_mixin.py`).
    r"Avg prompt throughput: |^(?:Decode|Prefill) batch[,. ]",
];

/// Lines with a step that describe its end.
const NO_STEP: &str = r"(?i)fail|error|abort|exception|crash|interrupt|terminat|kill|stopp|exiting|resum|\bsav(?:ed|ing)\b|checkpoint|\b(?:last|best|final|summary)\b|\x22(?:GET|HEAD) /(?:metrics|healthz?|readyz?|livez?|ping|v2/health/\S+)[ ?]|throughput: 0\.0 tokens/s, Avg generation throughput: 0\.0 ";

const RESTART: &[&str] = &[
    // `torch/distributed/elastic/agent/server/api.py`
    r"attempts left; +will restart worker group",
    r"\brestart_count=[1-9]",
    // `ray/train/_internal/backend_executor.py`, Horovod Elastic.
    r"(?i)\brestarting (?:the )?(?:training|worker group|all workers|job|attempt)\b",
];

const HANDLED: &str = r"(?i)\bfall(?:s|ing)? ?back|\bfallback\b|\bwill be (?:ignored|disabled|skipped)|\b(?:ignoring|skipping|skipped)\b|\bretry(?:ing)? in\b|\bretrying\b|\bwill retry\b|\bcontinu(?:e|es|ing) (?:without|anyway|with)\b|\bsafely (?:be )?ignore|\bnon-?fatal\b|\bnot fatal\b|\bharmless\b|\binstead\b\.?$|\brecovered from\b";

const NEUTRAL: &[&str] = &[
    r"^\s|^$",
    r"^[=\-*#~_]{4,}",
    // `set -x`, and what wrappers print about an exit code.
    r"^\++ |^exit(?:ed)? (?:status|code|with)",
    r"^wandb: |^mlflow: ",
    // Stack traces of C++ (c10, glog, NCCL), Go and gdb.
    r"^frame #[0-9]+|^#[0-9]+ |^@ +0x|\[0x[0-9a-f]+\]$|^Exception raised from |^goroutine [0-9]+|^Stack trace|^Backtrace",
    r"^(?:Thread|Current thread) 0x|^Extension modules: |^\*\*\* ",
    // Explanations below errors of CUDA (`c10/cuda/CUDAException.cpp`) and Hydra.
    r"^CUDA kernel errors might be |^For debugging consider passing |^Compile with `TORCH_USE_|^Search for `cuda|^Set the environment variable HYDRA_FULL_ERROR|^Device-side assert",
    r"^(?:During handling of the above|The above exception was the direct|The stack trace (?:above|below) )",
    r"resource_tracker: There appear to be|^warnings\.warn\(|destroy_process_group\(\) was not called",
    r"^Node\.js v[0-9]|^Execution halted|^note: run with `RUST_BACKTRACE",
    r"NCCL INFO ",
];

fn set(patterns: &[&str]) -> RegexSet {
    let mut builder = RegexSetBuilder::new(patterns);
    builder
        .unicode(false)
        .build()
        .expect("the words are tested")
}

fn regex(pattern: &str) -> Regex {
    let mut builder = regex::bytes::RegexBuilder::new(pattern);
    builder
        .unicode(false)
        .build()
        .expect("the words are tested")
}

static STEPS: LazyLock<RegexSet> = LazyLock::new(|| set(STEP));
static NOT_STEPS: LazyLock<Regex> = LazyLock::new(|| regex(NO_STEP));
static RESTARTS: LazyLock<RegexSet> = LazyLock::new(|| set(RESTART));
static HANDLES: LazyLock<Regex> = LazyLock::new(|| regex(HANDLED));
static NEUTRALS: LazyLock<RegexSet> = LazyLock::new(|| set(NEUTRAL));
/// A bar of tqdm with its position and size.
static BAR: LazyLock<Regex> =
    LazyLock::new(|| regex(r"[0-9]{1,3}%\|[^|]*\|\s*([0-9.]+)[A-Za-z]?/([0-9.]+[A-Za-z]?) \["));

/// Returns whether a line reports a fallback, a retry or something optional.
pub(super) fn is_handled(text: &str) -> bool {
    HANDLES.is_match(text.as_bytes())
}

/// Number of bars to remember: nested bars, one per process.
const MAX_BARS: usize = 16;

/// The progress bars of a log. A bar counts as work only if it advances, because tqdm draws the
/// last state again when an exception leaves its loop.
#[derive(Clone, Debug, Default)]
pub(super) struct ProgressBars {
    /// Size and position of each bar, the newest last.
    bars: Vec<(String, f64)>,
}

impl ProgressBars {
    /// Returns whether the line is a bar, and whether it advanced.
    fn take(&mut self, text: &str) -> Option<bool> {
        if !text.contains("%|") {
            return None;
        }
        let found = BAR.captures(text.as_bytes())?;
        let number = |index: usize| std::str::from_utf8(&found[index]).ok();
        let (size, position) = (number(2)?, number(1)?.parse::<f64>().ok()?);
        let known = self.bars.iter().position(|(known, _)| known == size);
        let Some(known) = known else {
            if self.bars.len() == MAX_BARS {
                self.bars.remove(0);
            }
            self.bars.push((size.to_owned(), position));
            return Some(false);
        };
        let advanced = position > self.bars[known].1;
        self.bars[known].1 = position;
        Some(advanced)
    }

    /// Classifies a line without an error.
    pub(super) fn activity(&mut self, text: &LogText<'_>) -> LineActivity {
        let body = text.body.as_bytes();
        if let Some(advanced) = self.take(text.body) {
            return if advanced {
                LineActivity::Step
            } else {
                LineActivity::Neutral
            };
        }
        if RESTARTS.is_match(body) {
            return LineActivity::Restart;
        }
        if body.starts_with(b"wandb: ") {
            return LineActivity::Neutral;
        }
        if STEPS.is_match(body) && !NOT_STEPS.is_match(body) {
            return LineActivity::Step;
        }
        let is_error = text.severity >= Some(LogSeverity::Error);
        if !is_error && is_handled(text.body) {
            return LineActivity::Handled;
        }
        if NEUTRALS.is_match(body) {
            return LineActivity::Neutral;
        }
        LineActivity::Ordinary
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redrawn_bars_are_not_work() {
        let mut bars = ProgressBars::default();
        let activity = |bars: &mut ProgressBars, line: &str| bars.activity(&LogText::parse(line));
        let bar = |position: u32| format!(" 3%|▎  | {position}/1000 [00:10<05:23,  3.00it/s]");
        assert_eq!(activity(&mut bars, &bar(30)), LineActivity::Neutral);
        assert_eq!(activity(&mut bars, &bar(31)), LineActivity::Step);
        assert_eq!(activity(&mut bars, &bar(31)), LineActivity::Neutral);
        assert_eq!(
            activity(&mut bars, "Epoch:  1%| | 1/100 [00:10<05:23]"),
            LineActivity::Neutral
        );
    }

    #[test]
    fn steps_differ_from_other_lines() {
        for (line, expected) in [
            ("step 100/2000 loss 2.31", LineActivity::Step),
            (
                "[2026-01-01 10:00:00] iteration   10/  500 | lm loss: 2.3E+00 |",
                LineActivity::Step,
            ),
            ("{'loss': 0.69, 'learning_rate': 5e-05}", LineActivity::Step),
            ("Epoch 3: validation 0.02", LineActivity::Step),
            (
                r#"INFO:     10.0.0.1:4000 - "POST /v1/completions HTTP/1.1" 200 OK"#,
                LineActivity::Step,
            ),
            ("saving checkpoint at step 100", LineActivity::Ordinary),
            ("training stopped at step 100", LineActivity::Ordinary),
            ("loading shard 812", LineActivity::Ordinary),
            ("frame #3: c10::Error::Error()", LineActivity::Neutral),
            (
                "[default] Worker group FAILED. 3/3 attempts left; will restart worker group",
                LineActivity::Restart,
            ),
            ("falling back to sdpa", LineActivity::Handled),
        ] {
            let found = ProgressBars::default().activity(&LogText::parse(line));
            assert_eq!(found, expected, "{line}");
        }
    }
}
