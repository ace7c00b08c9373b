//! Reads the summary that torchrun prints when a rank has failed
//! (`torch/distributed/elastic/multiprocessing/errors/__init__.py`).

use super::error::Strength;

const HEADER: &str = "Root Cause (first observed failure):";
/// Number of lines of the summary of one rank.
const LINES: u32 = 9;
/// Exit codes of processes that a signal ended without a message.
const SIGNALS: [&str; 5] = ["-4 ", "-7 ", "-8 ", "-9 ", "-11 "];

/// The part of the summary about the rank that failed first.
#[derive(Clone, Debug, Default)]
pub(super) struct RootCause {
    /// Number of remaining lines of the summary, 0 outside of it.
    left: u32,
    rank: String,
    exit_code: String,
}

impl RootCause {
    /// Scans a line. Returns the rank with its exit code at the end of the summary.
    pub(super) fn take(&mut self, text: &str) -> Option<(Strength, String)> {
        let text = text.trim();
        if text.starts_with(HEADER) {
            *self = Self {
                left: LINES,
                ..Self::default()
            };
            return None;
        }
        self.left = self.left.checked_sub(1)?;
        let (name, value) = text.split_once(':')?;
        let value = value.trim();
        match name.trim() {
            "rank" => value.clone_into(&mut self.rank),
            "exitcode" => value.clone_into(&mut self.exit_code),
            "traceback" => {
                self.left = 0;
                let is_signal = SIGNALS.iter().any(|code| self.exit_code.starts_with(code));
                let mut line = format!("rank: {}, exitcode: {}", self.rank, self.exit_code);
                if !value.starts_with("To enable traceback") {
                    line.push_str(&format!(", traceback: {value}"));
                }
                let strength = if is_signal {
                    Strength::Killed
                } else {
                    Strength::Summary
                };
                return Some((strength, line));
            }
            _ => {}
        }
        None
    }
}
