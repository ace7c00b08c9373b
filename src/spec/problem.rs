//! What is wrong in a file, and where. Knows the file's name and text only to show the line.

use std::fmt;

/// A place in a file: line and column count from 1, in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FilePosition {
    pub line: usize,
    pub column: usize,
    pub width: usize,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Error,
    Warning,
}

/// One thing to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub at: FilePosition,
    pub severity: Severity,
    /// Lower-case, no final period.
    pub message: String,
    /// What to write instead; empty when the message says it.
    pub note: String,
    /// Of the check that found it.
    pub id: &'static str,
}

impl Problem {
    pub fn error(at: FilePosition, message: impl Into<String>, note: impl Into<String>) -> Self {
        Self { at, severity: Severity::Error, message: message.into(), note: note.into(), id: "form" }
    }

    /// The same, found by this check.
    #[must_use]
    pub fn of(self, id: &'static str) -> Self {
        Self { id, ..self }
    }

    pub fn warning(at: FilePosition, message: impl Into<String>, note: impl Into<String>) -> Self {
        Self { at, severity: Severity::Warning, message: message.into(), note: note.into(), id: "form" }
    }
}

/// The problems of one file, in the order of its lines.
#[derive(Clone, Debug)]
pub struct Problems {
    pub file: String,
    pub text: String,
    pub list: Vec<Problem>,
}

impl Problems {
    /// The source line of a problem.
    #[must_use]
    pub fn line(&self, problem: &Problem) -> Option<&str> {
        self.text.lines().nth(problem.at.line.checked_sub(1)?)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.list.iter().filter(|problem| problem.severity == Severity::Error).count();
        write!(f, "{} has {count} problem{}", self.file, if count == 1 { "" } else { "s" })
    }
}
