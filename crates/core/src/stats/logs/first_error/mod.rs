//! Finds the error in a log that ended the program. Ignores errors before more steps, start-up
//! messages, and headers above the error itself. Returns `None` if no line qualifies.
//!
//! Of several ranks' errors, the earliest one counts, because the others often follow from it.

use std::collections::VecDeque;
use std::sync::LazyLock;

use jiff::Timestamp;
use regex::Regex;

use candidates::Candidates;
pub use error::{LogError, Strength};
use json::JsonLogLine;
use text::{LogSeverity, LogText};
use traceback::{TracebackLine, Tracebacks};
use work::{LineActivity, ProgressBars};

mod candidates;
mod code;
mod error;
mod json;
mod patterns;
mod summary;
mod text;
mod traceback;
mod work;

/// Number of lines to keep before the error.
pub const BEFORE: usize = 30;

/// Number of lines after an error in which a message such as "falling back" refers to it.
const HANDLED_WITHIN: u32 = 4;

/// Maximum time by which a lost connection can precede its cause, in seconds. Clocks of nodes
/// differ, and logs are buffered.
const CLOCK_SKEW: i64 = 60;

/// Pattern for messages of Hugging Face, Lightning, Megatron, DeepSpeed and NeMo about a saved
/// checkpoint.
const SAVED: &str = r"(?i)\bsav(?:ed|ing)\b.{0,60}\bcheckpoint|\bcheckpoint\b.{0,60}\b(?:saved|written)\b|\bwrote checkpoint\b";

/// Messages of NCCL and RCCL without a cause.
const UNHANDLED: [&str; 3] = [
    "unhandled system error",
    "unhandled cuda error",
    "unhandled hip error",
];

static CHECKPOINT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(SAVED).expect("the words are tested"));
/// An exception in a line without a traceback, after other text or at the start.
static EXCEPTION: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?:^|[\s\]|:(])(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt)(?:\(\w+\))?(?::\s|:?$)";
    Regex::new(pattern).expect("the pattern is tested")
});

/// Scans a log line by line.
#[derive(Clone, Debug, Default)]
pub struct LogScan {
    before: VecDeque<String>,
    tracebacks: Tracebacks,
    bars: ProgressBars,
    candidates: Candidates,
    root_cause: summary::RootCause,
    checkpoint: Option<Timestamp>,
}

/// The error that ended the program and the last checkpoint in one log.
#[derive(Debug, Default)]
pub struct LogFindings {
    pub error: Option<LogError>,
    /// Time of the last line about a saved checkpoint.
    pub checkpoint: Option<Timestamp>,
}

impl LogScan {
    /// Scans the next line.
    pub fn take(&mut self, at: Option<Timestamp>, text: &str) {
        if CHECKPOINT.is_match(text) {
            self.checkpoint = at.or(self.checkpoint);
        }
        let line = text::visible(text);
        let text = LogText::parse(&line);
        let Some(JsonLogLine::Raw(raw)) = json::parse(text.body) else {
            return self.visible(at, &text, &line);
        };
        let line = text::visible(&raw);
        self.visible(at, &LogText::parse(&line), &line);
    }

    fn visible(&mut self, at: Option<Timestamp>, text: &LogText<'_>, shown: &str) {
        let Some(JsonLogLine::Structured { severity, lines }) = json::parse(text.body) else {
            return self.line(at, text, shown);
        };
        for line in &lines {
            let mut parsed = LogText::parse(line);
            parsed.severity = severity.or(parsed.severity);
            parsed.source.insert_str(0, &text.source);
            self.line(at, &parsed, line);
        }
    }

    /// Ends the scan. A traceback that the end of the log cuts off states no exception, but it
    /// proves that the program survived the older errors.
    pub fn finish(mut self) -> LogFindings {
        if self.tracebacks.is_truncated() {
            self.candidates.drop_survived(Strength::Cause);
        }
        LogFindings {
            error: self.candidates.verdict(),
            checkpoint: self.checkpoint,
        }
    }

    fn line(&mut self, at: Option<Timestamp>, text: &LogText<'_>, shown: &str) {
        if !text.body.trim().is_empty() {
            self.judge(at, text, shown);
        }
        self.before.push_back(shown.trim_end().to_owned());
        if self.before.len() > BEFORE {
            self.before.pop_front();
        }
    }

