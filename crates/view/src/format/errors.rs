//! Renders errors, warnings and the problems of a file, as text or as one JSON object per line.

use colored::Color;
use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::error::Error;
use gpuctl_core::model::secrets::secret_spans;
use gpuctl_manifest::spec::{Problem, Problems, Severity, secrets_in};

use super::text::{clean, paint};
use crate::TextStyle;

/// Renders `error: …`, followed by its causes, notes, problems and hints.
pub fn error_text(error: &Error, style: TextStyle) -> String {
    let mut text = format!(
        "{} {}\n",
        paint("error:", Some(Color::Red), style),
        wrapped(&error.message, 7, style)
    );
    for cause in &error.causes {
        text.push_str(&format!("  caused by: {}\n", wrapped(cause, 13, style)));
    }
    for note in error.notes.iter() {
        text.push_str(&format!("  note: {}\n", wrapped(note, 8, style)));
    }
    if let Some(problems) = &error.problems {
        for problem in &problems.list {
            text.push_str(&problem_text(problems, problem, style));
        }
    }
    if !error.hints.is_empty() {
        text.push('\n');
    }
    for hint in &error.hints {
        text.push_str(&format!(
            "{} {}\n",
            paint("hint:", Some(Color::Cyan), style),
            wrapped(hint, 6, style)
        ));
    }
    text
}

/// Wraps a text at words, except that a command stays on one line, so that users can copy it.
fn wrapped(text: &str, indent: usize, style: TextStyle) -> String {
    let text = clean(text);
    let is_command = text.starts_with("gpuctl ") || text.starts_with("kubectl ");
    if is_command {
        text.into_owned()
    } else {
        super::text::wrapped(&text, indent, style)
    }
}

/// Renders a problem with its position and source line.
pub fn problem_text(problems: &Problems, problem: &Problem, style: TextStyle) -> String {
    rendered(problems, problem, "", style)
}

/// Renders a problem with the id of its check, position and source line.
pub(crate) fn checked_text(problems: &Problems, problem: &Problem, style: TextStyle) -> String {
    rendered(problems, problem, &format!(" [{}]", problem.id), style)
}

fn rendered(problems: &Problems, problem: &Problem, id: &str, style: TextStyle) -> String {
    let position = problem.at;
    let (color, label) = if problem.severity == Severity::Error {
        (Color::Red, "")
    } else {
        (Color::Yellow, "warning: ")
    };
    // `--set` values have no position in the file.
    let location = if position.line == 0 {
        "--set".to_owned()
    } else {
        format!(
            "{}:{}:{}",
            clean(&problems.file),
            position.line,
            position.column
        )
    };
    let message = super::text::wrapped(
        &format!("{location}: {label}{}", clean(&problem.message)),
        4,
        style,
    );
    let mut text = format!(
        "  {message}{}\n",
        paint(id, Some(Color::BrightBlack), style)
    );
    let note = if problem.note.is_empty() {
        String::new()
    } else {
        format!(" {}", clean(&problem.note))
    };
    let Some(line) = problems
        .line(problem)
        .map(|line| starred(line, problems, problem))
    else {
        text.push_str(&format!("   {note}\n"));
        return text;
    };
    let number = position.line.to_string();
    let gap = " ".repeat(number.len());
    let excerpt = Excerpt::around(&line, problem, style);
    let marks = paint(&"^".repeat(excerpt.marked), Some(color), style);
    text.push_str(format!("    {number} | {}", clean(&excerpt.shown)).trim_end());
    text.push_str(&format!(
        "\n    {gap} | {}{marks}",
        " ".repeat(excerpt.before)
    ));
    let indent = number.len() + 7;
    let end = indent + excerpt.before + excerpt.marked + columns(&note);
    match style.width.filter(|width| end > *width) {
        // Print a note below the marks if it does not fit after them.
        Some(_) => {
            let note = super::text::wrapped(note.trim_start(), indent, style).replace(
                &format!("\n{}", " ".repeat(indent)),
                &format!("\n    {gap} | "),
            );
            text.push_str(&format!("\n    {gap} | {note}\n"));
        }
        None => text.push_str(&format!("{note}\n")),
    }
    text
}

/// The part of a source line around a problem, in terminal columns.
struct Excerpt {
    shown: String,
    /// Width of the text before the problem.
    before: usize,
    /// Width of the problem, at least 1.
    marked: usize,
}

