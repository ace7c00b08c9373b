//! The error type of all commands: kind, name, message, causes, notes and hints. The exit code
//! depends only on the kind.

mod name;
mod problem;
mod result_code;

pub use name::ErrorName;
pub use problem::{FilePosition, Problem, Problems, Severity};
pub use result_code::ResultCode;

use crate::model::values::excerpt::{ERROR_PART, shortened};
use std::fmt;

/// Category of an error, which determines the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum ErrorKind {
    Request,
    Usage,
    Specification,
    NotFound,
    Access,
    Unreachable,
    Timeout,
    JobEnded,
    Interrupted,
    Terminated,
}

impl ErrorKind {
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    pub fn exit_code(self) -> u8 {
        match self {
            Self::Request => 1,
            Self::Usage => 2,
            Self::Specification => 3,
            Self::NotFound => 4,
            Self::Access => 5,
            Self::Unreachable => 6,
            Self::Timeout => 7,
            Self::JobEnded => 10,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }

    pub fn word(self) -> &'static str {
        self.into()
    }

    /// Describes the kind in one sentence, for the manual page.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Request => "the request failed, or part of a batch failed",
            Self::Usage => "invalid command-line usage",
            Self::Specification => "the specification file is invalid",
            Self::NotFound => "the requested object does not exist",
            Self::Access => "forbidden or not authenticated",
            Self::Unreachable => {
                "the cluster or Prometheus is unreachable, or a bundle does not contain the answer"
            }
            Self::Timeout => "timed out while waiting",
            Self::JobEnded => "a job failed, cannot start, was deleted or has already ended",
            Self::Interrupted => "interrupted by Ctrl-C (SIGINT)",
            Self::Terminated => "terminated by SIGTERM",
        }
    }
}

/// Returns every exit code with its meaning, in ascending order. Commands that run another program
/// can also exit with that program's code.
pub fn exit_codes() -> Vec<(u8, &'static str)> {
    let errors = ErrorKind::ALL
        .iter()
        .map(|kind| (kind.exit_code(), kind.sentence()));
    let results = ResultCode::ALL
        .iter()
        .map(|result| (result.exit_code(), result.sentence()));
    let mut codes: Vec<_> = std::iter::once((0, "done"))
        .chain(errors)
        .chain(results)
        .collect();
    codes.sort_by_key(|(code, _)| *code);
    codes
}

/// An error as the user sees it.
#[derive(Clone, Debug)]
pub struct Error {
    pub kind: ErrorKind,
    pub name: ErrorName,
    /// A lower-case fragment without a final period.
    pub message: String,
    pub causes: Vec<String>,
    /// Facts that did not cause the error, such as objects that a failed command left behind. Boxed
    /// to keep `Error` small, because it determines the size of every `Result`.
    pub notes: Box<Vec<String>>,
    pub hints: Vec<String>,
    /// Problems of a file. The message then contains only their number.
    pub problems: Option<Box<Problems>>,
}

impl Error {
    pub fn new(name: ErrorName, message: impl fmt::Display) -> Self {
        let message = shortened(message.to_string(), ERROR_PART);
        Self {
            kind: name.kind(),
            name,
            message,
            causes: Vec::new(),
            notes: Box::default(),
            hints: Vec::new(),
            problems: None,
        }
    }

    pub fn usage(message: impl fmt::Display) -> Self {
        Self::new(ErrorName::Usage, message)
    }

    /// Returns true if RBAC denied the request. Failed authentication has a different name.
    pub fn is_forbidden(&self) -> bool {
        self.name == ErrorName::Forbidden
    }

    #[must_use]
    pub fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hints.push(shortened(hint.to_string(), ERROR_PART));
        self
    }

    #[must_use]
    pub fn cause(mut self, cause: impl fmt::Display) -> Self {
        self.causes.push(shortened(cause.to_string(), ERROR_PART));
        self
    }

    #[must_use]
    pub fn note(mut self, note: impl fmt::Display) -> Self {
        self.notes.push(shortened(note.to_string(), ERROR_PART));
        self
    }

    /// Replaces the message with `what`, the failed operation. The old message becomes the first
    /// cause.
    #[must_use]
    pub fn during(mut self, what: impl Into<String>) -> Self {
        let message = std::mem::replace(&mut self.message, what.into());
        self.causes.insert(0, message);
        self
    }

    /// Attributes the error to a position in a file. The message and the hints become a problem of
    /// that file.
    #[must_use]
    pub fn in_file(self, file: &str, text: &str, at: FilePosition) -> Self {
        let problems = Problems {
            file: file.to_owned(),
            text: text.to_owned(),
            list: vec![Problem::error(at, self.message, self.hints.join("; "))],
        };
        Self {
            kind: self.kind,
            name: self.name,
            causes: self.causes,
            notes: self.notes,
            ..Self::from(problems)
        }
    }

    /// Creates the error for data that the bundle of `--replay` does not contain.
    pub fn not_in_bundle(message: impl fmt::Display) -> Self {
        Self::new(ErrorName::NotInBundle, message)
            .hint("a bundle contains the data for lists, `why`, `doctor` and histories with their default windows; query the cluster itself for anything else")
    }
}

impl Error {
    /// Creates the error for fields of a file that exceed the site's limits.
    pub fn over_limits(problems: Problems) -> Self {
        let name = ErrorName::LimitExceeded;
        Self {
            kind: name.kind(),
            name,
            ..Self::from(problems)
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.causes
            .iter()
            .try_for_each(|cause| write!(f, ": {cause}"))?;
        self.notes.iter().try_for_each(|note| write!(f, "; {note}"))
    }
}

impl std::error::Error for Error {}

impl From<Problems> for Error {
    fn from(problems: Problems) -> Self {
        let message = problems.to_string();
        Self {
            problems: Some(Box::new(problems)),
            ..Self::new(ErrorName::InvalidSpecification, message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_code_has_one_meaning() {
        let codes: Vec<u8> = exit_codes().into_iter().map(|(code, _)| code).collect();
        assert!(
            codes.is_sorted_by(|one, next| one < next),
            "a code is used twice: {codes:?}"
        );
        assert!(ResultCode::is_result(11) && !ResultCode::is_result(0));
        // The failure of a job is an error, even if the command printed a document.
        assert!(!ResultCode::is_result(10) && !ResultCode::is_result(1));
    }

    #[test]
    fn a_signal_decides_the_name_and_the_exit_code() {
        let code = |signal| ErrorName::from_signal(signal).kind().exit_code();
        assert_eq!((code(2), code(15)), (130, 143));
    }
}
