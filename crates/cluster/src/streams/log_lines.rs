//! Splits a log into lines, and keeps the newest lines up to a number and a total size.

use std::collections::VecDeque;

use jiff::Timestamp;

/// Length at which lines are truncated, in bytes.
pub(crate) const LONGEST_LINE: usize = 1 << 20;
/// Maximum number of bytes kept from one log.
pub const MOST_BYTES: usize = 64 << 20;
/// A log line with its timestamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// `None` if the container runtime wrote no timestamp.
    pub at: Option<Timestamp>,
    pub text: String,
}

/// The newest lines of a log.
#[derive(Debug, Default)]
pub struct LogLines {
    pub lines: Vec<LogLine>,
    /// Whether lines are missing because the log exceeded a size limit.
    pub is_cut: bool,
    /// Whether the server sent more lines than requested, so that these may not be the newest.
    pub has_surplus: bool,
}

/// Buffer that keeps the newest lines up to a number and a total size.
pub(crate) struct NewestLines {
    pub lines: VecDeque<LogLine>,
    bytes: usize,
    most_lines: usize,
    most_bytes: usize,
    /// Whether lines were dropped because of the size limit.
    pub is_cut: bool,
}

impl NewestLines {
    pub(crate) fn new(most_lines: usize, most_bytes: usize) -> Self {
        Self {
            lines: VecDeque::new(),
            bytes: 0,
            most_lines,
            most_bytes,
            is_cut: false,
        }
    }

    pub(crate) fn push(&mut self, line: LogLine) {
        self.bytes += size(&line);
        self.lines.push_back(line);
        while self.lines.len() > self.most_lines || self.bytes > self.most_bytes {
            self.is_cut |= self.lines.len() <= self.most_lines;
            let Some(oldest) = self.lines.pop_front() else {
                return;
            };
            self.bytes -= size(&oldest);
        }
    }
}

/// Returns the memory that a line uses, in bytes.
fn size(line: &LogLine) -> usize {
    size_of::<LogLine>() + line.text.len()
}

/// Splits a stream of chunks into lines.
#[derive(Debug, Default)]
pub(crate) struct LineSplitter {
    /// The beginning of the last line, whose end has not arrived.
    pub(crate) pending: Vec<u8>,
}

impl LineSplitter {
    /// Passes each complete line of the buffer and `chunk` to `sink`, without its line break.
    pub(crate) fn take(&mut self, chunk: &[u8], mut sink: impl FnMut(&[u8])) {
        let pending = self.pending.len();
        self.pending.extend_from_slice(chunk);
        let (mut start, mut search_start) = (0, pending);
        while let Some(end) = self.pending[search_start..]
            .iter()
            .position(|byte| *byte == b'\n')
        {
            sink(&self.pending[start..search_start + end]);
            start = search_start + end + 1;
            search_start = start;
        }
        self.pending.drain(..start);
        // Drop the rest of a line that is too long.
        if self.pending.len() > 2 * LONGEST_LINE {
            self.pending.truncate(LONGEST_LINE);
        }
    }
}

pub(crate) fn line(bytes: &[u8]) -> LogLine {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST_LINE)]);
    // With `timestamps=true`, each line begins with an RFC 3339 time and a space.
    let split = text
        .split_once(' ')
        .and_then(|(time, rest)| Some((time.parse::<Timestamp>().ok()?, rest)));
    match split {
        Some((time, rest)) => LogLine {
            at: Some(time),
            text: rest.to_owned(),
        },
        None => LogLine {
            at: None,
            text: text.into_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_time_and_a_text() {
        let parsed = line(b"2026-01-01T00:00:00.000000001Z a b ");
        assert_eq!(parsed.text, "a b ");
        assert_eq!(parsed.at.unwrap().subsec_nanosecond(), 1);
        assert_eq!(
            line(b"no time here"),
            LogLine {
                at: None,
                text: "no time here".into()
            }
        );
    }

    #[test]
    fn the_newest_lines_are_kept_within_their_limits() {
        let text = |size: usize| LogLine {
            at: None,
            text: "x".repeat(size),
        };
        let mut newest = NewestLines::new(2, MOST_BYTES);
        (1..5).for_each(|size| newest.push(text(size)));
        assert_eq!(
            (
                newest
                    .lines
                    .iter()
                    .map(|line| line.text.len())
                    .collect::<Vec<_>>(),
                newest.is_cut
            ),
            (vec![3, 4], false)
        );
        let mut small = NewestLines::new(100, 3000);
        (0..10).for_each(|_| small.push(text(900)));
        assert_eq!((small.lines.len(), small.is_cut), (3, true));
        small.push(text(5000));
        assert_eq!(
            (small.lines.len(), small.bytes),
            (0, 0),
            "a line larger than the limit on bytes"
        );
    }
}
