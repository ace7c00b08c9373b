//! Finds the first error in a log: the end of a Python traceback, a CUDA or NCCL error, the message
//! about a signal, or a line marked as an error. Of several ranks' errors, the earliest one counts,
//! because the others often follow from it.

use std::collections::VecDeque;
use std::sync::LazyLock;

use jiff::Timestamp;
use regex::{Regex, RegexSet};

/// Number of lines to keep before the error.
pub const BEFORE: usize = 30;

/// Patterns for errors: Python, torch, CUDA, NCCL, glibc, Go, Rust, shells, and log levels.
const WORDS: [&str; 9] = [
    r"(?:^|[\s\]|])[A-Za-z_][\w.]*(?:Error|Exception|Interrupt)(?::\s|$)",
    r"\b(?:CUDA|HIP|NCCL|RCCL|cuDNN|cuBLAS|CUBLAS|CUDNN) ?(?:error|failure|ERROR)|NCCL WARN .*(?i:error|fail|time|abort)",
    r"(?i)\b(?:cuda )?out of memory\b",
    r"Segmentation fault|Bus error|core dumped|^(?:.*\s)?Killed$|^Aborted\b|Fatal Python error|Floating point exception",
    r"(?:^|[\s\[|])(?:ERROR|FATAL|CRITICAL)(?:[\s\]:|]|$)|^[EF]\d{4} ",
    r"panicked at |^panic: |^fatal error: ",
    r"(?i)watchdog caught collective operation timeout|\bNVRM: Xid\b",
    r"No such file or directory|Permission denied|command not found|No space left on device",
    r"(?i)\bassertion .*failed\b|\bnan (?:loss|detected)\b|loss is nan",
];

/// Pattern for lines that only resemble errors.
const HARMLESS: &str =
    r"(?i)\bwarn(?:ing)?\b|\bdeprecat|\b0 errors?\b|\bno errors?\b|retry(?:ing)? in ";

/// Pattern for messages of Hugging Face, Lightning, Megatron, DeepSpeed and NeMo about a saved
/// checkpoint.
const SAVED: &str = r"(?i)\bsav(?:ed|ing)\b.{0,60}\bcheckpoint|\bcheckpoint\b.{0,60}\b(?:saved|written)\b|\bwrote checkpoint\b";

static CHECKPOINT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(SAVED).expect("the words are tested"));
static ERRORS: LazyLock<RegexSet> =
    LazyLock::new(|| RegexSet::new(WORDS).expect("the words are tested"));
static SAFE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(HARMLESS).expect("the words are tested"));
/// Prefix that torchrun writes before each line of a rank.
static PREFIX: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\[(?:rank)?\d+\]:\s?").expect("the prefix is tested"));
static NUMBERS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"0x[0-9a-fA-F]+|\d+(?:[.:,]\d+)*").expect("numbers are tested"));

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogError {
    pub at: Option<Timestamp>,
    pub line: String,
    /// Lines before the error, oldest first, including the frames of a traceback.
    pub before: Vec<String>,
}

impl LogError {
    /// Returns the error line without the parts that differ between ranks.
    pub fn shape(&self) -> String {
        NUMBERS
            .replace_all(&PREFIX.replace(&self.line, ""), "#")
            .into_owned()
    }
}

/// Scans a log line by line.
#[derive(Debug, Default)]
pub struct LogScan {
    before: VecDeque<String>,
    in_traceback: bool,
    error: Option<LogError>,
    checkpoint: Option<Timestamp>,
}

/// First error and last checkpoint in one log.
#[derive(Debug, Default)]
pub struct LogFindings {
    pub error: Option<LogError>,
    /// Time of the last line about a saved checkpoint.
    pub checkpoint: Option<Timestamp>,
}

impl LogScan {
    /// Scans the next line. After the first error, records only checkpoints.
    pub fn take(&mut self, at: Option<Timestamp>, text: &str) {
        if CHECKPOINT.is_match(text) {
            self.checkpoint = at.or(self.checkpoint);
        }
        if self.error.is_some() {
            return;
        }
        // A progress bar redraws itself with carriage returns, so only its last state counts.
        let text = text
            .rsplit('\r')
            .find(|part| !part.trim().is_empty())
            .unwrap_or(text);
        let bare = PREFIX.replace(text, "");
        // The first line without indentation ends a traceback: it states the exception.
        let ends = if self.in_traceback {
            !bare.starts_with([' ', '\t']) && !bare.trim().is_empty()
        } else {
            is_error(&bare)
        };
        if bare.starts_with("Traceback (most recent call last)") {
            self.in_traceback = true;
        } else if ends {
            self.error = Some(LogError {
                at,
                line: text.trim_end().to_owned(),
                before: self.before.drain(..).collect(),
            });
            return;
        }
        self.before.push_back(text.trim_end().to_owned());
        if self.before.len() > BEFORE {
            self.before.pop_front();
        }
    }

