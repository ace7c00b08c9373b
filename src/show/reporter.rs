//! Prints events of a workflow to the terminal as they occur.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use crate::deploy::events::{DeployEvent, Done, Reporter};
use crate::terminal::{Terminal, Verbosity};
use gpuctl_core::error::Error;
use gpuctl_view::Format;
use gpuctl_view::jobs::created::{made_text, text};

/// Interval between progress lines if there is no terminal. CI systems stop a step that prints
/// nothing for several minutes.
pub(super) const BEAT: Duration = Duration::from_secs(60);

/// Reporter of a workflow that prints to the command's terminal.
pub(crate) struct TerminalReporter<'t> {
    terminal: &'t Terminal,
    format: Format,
    /// False if the caller already shows its own progress line.
    shows_waiting: bool,
    line: RefCell<Option<ProgressBar>>,
    /// When the current wait began or last printed a line.
    beat: Cell<Instant>,
    /// The verbosity before the workflow's silent check, to be restored afterwards.
    verbosity: Cell<Verbosity>,
}

impl<'t> TerminalReporter<'t> {
    pub(crate) fn new(terminal: &'t Terminal, format: Format) -> Self {
        Self {
            terminal,
            format,
            shows_waiting: true,
            line: RefCell::default(),
            beat: Cell::new(Instant::now()),
            verbosity: Cell::default(),
        }
    }

    pub(crate) fn without_waiting(self) -> Self {
        Self {
            shows_waiting: false,
            ..self
        }
    }
}

impl Reporter for TerminalReporter<'_> {
    fn report(&self, event: DeployEvent<'_>) {
        let terminal = self.terminal;
        match event {
            DeployEvent::Task(task) => terminal.set_task(task),
            DeployEvent::ReadingBegins => self
                .verbosity
                .set(terminal.swap_verbosity(Verbosity::Errors)),
            DeployEvent::ReadingEnds => drop(terminal.swap_verbosity(self.verbosity.get())),
            DeployEvent::Warning(message) => terminal.warn(message),
            DeployEvent::MissingRight(message) => terminal.warn_missing_permission(message),
            DeployEvent::Note(message) => terminal.note(message),
            DeployEvent::Report(message) => terminal.report(message),
            DeployEvent::Announcement(message) => terminal.announce(message),
            DeployEvent::Detail(message) => terminal.detail(message),
            DeployEvent::Problems(problems) => terminal.warn_about(problems),
            DeployEvent::Failed(error) => terminal.fail(error),
            DeployEvent::WaitBegins => {
                let line = self.shows_waiting.then(|| terminal.spinner());
                self.line.replace(line);
                self.beat.set(Instant::now());
            }
            DeployEvent::Waiting(condition) => {
                if let Some(line) = &*self.line.borrow() {
                    line.set_message(condition.to_owned());
                }
                if self.next_beat().is_some_and(|beat| Instant::now() >= beat) {
                    terminal.report(condition);
                    self.beat.set(Instant::now());
                }
            }
            DeployEvent::WaitEnds => {
                if let Some(line) = self.line.take() {
                    line.finish_and_clear();
                }
            }
        }
    }

    fn done(&self, document: Done<'_>) -> Result<bool, Error> {
        if self.format.is_document() {
            return Ok(true);
        }
        match document {
            Done::Shared(objects) => self.terminal.print(&made_text(objects)).map(|()| true),
            Done::DryRun(created) => self.terminal.print(&text(created)).map(|()| true),
            // Write the remaining documents even if the reader has closed the pipe.
            Done::Written(created) => self.terminal.try_print(&text(created)),
        }
    }

    fn next_beat(&self) -> Option<Instant> {
        let beats = self.shows_waiting && !self.terminal.stderr_is_terminal();
        beats.then(|| self.beat.get() + BEAT)
    }

    fn confirm(&self, question: &str) -> bool {
        self.terminal.confirm(question)
    }
}
