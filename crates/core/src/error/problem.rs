//! A problem of a file with its place.

use std::fmt;

/// A place in a file: line and column count from 1, in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FilePosition {
    /// The line, from 1; 0 for none.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// Characters that are marked.
    pub width: usize,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The document is refused.
    Error,
    /// The document is accepted.
    Warning,
}

/// One thing to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it stands.
    pub at: FilePosition,
    /// Error or warning.
    pub severity: Severity,
    /// Lower-case, no final period.
    pub message: String,
    /// What to write instead; empty when the message says it.
    pub note: String,
    /// Of the check that found it.
    pub id: &'static str,
}

impl Problem {
    /// Makes an error; `note` says what to change.
    pub fn error(at: FilePosition, message: impl Into<String>, note: impl Into<String>) -> Self {
        Self {
            at,
            severity: Severity::Error,
            message: message.into(),
            note: note.into(),
            id: "form",
        }
    }

    /// Returns the same, found by this check.
    #[must_use]
    pub fn of(self, id: &'static str) -> Self {
        Self { id, ..self }
    }

    /// Makes a warning; `note` says what to change.
    pub fn warning(at: FilePosition, message: impl Into<String>, note: impl Into<String>) -> Self {
        Self {
            at,
            severity: Severity::Warning,
            message: message.into(),
            note: note.into(),
            id: "form",
        }
    }
}

/// The problems of one file, in the order of its lines.
#[derive(Clone, Debug)]
pub struct Problems {
    /// The name of the file.
    pub file: String,
    /// Its text, for the lines that are shown.
    pub text: String,
    /// In order of their places.
    pub list: Vec<Problem>,
}

impl Problems {
    /// Whether one of the problems refuses the file.
    pub fn are_fatal(&self) -> bool {
        self.list
            .iter()
            .any(|problem| problem.severity == Severity::Error)
    }

    /// Returns the source line of a problem.
    pub fn line(&self, problem: &Problem) -> Option<&str> {
        self.text.lines().nth(problem.at.line.checked_sub(1)?)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self
            .list
            .iter()
            .filter(|problem| problem.severity == Severity::Error)
            .count();
        write!(
            f,
            "{} has {count} problem{}",
            self.file,
            if count == 1 { "" } else { "s" }
        )
    }
}
