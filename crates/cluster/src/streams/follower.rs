//! Tracks the position in a log, so that reading can resume after a disconnect.
//!
//! The kubelet can only resume at whole seconds, so lines of the last second arrive again. They are
//! recognized by their timestamps.

use jiff::Timestamp;

use super::log_lines::LogLine;

/// The position in the log of one container.
#[derive(Clone, Debug, Default)]
pub struct Follower {
    last: Option<Timestamp>,
    /// Number of accepted lines with the timestamp `last`.
    at_last: usize,
    /// Number of lines with the timestamp `last` that must be skipped after a resume.
    skip: usize,
    resuming: bool,
}

impl Follower {
    /// Returns the time to resume at, rounded down to a second.
    pub(crate) fn since(&self) -> Option<String> {
        // The API server passes `sinceTime`, a `metav1.Time`, on in whole seconds.
        self.last.map(|last| {
            format!(
                "{:.0}",
                Timestamp::from_second(last.as_second()).unwrap_or(last)
            )
        })
    }

    /// Prepares for a new connection. Call this before every connection.
    pub(crate) fn resume(&mut self) {
        self.resuming = self.last.is_some();
        self.skip = self.at_last;
    }

    /// Returns true if `line` is new.
    pub(crate) fn take(&mut self, line: &LogLine) -> bool {
        let Some(at) = line.at else { return true };
        if self.resuming {
            match Some(at).cmp(&self.last) {
                std::cmp::Ordering::Less => return false,
                std::cmp::Ordering::Equal if self.skip > 0 => {
                    self.skip -= 1;
                    return false;
                }
                _ => self.resuming = false,
            }
        }
        if self.last == Some(at) {
            self.at_last += 1;
        } else {
            (self.last, self.at_last) = (Some(at), 1);
        }
        true
    }
}

#[cfg(test)]
mod tests;