impl Excerpt {
    /// Truncates a long line around the problem.
    fn around(line: &str, problem: &Problem, style: TextStyle) -> Self {
        let position = problem.at;
        let first = position.column.saturating_sub(1);
        let digits = position.line.to_string().len();
        let available = style.width.map_or(LINE, |width| {
            width.saturating_sub(digits + 8).clamp(44, LINE)
        });
        let is_long = line.chars().count() > available;
        let hidden = if is_long {
            first.saturating_sub(available - 40)
        } else {
            0
        };
        let mut shown: String = line.chars().skip(hidden).take(available).collect();
        let mut prefix: String = line.chars().skip(hidden).take(first - hidden).collect();
        if hidden > 0 {
            (shown, prefix) = (format!("…{shown}"), format!("…{prefix}"));
        }
        let prefix_width = columns(&prefix);
        let marked: String = line
            .chars()
            .skip(first)
            .take(position.width.min(LINE))
            .collect();
        Self {
            shown,
            before: prefix_width,
            marked: columns(&marked).clamp(1, available.saturating_sub(prefix_width).max(1)),
        }
    }
}

/// Returns the width of a text in terminal columns.
fn columns(text: &str) -> usize {
    clean(text).chars().map(width).sum()
}

/// Replaces the characters of secrets in a source line with stars, without changing the columns. CI
/// systems print and store error messages.
fn starred(line: &str, problems: &Problems, problem: &Problem) -> String {
    let stars = |secret: &str| "*".repeat(secret.chars().count());
    let mut shown = String::with_capacity(line.len());
    let mut end = 0;
    for span in secret_spans(line) {
        shown.push_str(&line[end..span.start]);
        shown.push_str(&stars(&line[span.clone()]));
        end = span.end;
    }
    shown.push_str(&line[end..]);
    // Skip files with errors. They have no values, and parsing them again for each of a thousand
    // errors would be slow.
    let values = if problem.severity == Severity::Warning {
        secrets_in(&problems.text)
    } else {
        Vec::new()
    };
    values
        .iter()
        .fold(shown, |shown, secret| shown.replace(secret, &stars(secret)))
}

/// Maximum number of characters shown of a source line.
const LINE: usize = 100;

/// Returns the width of a character in terminal columns.
fn width(c: char) -> usize {
    unicode_width::UnicodeWidthChar::width(c).unwrap_or(1)
}

/// A line on stderr when stdout is a document.
#[derive(JsonSchema, Serialize)]
pub(crate) struct ErrorDocument<'a> {
    /// Name of the error, such as `NotFound`; `Warning` for a warning.
    error: String,
    /// Decides the exit code: `request` (1), `usage` (2), `specification` (3), `not_found` (4),
    /// `access` (5), `unreachable` (6), `timeout` (7), `job_ended` (10), `interrupted` (130) or
    /// `terminated` (143). `warning` for a warning.
    kind: &'static str,
    message: &'a str,
    causes: &'a [String],
    /// Facts that did not cause the error, such as objects that it left behind.
    notes: &'a [String],
    hints: &'a [String],
    /// The file with the problem; `null` when the problem is not in a file.
    file: Option<&'a str>,
    /// Starts at 1.
    line: Option<usize>,
    /// Starts at 1.
    column: Option<usize>,
}

/// Renders an error as JSON objects, one per line: an object for each problem of a file, or one
/// object for any other error.
pub fn error_json(error: &Error) -> String {
    let object = |message: &str, hints: &[String], location: Option<(&Problems, &Problem)>| {
        let warning = location.is_some_and(|(_, problem)| problem.severity == Severity::Warning);
        let (name, kind) = if warning {
            ("Warning".to_owned(), "warning")
        } else {
            (error.name.to_string(), error.kind.word())
        };
        let location = location.filter(|(_, problem)| problem.at.line > 0);
        let document = ErrorDocument {
            error: name,
            kind,
            message,
            causes: &error.causes,
            notes: &error.notes,
            hints,
            file: location.map(|(problems, _)| &*problems.file),
            line: location.map(|(_, problem)| problem.at.line),
            column: location.map(|(_, problem)| problem.at.column),
        };
        format!("{}\n", crate::json_line(&document))
    };
    match &error.problems {
        None => object(&error.message, &error.hints, None),
        Some(problems) => problems
            .list
            .iter()
            .map(|problem| {
                let note = Some(problem.note.clone()).filter(|note| !note.is_empty());
                let hints = note.into_iter().chain(error.hints.clone());
                object(
                    &problem.message,
                    &hints.collect::<Vec<_>>(),
                    Some((problems, problem)),
                )
            })
            .collect(),
    }
}

pub fn warning_text(message: &str, hint: Option<&str>, style: TextStyle) -> String {
    let mut text = format!(
        "{} {}\n",
        paint("warning:", Some(Color::Yellow), style),
        wrapped(message, 9, style)
    );
    if let Some(hint) = hint {
        text.push_str(&format!(
            "{} {}\n",
            paint("hint:", Some(Color::Cyan), style),
            clean(hint)
        ));
    }
    text
}

/// Renders a warning as a JSON object on one line.
pub fn warning_json(message: &str, hints: &[String]) -> String {
    let document = ErrorDocument {
        error: "Warning".to_owned(),
        kind: "warning",
        message,
        causes: &[],
        notes: &[],
        hints,
        file: None,
        line: None,
        column: None,
    };
    format!("{}\n", crate::json_line(&document))
}
