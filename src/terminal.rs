//! Owns stdout and stderr: stdout is data, stderr is talk (`talk.rs`). The only place that writes
//! to a stream.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the edge that writes to the terminal"
)]

mod frame;
mod line;
mod pager;
pub(crate) mod raw;
pub(crate) mod request_log;
pub(crate) mod screen;
mod talk;

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::io::{self, ErrorKind, IsTerminal, Write};

use indicatif::ProgressBar;

use gpuctl_core::error::{Error, ErrorName};
use gpuctl_view::format::text::{as_plugin, harmless};
use gpuctl_view::{Format, TextStyle};

use frame::frame;
use line::ChangingLine;
use pager::Paged;

/// When to use colors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ColorChoice {
    #[default]
    Auto,
    Always,
    Never,
}

/// How much is said on stderr; each says what those before it say too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verbosity {
    Errors,
    Warnings,
    #[default]
    Notes,
    Details,
}

/// What flags and environment say about output.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TerminalOptions {
    pub color: ColorChoice,
    /// From `NO_COLOR`, `CLICOLOR_FORCE`, `CLICOLOR` and `TERM`, when the flag leaves it open.
    pub environment: Option<bool>,
    pub plain: bool,
    pub talk: Verbosity,
    /// Columns that the environment names.
    pub columns: Option<usize>,
    /// True when kubectl called the program, whose commands are then typed in another way.
    pub is_plugin: bool,
}

/// The streams of this process.
#[derive(Debug)]
pub(crate) struct Terminal {
    wishes: TerminalOptions,
    /// True when nothing is printed at all: a command runs for the questions that it asks.
    silent: bool,
    /// What was printed so far, where it shall go through a pager.
    paged: RefCell<Option<Paged>>,
    /// Data and talk go above it.
    line: ChangingLine,
    talk: Cell<Verbosity>,
    format: RefCell<Format>,
    /// The command as `auth check` names it: `get nodes`.
    task: Cell<Option<&'static str>>,
    /// True once somebody was told whom to ask for rights.
    told: Cell<bool>,
    /// True once a hint said what to type next, or where no such hint is wanted.
    is_next_told: Cell<bool>,
    /// True when the command line names a namespace; then a refusal there is no reason to hint at
    /// `-n`.
    namespace_given: Cell<bool>,
}

impl Terminal {
    pub(crate) fn new(wishes: TerminalOptions) -> Self {
        // Each text is painted for its own stream; the library's own guess is about stdout alone.
        colored::control::set_override(true);
        Self {
            wishes,
            silent: false,
            paged: RefCell::default(),
            line: ChangingLine::default(),
            talk: Cell::new(wishes.talk),
            format: RefCell::default(),
            task: Cell::default(),
            told: Cell::default(),
            is_next_told: Cell::default(),
            namespace_given: Cell::default(),
        }
    }

    /// Makes a terminal that prints nothing.
    pub(crate) fn silent() -> Self {
        Self {
            silent: true,
            ..Self::new(TerminalOptions {
                talk: Verbosity::Errors,
                ..TerminalOptions::default()
            })
        }
    }

    /// Sets the format of stdout; messages on stderr follow it.
    pub(crate) fn set_format(&self, format: Format) {
        self.format.replace(format);
    }

    /// Sets how much is said, unless a flag said how much.
    pub(crate) fn set_talk(&self, talk: Verbosity) {
        if self.wishes.talk == Verbosity::default() {
            self.talk.set(talk);
        }
    }

    /// From now on this much is said; returns how much was. For what is done once to look and once
    /// more to do it.
    pub(crate) fn swap_talk(&self, talk: Verbosity) -> Verbosity {
        self.talk.replace(talk)
    }

    fn says(&self, talk: Verbosity) -> bool {
        self.talk.get() >= talk
    }

    /// Collects data for a pager from now on, where stdout is a terminal: this command line, or the
    /// usual one.
    pub(crate) fn page_with(&self, command: Option<String>) {
        if self.out_is_terminal() {
            self.paged.replace(Some(Paged::with(command)));
        }
    }

    /// Prints without a pager from now on: what goes on until somebody ends it is nothing to leaf
    /// through.
    pub(crate) fn stream(&self) -> Result<(), Error> {
        self.line.never_wait();
        self.suggest_nothing();
        self.paged
            .take()
            .map_or(Ok(()), |paged| self.print_raw(&paged.text))
    }

    /// Shows what was collected, if a pager was asked for, and waits until the user has left it.
    pub(crate) fn show_paged(&self) -> Result<(), Error> {
        let Some(paged) = self.paged.take().filter(|paged| !paged.text.is_empty()) else {
            return Ok(());
        };
        if paged.is_shown() {
            Ok(())
        } else {
            self.print_raw(&paged.text)
        }
    }

    /// Notes whether the command line names a namespace.
    pub(crate) fn set_namespace_given(&self, given: bool) {
        self.namespace_given.set(given);
    }

    /// Sets the command that rights would be needed for.
    pub(crate) fn set_task(&self, task: Option<&'static str>) {
        self.task.set(task);
    }

