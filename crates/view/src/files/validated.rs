//! What `validate` found, and the list of checks: for people, for programs, for the README.

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

/// One file after it was looked at.
#[derive(Clone, Debug)]
pub struct Validated {
    /// Problems of the file, warnings included.
    pub problems: Problems,
    /// Kind and name of each document; empty when the file could not be read.
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

/// Errors and warnings of all files.
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

/// Formats it for people: each problem with its place, and a line for each valid file.
pub fn text(files: &[Validated], look: TextStyle) -> String {
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
            paint(&verdict, Some(color), look)
        ));
        text.extend(lines(&file.files).iter().map(|line| format!("  {line}\n")));
        file.problems
            .list
            .iter()
            .for_each(|problem| text.push_str(&checked_text(&file.problems, problem, look)));
    }
    text
}

/// The answer of `validate`.
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
    /// Empty when the file could not be read.
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
    /// Of the check that found it.
    id: &'a str,
    /// `error`, `warning`.
    severity: &'static str,
    message: &'a str,
    hint: Option<&'a str>,
    /// From 1; null for what `--set` wrote.
    line: Option<usize>,
    /// From 1; null for what `--set` wrote.
    column: Option<usize>,
}

/// The answer of `validate --explain`.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckItem<'a> {
    id: &'a str,
    /// `error`, `warning`.
    severity: &'static str,
    title: &'a str,
    why: &'a str,
    can_be_silenced: bool,
}

/// Formats it for programs.
pub fn document(files: &[Validated], strict: bool) -> Validation<'_> {
    fn problem(problem: &Problem) -> ProblemItem<'_> {
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

/// Returns one check for programs.
pub fn check_document(check: &Check) -> CheckItem<'_> {
    CheckItem {
        id: check.id,
        severity: word(check.severity),
        title: check.title,
        why: check.why,
        can_be_silenced: can_be_silenced(check),
    }
}

/// Returns one check in full.
pub fn explained(check: &Check) -> String {
    let silence = match can_be_silenced(check) {
        true => format!(
            "\n\nSilence it in a file by the comment\n  # gpuctl: ignore {}",
            check.id
        ),
        false => String::new(),
    };
    format!(
        "{} ({}): {}\n\n{}{silence}\n",
        check.id,
        word(check.severity),
        check.title,
        check.why
    )
}

/// Returns the checks as a table in Markdown.
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
