//! Errors of templates: syntax errors, and documents that do not match.

use std::fmt;

/// Why a template is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPathMistake {
    pub message: String,
    /// Position in the template in characters, starting at 1.
    pub position: usize,
    /// How to correct the template. Empty if the message contains the correction.
    pub hint: &'static str,
}

impl fmt::Display for JsonPathMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at character {}", self.message, self.position)?;
        if self.hint.is_empty() {
            return Ok(());
        }
        write!(f, "; {}", self.hint)
    }
}

impl std::error::Error for JsonPathMistake {}

/// Why a valid template cannot be applied to a document. kubectl fails in the same cases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonPathFailure {
    OutOfBounds {
        index: i64,
        length: i64,
    },
    Reversed {
        start: i64,
        end: i64,
    },
    NotAList {
        found: &'static str,
    },
    /// An expression in a comparison selects several values.
    SeveralValues {
        count: usize,
    },
    NotComparable {
        left: &'static str,
        right: &'static str,
    },
}

impl fmt::Display for JsonPathFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfBounds { index, length } => {
                write!(
                    f,
                    "index {index} is out of bounds of a list of length {length}"
                )
            }
            Self::Reversed { start, end } => {
                write!(f, "the slice starts at {start}, after its end at {end}")
            }
            Self::NotAList { found } => write!(f, "{found} has no entries to select"),
            Self::SeveralValues { count } => {
                write!(f, "a filter compares single values, but found {count}")
            }
            Self::NotComparable { left, right } => {
                write!(f, "cannot compare {left} with {right}")
            }
        }
    }
}
