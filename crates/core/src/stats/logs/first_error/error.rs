//! An error in a log, and how strongly it explains the end of its process.

use std::sync::LazyLock;

use jiff::Timestamp;
use regex::Regex;

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
    /// How strongly the line proves why its process ended.
    pub strength: Strength,
}

impl LogError {
    /// Returns the error line without the parts that differ between ranks.
    pub fn shape(&self) -> String {
        NUMBERS
            .replace_all(&PREFIX.replace(&self.line, ""), "#")
            .into_owned()
    }
}

/// How much a line proves, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Strength {
    /// An error that certainly ends its process: an uncaught exception, a panic, a watchdog.
    Cause,
    /// An exception that was logged. Perhaps it was handled.
    #[default]
    Logged,
    /// A signal ended the process. It is the cause only if the program said nothing itself.
    Killed,
    /// An error of a shell, which continues with its next command. Counts as the last line only.
    LastLine,
    /// A line that only its severity marks as an error.
    Marked,
    /// The consequence of an error elsewhere, such as a lost connection.
    Lost,
    /// A launcher's line about a process that failed, or a header before the error itself.
    Summary,
}

/// A regular expression over the text of a line without its prefixes, and what a match proves.
pub(super) type ErrorPattern = (&'static str, Strength);
