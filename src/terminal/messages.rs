//! Prints messages on stderr: errors, warnings, notes and hints, as text or as JSON objects.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io::{self, BufRead};
use std::rc::Rc;

use super::{Terminal, Verbosity};
use gpuctl_core::error::Error;
use gpuctl_core::model::values::excerpt::{LINE, excerpt};
use gpuctl_manifest::spec::Problems;
use gpuctl_view::Format;
use gpuctl_view::format::errors::{
    error_json, error_text, problem_text, warning_json, warning_text,
};
use gpuctl_view::format::text::{clean, paint};

/// Maximum number of warnings that are kept for a report. A watch could warn forever.
const MOST_WARNINGS: usize = 50;

impl Terminal {
    /// Builds a terminal for the messages about one of several kubeconfig contexts. Its messages
    /// name the context, and it draws no progress.
    pub(crate) fn for_context(&self, name: &str) -> Self {
        let format = match self.is_document() {
            true => Format::Json,
            false => Format::Table,
        };
        Self {
            silent: self.silent,
            line: Rc::clone(&self.line),
            source: Some(name.to_owned()),
            verbosity: self.verbosity.clone(),
            format: RefCell::new(format),
            task: self.task.clone(),
            shows_permission_hint: Rc::clone(&self.shows_permission_hint),
            namespace_given: self.namespace_given.clone(),
            warnings: Rc::clone(&self.warnings),
            ..Self::new(self.options)
        }
    }

    /// Returns true if messages are JSON objects. With a selection, both stdout and stderr are
    /// text.
    pub(super) fn is_document(&self) -> bool {
        self.format.borrow().is_document() && self.selected.borrow().is_none()
    }

    pub(crate) fn fail(&self, error: &Error) {
        let error = match error.is_forbidden() {
            true if !self.namespace_given.get() => &error
                .clone()
                .hint(self.permission_hint("--emit-role"))
                .hint("if you have access to another namespace, add `-n NAMESPACE`"),
            true => &error.clone().hint(self.permission_hint("--emit-role")),
            false => error,
        };
        let text = if self.is_document() {
            error_json(error)
        } else {
            error_text(error, self.error_style())
        };
        self.write_stderr(&text);
    }

    pub(crate) fn warn(&self, message: &str) {
        self.warn_with(message, None);
    }

    /// Warns that data is missing for lack of a permission. The first warning also explains how to
    /// get the permission.
    pub(crate) fn warn_missing_permission(&self, message: &str) {
        let hint = (!self.shows_permission_hint.replace(true))
            .then(|| self.permission_hint("--emit-role=full"));
        self.warn_with(message, hint);
    }

    fn permission_hint(&self, flag: &str) -> String {
        let advice = "ask your cluster administrator for this permission";
        match self.task.get() {
            Some(task) => format!("{advice}; `gpuctl auth check {task} {flag}` prints the role"),
            None => advice.to_owned(),
        }
    }

    /// The distinct warnings so far.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings.borrow().clone()
    }

    pub(super) fn warn_with(&self, message: &str, hint: Option<String>) {
        let message = self.with_source(message);
        let message = &excerpt(&message, LINE);
        let mut warnings = self.warnings.borrow_mut();
        if warnings.len() < MOST_WARNINGS
            && !warnings
                .iter()
                .any(|known| known.as_str() == message.as_ref())
        {
            warnings.push(message.to_string());
        }
        drop(warnings);
        if self.is_document() {
            self.write_stderr(&warning_json(message, hint.as_slice()));
        } else if self.shows(Verbosity::Warnings) {
            self.write_stderr(&warning_text(message, hint.as_deref(), self.error_style()));
        }
    }

    /// Warns about the problems in a file.
    pub(crate) fn warn_about(&self, problems: &Problems) {
        for problem in &problems.list {
            if self.is_document() {
                self.warn(&format!(
                    "{}:{}:{}: {}",
                    problems.file, problem.at.line, problem.at.column, problem.message
                ));
            } else if self.shows(Verbosity::Warnings) {
                self.write_stderr(&problem_text(problems, problem, self.error_style()));
            }
        }
    }

    /// Prints a command to run next. JSON output does not contain it.
    pub(crate) fn hint(&self, text: &str) {
        self.has_next_hint.set(true);
        if self.stderr_is_terminal() && self.shows(Verbosity::Notes) && !self.is_document() {
            let word = paint("hint:", Some(colored::Color::Cyan), self.error_style());
            self.write_stderr(&format!("{word} {}\n", clean(text)));
        }
    }

    /// Prints the command that users usually run next. Prints nothing without such a command, or
    /// after another hint.
    pub(crate) fn suggest(&self, command: Option<&str>) {
        if let Some(command) =
            command.filter(|_| !self.has_next_hint.get() && self.stdout_is_terminal())
        {
            self.hint(command);
        }
    }

    /// Disables [`Self::suggest`].
    pub(crate) fn disable_suggestion(&self) {
        self.has_next_hint.set(true);
    }

    /// Asks a yes-or-no question. Returns true only for a clear yes.
    pub(crate) fn confirm(&self, question: &str) -> bool {
        self.line.disable_waiting();
        // Omit the line feed, so that the answer is on the line of the question.
        self.write_stderr(&format!("{} [y/N] ", clean(question)));
        let mut answer = String::new();
        let read = io::stdin().lock().read_line(&mut answer);
        read.is_ok() && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
    }

    /// Prints a message on stderr, even with `--quiet`.
    pub(crate) fn print_message(&self, text: &str) {
        self.write_stderr_line(text);
    }

    /// Prints a note, such as "no jobs" for an empty list. JSON output does not contain it.
    pub(crate) fn note(&self, text: &str) {
        if self.shows(Verbosity::Notes) && !self.is_document() {
            self.write_stderr_line(text);
        }
    }

    /// Prints a note, which becomes a warning in JSON output.
    pub(crate) fn report(&self, text: &str) {
        if self.is_document() {
            self.warn(text);
        } else {
            self.note(text);
        }
    }

    /// Prints a note. JSON output contains it only with `-v`.
    pub(crate) fn announce(&self, text: &str) {
        if self.is_document() {
            self.detail(text);
        } else {
            self.note(text);
        }
    }

    /// Prints text only with `-v`.
    pub(crate) fn detail(&self, text: &str) {
        if self.shows(Verbosity::Details) {
            self.write_stderr_line(text);
        }
    }

    /// Prints one line. Truncates it, because a server's message can have any length.
    fn write_stderr_line(&self, text: &str) {
        let text = self.with_source(text);
        self.write_stderr(&format!("{}\n", clean(&excerpt(&text, LINE))));
    }

    /// Adds the kubeconfig context that a message concerns, if a command reads several.
    fn with_source<'t>(&self, message: &'t str) -> Cow<'t, str> {
        match &self.source {
            Some(source) => format!("context {source}: {message}").into(),
            None => message.into(),
        }
    }
}