    /// Ends the scan. A truncated traceback counts as an error.
    pub fn finish(mut self) -> LogFindings {
        if self.error.is_none() && self.in_traceback {
            let last = self.before.pop_back();
            self.error = last.map(|line| LogError {
                at: None,
                line,
                before: self.before.drain(..).collect(),
            });
        }
        LogFindings {
            error: self.error,
            checkpoint: self.checkpoint,
        }
    }
}

fn is_error(text: &str) -> bool {
    // NCCL logs its errors as warnings.
    let nccl = text.contains("NCCL WARN");
    ERRORS.is_match(text) && (nccl || !SAFE.is_match(text))
}

/// Returns the index of the earliest error, and the number of other logs with an error of the same
/// shape.
pub fn earliest(errors: &[LogError]) -> Option<(usize, usize)> {
    // Logs without timestamps cannot be ordered, so they come last.
    let first = (0..errors.len())
        .min_by_key(|index| (errors[*index].at.is_none(), errors[*index].at, *index))?;
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
mod tests {
    use super::*;

    fn first(lines: &[&str]) -> Option<String> {
        let mut scan = LogScan::default();
        lines.iter().for_each(|line| scan.take(None, line));
        scan.finish().error.map(|error| error.line)
    }

    #[test]
    fn errors_differ_from_similar_lines() {
        for line in [
            "RuntimeError: CUDA error: an illegal memory access was encountered",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
            "[rank3]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3384",
            "gpu-a-01:211:302 [3] NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory",
            "[2026-01-31 10:00:00,123] ERROR trainer: loss is nan",
            "Bus error (core dumped)",
            "/bin/sh: 1: Killed",
            "thread 'main' panicked at src/main.rs:1:1:",
            "python: can't open file '/train.py': [Errno 2] No such file or directory",
            "KeyboardInterrupt",
            "E0131 10:00:00.1 12 server.cc:1] refused",
        ] {
            assert_eq!(
                first(&["step 1/2 loss 0.1", line]),
                Some(line.to_owned()),
                "{line}"
            );
        }
        for line in [
            "step 100/2000 loss 2.31 error_rate 0.12",
            "UserWarning: TypedStorage is deprecated, RuntimeError: later",
            "checked 12 files, 0 errors",
            "Epoch 3: validation error 0.02",
            "connection lost, retrying in 5 s (ConnectionError: x)",
        ] {
            assert_eq!(first(&[line]), None, "{line}");
        }
    }

    #[test]
    fn traceback_is_reported_by_its_last_line() {
        let lines = [
            "step 1",
            "Traceback (most recent call last):",
            "  File \"a.py\", line 3, in <module>",
            "    x()",
            "MyOwnTrouble",
            "after",
        ];
        let mut scan = LogScan::default();
        lines.iter().for_each(|line| scan.take(None, line));
        let error = scan.finish().error.unwrap();
        assert_eq!(
            (error.line.as_str(), error.before.len()),
            ("MyOwnTrouble", 4)
        );
        let ranked = [
            "[rank7]: Traceback (most recent call last):",
            "[rank7]:   File \"a.py\"",
            "[rank7]: ValueError: 7",
        ];
        assert_eq!(first(&ranked), Some("[rank7]: ValueError: 7".to_owned()));
        assert_eq!(
            first(&[
                "Traceback (most recent call last):",
                "  File \"a.py\", line 3"
            ]),
            Some("  File \"a.py\", line 3".to_owned())
        );
    }

    /// Of 512 ranks, rank 200 fails first. The others lose the connection within the next second.
    #[test]
    fn earliest_error_of_all_ranks_wins() {
        let time = |millis: i64| Timestamp::from_millisecond(1_000_000 + millis).unwrap();
        let error = |rank: i64| {
            let mut scan = LogScan::default();
            (0..100).for_each(|step| scan.take(Some(time(step)), &format!("step {step}/9999")));
            let line = if rank == 200 {
                "ValueError: bad shard 812".to_owned()
            } else {
                format!("[rank{rank}]: ConnectionResetError: peer {rank} of 512")
            };
            scan.take(
                Some(time(if rank == 200 { 500 } else { 600 + rank })),
                &line,
            );
            scan.finish().error.unwrap()
        };
        let errors: Vec<LogError> = (0..512).map(error).collect();
        assert_eq!(earliest(&errors), Some((200, 0)));
        assert_eq!(
            (
                errors[200].before.len(),
                errors[200].before.last().map(String::as_str)
            ),
            (30, Some("step 99/9999"))
        );
        assert_eq!(earliest(&errors[..200]), Some((0, 199)));
        assert_eq!(earliest(&[]), None);
    }

    #[test]
    fn last_checkpoint_wins() {
        let time = |second: i64| Timestamp::from_second(second).unwrap();
        let mut scan = LogScan::default();
        for (second, line) in [
            (10, "Saving model checkpoint to /out/checkpoint-500"),
            (20, "step 600"),
            (30, "saved checkpoint at iteration 700 to /out"),
            (40, "RuntimeError: x"),
            (50, "loading checkpoint /out/700"),
        ] {
            scan.take(Some(time(second)), line);
        }
        let findings = scan.finish();
        assert_eq!(
            (findings.checkpoint, findings.error.unwrap().at),
            (Some(time(30)), Some(time(40)))
        );
    }
}
