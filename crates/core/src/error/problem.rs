//! Errors and warnings about a file, with their positions.

use std::fmt;

/// A position in a file. Lines and columns are counted in characters from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FilePosition {
    /// Line number from 1, or 0 if the problem has no position.
    pub line: usize,
    pub column: usize,
    /// Number of characters to mark.
    pub width: usize,
}

/// Severity of a problem in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The document is rejected.
    Error,
    /// The document is accepted.
    Warning,
}

/// An error or warning about a file, with a suggested correction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Position of the problem in the file.
    pub at: FilePosition,
    pub severity: Severity,
    /// A lower-case fragment without a final period.
    pub message: String,
    /// Suggested correction, or empty if the message contains it.
    pub note: String,
    /// Id of the check that found the problem.
    pub id: &'static str,
}

impl Problem {
    /// Creates an error. `note` suggests the correction.
    pub fn error(at: FilePosition, message: impl Into<String>, note: impl Into<String>) -> Self {
        Self {
            at,
            severity: Severity::Error,
            message: message.into(),
            note: note.into(),
            id: "form",
        }
    }

    /// Sets the id of the check that found the problem.
    #[must_use]
    pub fn with_id(self, id: &'static str) -> Self {
        Self { id, ..self }
    }

    /// Creates a warning. `note` suggests the correction.
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

/// All problems of one file.
#[derive(Clone, Debug)]
pub struct Problems {
    pub file: String,
    /// Text of the file, for excerpts.
    pub text: String,
    /// The problems, ordered by position.
    pub list: Vec<Problem>,
}

impl Problems {
    /// Returns true if at least one problem is an error, so that the file is rejected.
    pub fn are_fatal(&self) -> bool {
        self.list
            .iter()
            .any(|problem| problem.severity == Severity::Error)
    }

    /// Returns the source line of a problem, if it has a position.
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
