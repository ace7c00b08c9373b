//! Problems of a file, with their positions.

use std::fmt;

/// A position in a file: line and column count from 1, in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FilePosition {
    /// The line, from 1; 0 when there is none.
    pub line: usize,
    pub column: usize,
    /// The number of characters to mark.
    pub width: usize,
}

/// Severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The document is rejected.
    Error,
    /// The document is accepted.
    Warning,
}

/// A mistake in a file, and how to correct it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its position in the file.
    pub at: FilePosition,
    pub severity: Severity,
    /// In lower case, without a final period.
    pub message: String,
    /// The suggested correction; empty when the message contains it.
    pub note: String,
    /// The id of the check that found it.
    pub id: &'static str,
}

impl Problem {
    /// Creates an error. `note` suggests a fix.
    pub fn error(at: FilePosition, message: impl Into<String>, note: impl Into<String>) -> Self {
        Self {
            at,
            severity: Severity::Error,
            message: message.into(),
            note: note.into(),
            id: "form",
        }
    }

    /// Sets the id of the check that found it.
    #[must_use]
    pub fn with_id(self, id: &'static str) -> Self {
        Self { id, ..self }
    }

    /// Makes a warning; `note` suggests the correction.
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

/// The problems of one file, ordered by line.
#[derive(Clone, Debug)]
pub struct Problems {
    pub file: String,
    /// The text of the file, from which excerpts are shown.
    pub text: String,
    /// Ordered by position.
    pub list: Vec<Problem>,
}

impl Problems {
    /// Whether at least one problem is an error, so that the file is rejected.
    pub fn are_fatal(&self) -> bool {
        self.list
            .iter()
            .any(|problem| problem.severity == Severity::Error)
    }

    /// The source line of a problem.
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