    fn judge(&mut self, at: Option<Timestamp>, text: &LogText<'_>, shown: &str) {
        match self.tracebacks.take(text) {
            TracebackLine::Inside => return self.candidates.line(at, shown.len()),
            TracebackLine::Exception {
                is_uncaught,
                is_exit,
                chain,
            } => return self.exception(at, text, shown, (is_uncaught, is_exit, chain)),
            TracebackLine::Outside => {}
        }
        if let Some((strength, line)) = self.root_cause.take(text.body) {
            self.candidates.drop_launcher_lines();
            return self.add(strength, false, at, &line);
        }
        if text.body.starts_with("Caused by: ") && self.candidates.replace_logged(shown) {
            return;
        }
        if let Some(strength) = strength(text, shown) {
            if is_unhandled(text) {
                self.candidates.promote_warning(false, strength);
            }
            return self.add(strength, false, at, shown);
        }
        self.candidates.line(at, shown.len());
        match self.bars.activity(text) {
            LineActivity::Step => self.candidates.step(at, shown.len()),
            LineActivity::Restart => self.candidates.restart(),
            LineActivity::Handled => self.candidates.handled(HANDLED_WITHIN),
            LineActivity::Ordinary => self.candidates.ordinary(text.severity.is_some()),
            LineActivity::Neutral => {}
        }
    }

    /// Adds the exception of a traceback. Of a chain, the root counts, with the strength of the
    /// strongest exception.
    fn exception(
        &mut self,
        at: Option<Timestamp>,
        text: &LogText<'_>,
        shown: &str,
        (is_uncaught, is_exit, chain): (bool, bool, u32),
    ) {
        let own = if is_uncaught {
            Strength::Cause
        } else {
            Strength::Logged
        };
        let strength = patterns::strength(text.body.trim_start())
            .filter(|strength| *strength > Strength::Logged)
            .unwrap_or(own);
        let error = LogError {
            at,
            line: shown.trim().to_owned(),
            before: self.before.iter().cloned().collect(),
            strength,
        };
        if is_unhandled(text) {
            self.candidates.promote_warning(is_exit, strength);
        }
        let Some(root) = self.tracebacks.root(&text.source) else {
            return;
        };
        // A wrapper at the start of a chain is not its root.
        let known = root
            .clone()
            .filter(|(known, _)| *known != Strength::Summary);
        let Some((known, first)) = known.filter(|_| chain > 0) else {
            *root = Some((strength, error.clone()));
            return self.candidates.add(strength, is_exit, || error);
        };
        if strength < known {
            *root = Some((strength, first.clone()));
            self.candidates.add(strength, is_exit, || first);
        }
    }

    fn add(&mut self, strength: Strength, is_exit: bool, at: Option<Timestamp>, line: &str) {
        let before = &self.before;
        self.candidates.add(strength, is_exit, || LogError {
            at,
            line: line.trim_end().to_owned(),
            before: before.iter().cloned().collect(),
            strength,
        });
    }
}

/// Returns whether the line is NCCL's error without a cause.
fn is_unhandled(text: &LogText<'_>) -> bool {
    UNHANDLED.iter().any(|words| text.body.contains(words))
}

/// Returns what a line outside tracebacks proves. `None` if it is not an error.
fn strength(text: &LogText<'_>, shown: &str) -> Option<Strength> {
    let body = text.body.trim_start();
    if text
        .severity
        .is_some_and(|level| level < LogSeverity::Error)
    {
        let is_warning = text.severity == Some(LogSeverity::Warning);
        return is_warning
            .then(|| patterns::warning_strength(text::nccl_warning(shown)?))
            .flatten();
    }
    let by_level = match text.severity {
        Some(LogSeverity::Fatal) => Some(Strength::Logged),
        Some(LogSeverity::Error) => Some(Strength::Marked),
        _ => None,
    };
    let by_exception = || {
        let found = EXCEPTION.find(text.body)?;
        let is_start =
            text.body[..found.end()].trim_start().len() == found.as_str().trim_start().len();
        Some(if is_start {
            Strength::Logged
        } else {
            Strength::Marked
        })
    };
    let strength = patterns::strength(body).or_else(by_exception);
    let strength = strength.or(by_level)?;
    let is_certain = matches!(strength, Strength::Cause | Strength::Killed);
    let is_harmless = || patterns::is_harmless(body) || work::is_handled(body);
    (is_certain || !is_harmless()).then_some(strength)
}

/// Returns the index of the earliest error, and the number of other logs with an error of the same
/// shape.
pub fn earliest(errors: &[LogError]) -> Option<(usize, usize)> {
    // Logs without timestamps cannot be ordered, so they come last.
    let order = |index: &usize| (errors[*index].at.is_none(), errors[*index].at, *index);
    let mut first = (0..errors.len()).min_by_key(order)?;
    if errors[first].strength >= Strength::Killed {
        let is_near = |index: &usize| match (errors[first].at, errors[*index].at) {
            (Some(first), Some(at)) => at.as_second() - first.as_second() <= CLOCK_SKEW,
            _ => true,
        };
        let stronger = (0..errors.len()).filter(|index| errors[*index].strength < Strength::Killed);
        first = stronger.filter(is_near).min_by_key(order).unwrap_or(first);
    }
    let shape = errors[first].shape();
    Some((
        first,
        errors
            .iter()
            .enumerate()
            .filter(|(index, error)| *index != first && error.shape() == shape)
            .count(),
    ))
}

#[cfg(test)]
mod tests;