    pub(crate) fn out_is_terminal(&self) -> bool {
        !self.silent && io::stdout().is_terminal()
    }

    /// Returns true when a person can answer questions.
    pub(crate) fn is_interactive(&self) -> bool {
        !self.silent && io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    pub(crate) fn in_is_terminal(&self) -> bool {
        io::stdin().is_terminal()
    }

    /// Returns how text on stdout may look.
    pub(crate) fn look(&self) -> TextStyle {
        self.look_of(self.out_is_terminal())
    }

    fn error_look(&self) -> TextStyle {
        self.look_of(io::stderr().is_terminal())
    }

    fn look_of(&self, terminal: bool) -> TextStyle {
        let color = match self.wishes.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                self.wishes.environment.unwrap_or(terminal)
                    && (terminal || self.wishes.environment == Some(true))
            }
        };
        let width = terminal.then(|| self.wishes.columns.or_else(terminal_width).unwrap_or(80));
        TextStyle {
            width,
            color,
            plain: self.wishes.plain,
        }
    }

    /// Writes data to stdout. What a terminal could obey, other than colors where they are on, is
    /// made visible.
    pub(crate) fn print(&self, text: &str) -> Result<(), Error> {
        self.print_raw(&harmless(text, self.look().color))
    }

    /// Writes what has to be as it is. A reader that went away ends the program silently, as it
    /// ends every filter.
    pub(crate) fn print_raw(&self, text: &str) -> Result<(), Error> {
        if self.write_out(text)? {
            return Ok(());
        }
        self.line.clear();
        std::process::exit(0)
    }

    /// Prints as `print` does where the program has to go on. False when the reader went away.
    pub(crate) fn offer(&self, text: &str) -> Result<bool, Error> {
        self.write_out(&harmless(text, self.look().color))
    }

    fn write_out(&self, text: &str) -> Result<bool, Error> {
        if self.silent {
            return Ok(true);
        }
        if let Some(paged) = self.paged.borrow_mut().as_mut() {
            paged.text.push_str(text);
            return Ok(true);
        }
        let written = self.line.above(|| {
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes()).and_then(|()| out.flush())
        });
        is_read(written, "to stdout")
    }

    /// Passes on what another program said, byte for byte. False when nobody reads it any more.
    pub(crate) fn pass(&self, to_stderr: bool, bytes: &[u8]) -> Result<bool, Error> {
        if self.silent {
            return Ok(true);
        }
        let written = if to_stderr {
            io::stderr().lock().write_all(bytes)
        } else {
            let mut out = io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        };
        is_read(written, "the output")
    }

    /// Clears the screen before a redraw.
    pub(crate) fn redraw(&self, text: &str, first: bool) -> Result<(), Error> {
        let rows = raw::window().map_or(usize::MAX, |(_, rows)| usize::from(rows));
        self.print_raw(&frame(&harmless(text, self.look().color), rows, first))
    }

    fn say(&self, text: &str) {
        if self.silent {
            return;
        }
        let text = if self.wishes.is_plugin {
            Cow::Owned(as_plugin(text))
        } else {
            Cow::Borrowed(text)
        };
        let text = harmless(&text, self.error_look().color);
        // Nobody is left to be told when stderr is gone.
        let _ = self
            .line
            .above(|| io::stderr().lock().write_all(text.as_bytes()));
    }

    fn err_is_terminal(&self) -> bool {
        !self.silent && io::stderr().is_terminal()
    }

    /// Returns true where lines that change are drawn.
    fn draws(&self) -> bool {
        self.says(Verbosity::Notes)
            && !self.wishes.plain
            && !self.is_document()
            && self.err_is_terminal()
    }

    /// Returns how far something long is; drawn on a terminal only.
    pub(crate) fn progress(&self, steps: u64, what: &'static str) -> ProgressBar {
        if self.draws() && steps > 1 {
            self.line.progress(steps, what)
        } else {
            ProgressBar::hidden()
        }
    }

    /// Returns a line that changes while something is awaited; drawn on a terminal only.
    pub(crate) fn spinner(&self) -> ProgressBar {
        if self.draws() {
            self.line.spinner()
        } else {
            ProgressBar::hidden()
        }
    }

    /// Lets [`Self::show_waiting`] draw: whoever had to log in has done so.
    pub(crate) fn may_show_waiting(&self) {
        self.line.may_wait();
    }

    /// Draws that answers are awaited, where a command takes longer than a second and draws no line
    /// of its own. It never ends.
    pub(crate) async fn show_waiting(&self) -> Infallible {
        self.line.waiting(|| self.draws()).await
    }

    /// Takes away the line that shows progress or waiting.
    pub(crate) fn clear_line(&self) {
        self.line.clear();
    }
}

/// Returns false when the reader went away.
fn is_read(written: io::Result<()>, what: &str) -> Result<bool, Error> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Error::new(
            ErrorName::OutputFailed,
            format!("cannot write {what}: {error}"),
        )),
    }
}

fn terminal_width() -> Option<usize> {
    terminal_size::terminal_size().map(|(terminal_size::Width(columns), _)| columns.into())
}
