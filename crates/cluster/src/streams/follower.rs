//! Remembers how far a log has been read, so that reading can go on after a disconnect.
//!
//! Note: the kubelet resumes by whole seconds, so lines of the last second are recognized by their
//! timestamps.

use jiff::Timestamp;

use super::log_lines::LogLine;

/// What has been read of one container's log: enough to go on after a disconnect.
#[derive(Clone, Debug, Default)]
pub struct Follower {
    last: Option<Timestamp>,
    /// Lines with exactly that time that were taken.
    at_last: usize,
    /// Lines with exactly that time still to skip after a resume.
    skip: usize,
    resuming: bool,
}

impl Follower {
    /// Returns the second to resume from.
    pub(crate) fn since(&self) -> Option<String> {
        self.last.map(|last| {
            format!(
                "{:.0}",
                Timestamp::from_second(last.as_second()).unwrap_or(last)
            )
        })
    }

    /// Prepares for a further connection; call it before each.
    pub(crate) fn resume(&mut self) {
        self.resuming = self.last.is_some();
        self.skip = self.at_last;
    }

    /// Returns true when `line` is new.
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
