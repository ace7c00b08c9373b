//! Renders the results of `validate` and the list of checks, as text, JSON and Markdown.

use colored::Color;
use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::contract::submission::LocalFile;
use gpuctl_manifest::spec::checks::{CHECKS, Check, can_be_silenced};
use gpuctl_manifest::spec::{Problem, Problems, Severity};

use crate::TextStyle;
use crate::format::errors::checked_text;
use crate::format::text::{count, paint};
use crate::jobs::local_files::lines;

/// A validated file with its problems and documents.
#[derive(Clone, Debug)]
pub struct Validated {
    /// Errors and warnings about the file.
    pub problems: Problems,
    /// Kind and name of each document. Empty if the file could not be parsed.
    pub documents: Vec<(&'static str, String)>,
    /// Local files that the documents send to the cluster.
    pub files: Vec<LocalFile>,
}

impl Validated {
    fn counted(&self, severity: Severity) -> u64 {
        self.problems
            .list
            .iter()
            .filter(|problem| problem.severity == severity)
            .count() as u64
    }
}

/// Counts the errors and warnings in all files.
pub fn counted(files: &[Validated]) -> (u64, u64) {
    let sum = |severity| files.iter().map(|file| file.counted(severity)).sum();
    (sum(Severity::Error), sum(Severity::Warning))
}

fn word(severity: Severity) -> &'static str {
    if severity == Severity::Error {
        "error"
    } else {
        "warning"
    }
}

/// Renders a line for each file, followed by the file's problems with their positions.
pub fn text(files: &[Validated], style: TextStyle) -> String {
    let mut text = String::new();
    for file in files {
        let (errors, warnings) = (
            file.counted(Severity::Error),
            file.counted(Severity::Warning),
        );
        let name = crate::format::text::clean(&file.problems.file);
        let (verdict, color) = match (errors, warnings) {
            (0, 0) => ("ok".to_owned(), Color::Green),
            (0, _) => (count(warnings, "warning"), Color::Yellow),
            (_, 0) => (count(errors, "error"), Color::Red),
            _ => (
                format!("{}, {}", count(errors, "error"), count(warnings, "warning")),
                Color::Red,
            ),
        };
        let documents: Vec<String> = file
            .documents
            .iter()
            .map(|(kind, name)| format!("{kind}/{name}"))
            .collect();
        let described = if documents.is_empty() {
            String::new()
        } else {
            format!(" ({})", documents.join(", "))
        };
        text.push_str(&format!(
            "{name}: {}{described}\n",
            paint(&verdict, Some(color), style)
        ));
        text.extend(lines(&file.files).iter().map(|line| format!("  {line}\n")));
        file.problems
            .list
            .iter()
            .for_each(|problem| text.push_str(&checked_text(&file.problems, problem, style)));
    }
    text
}

/// The JSON output of `validate`.
#[derive(JsonSchema, Serialize)]
pub struct Validation<'a> {
    errors: u64,
    warnings: u64,
    files: Vec<FileItem<'a>>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct FileItem<'a> {
    file: &'a str,
    /// Empty when the file could not be parsed.
    documents: Vec<DocumentItem<'a>>,
    valid: bool,
    problems: Vec<ProblemItem<'a>>,
    /// Local files that become part of its jobs.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    local_files: &'a [LocalFile],
}

#[derive(JsonSchema, Serialize)]
struct DocumentItem<'a> {
    kind: &'a str,
    name: &'a str,
}

#[derive(JsonSchema, Serialize)]
struct ProblemItem<'a> {
    /// ID of the check that found the problem.
    id: &'a str,
    /// `error` or `warning`.
    severity: &'static str,
    message: &'a str,
    hint: Option<&'a str>,
    /// Starts at 1; `null` for values from `--set`.
    line: Option<usize>,
    /// Starts at 1; `null` for values from `--set`.
    column: Option<usize>,
}

/// The JSON output of `validate --explain`.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckItem<'a> {
    id: &'a str,
    /// `error` or `warning`.
    severity: &'static str,
    title: &'a str,
    why: &'a str,
    can_be_silenced: bool,
}

pub fn document(files: &[Validated], strict: bool) -> Validation<'_> {
    fn problem(problem: &Problem) -> ProblemItem<'_> {
        // `--set` values are not in the file, and have line 0.
        let is_in_file = problem.at.line > 0;
        ProblemItem {
            id: problem.id,
            severity: word(problem.severity),
            message: &problem.message,
            hint: Some(&*problem.note).filter(|note| !note.is_empty()),
            line: Some(problem.at.line).filter(|_| is_in_file),
            column: Some(problem.at.column).filter(|_| is_in_file),
        }
    }
    let (errors, warnings) = counted(files);
    let files = files.iter().map(|file| FileItem {
        file: &file.problems.file,
        documents: file
            .documents
            .iter()
            .map(|(kind, name)| DocumentItem { kind, name })
            .collect(),
        valid: file.counted(Severity::Error) == 0
            && (!strict || file.counted(Severity::Warning) == 0),
        problems: file.problems.list.iter().map(problem).collect(),
        local_files: &file.files,
    });
    Validation {
        errors,
        warnings,
        files: files.collect(),
    }
}

pub fn check_document(check: &Check) -> CheckItem<'_> {
    CheckItem {
        id: check.id,
        severity: word(check.severity),
        title: check.title,
        why: check.why,
        can_be_silenced: can_be_silenced(check),
    }
}

/// Renders the explanation of one check.
pub fn explained(check: &Check) -> String {
    let silencing = match can_be_silenced(check) {
        true => format!(
            "\n\nSilence it in a file with the comment\n  # gpuctl: ignore {}",
            check.id
        ),
        false => String::new(),
    };
    format!(
        "{} ({}): {}\n\n{}{silencing}\n",
        check.id,
        word(check.severity),
        check.title,
        check.why
    )
}

/// Renders the checks as a Markdown table.
pub fn reference() -> String {
    let mut text = "| Check | | Finds |\n|---|---|---|\n".to_owned();
    for check in &CHECKS {
        text.push_str(&format!(
            "| `{}` | {} | {} |\n",
            check.id,
            word(check.severity),
            check.title
        ));
    }
    text
}
