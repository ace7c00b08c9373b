//! Owns stdout and stderr. Data goes to stdout and messages go to stderr (`talk.rs`). No other code
//! writes to a stream.
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

/// The verbosity on stderr. Each level includes those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verbosity {
    Errors,
    Warnings,
    #[default]
    Notes,
    Details,
}

/// Output options from flags and the environment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TerminalOptions {
    pub color: ColorChoice,
    /// From `NO_COLOR`, `CLICOLOR_FORCE`, `CLICOLOR` and `TERM`, if the flag leaves it open.
    pub environment: Option<bool>,
    pub plain: bool,
    pub talk: Verbosity,
    /// The width set in the environment.
    pub columns: Option<usize>,
    /// True if kubectl runs the program as a plugin, so that suggested commands begin differently.
    pub is_plugin: bool,
}

/// The streams of this process.
#[derive(Debug)]
pub(crate) struct Terminal {
    wishes: TerminalOptions,
    /// True if nothing is printed, because a command runs only for its requests.
    silent: bool,
    /// Output so far, if it goes to a pager.
    paged: RefCell<Option<Paged>>,
    /// The changing line; data and messages go above it.
    line: ChangingLine,
    talk: Cell<Verbosity>,
    format: RefCell<Format>,
    /// The command in the form of `auth check`: `get nodes`.
    task: Cell<Option<&'static str>>,
    /// True after the hint about how to get a permission was shown.
    told: Cell<bool>,
    /// True after a hint about the next command, or if such a hint is disabled.
    is_next_told: Cell<bool>,
    /// True if the command line names a namespace, so that a hint at `-n` would be wrong.
    namespace_given: Cell<bool>,
}

impl Terminal {
    pub(crate) fn new(options: TerminalOptions) -> Self {
        // Each text is painted for its own stream, but `colored` would only look at stdout.
        colored::control::set_override(true);
        Self {
            wishes: options,
            silent: false,
            paged: RefCell::default(),
            line: ChangingLine::default(),
            talk: Cell::new(options.talk),
            format: RefCell::default(),
            task: Cell::default(),
            told: Cell::default(),
            is_next_told: Cell::default(),
            namespace_given: Cell::default(),
        }
    }

    /// Builds a terminal that prints nothing.
    pub(crate) fn silent() -> Self {
        Self {
            silent: true,
            ..Self::new(TerminalOptions {
                talk: Verbosity::Errors,
                ..TerminalOptions::default()
            })
        }
    }

    /// Sets the format of stdout, which messages on stderr follow.
    pub(crate) fn set_format(&self, format: Format) {
        self.format.replace(format);
    }

    /// Sets the verbosity, unless a flag did.
    pub(crate) fn set_talk(&self, verbosity: Verbosity) {
        if self.wishes.talk == Verbosity::default() {
            self.talk.set(verbosity);
        }
    }

    /// Replaces the verbosity and returns the previous one, for work that is first checked silently
    /// and then done.
    pub(crate) fn swap_talk(&self, verbosity: Verbosity) -> Verbosity {
        self.talk.replace(verbosity)
    }

    fn says(&self, verbosity: Verbosity) -> bool {
        self.talk.get() >= verbosity
    }

    /// Collects output for a pager from now on, if stdout is a terminal. `command` replaces the
    /// default pager.
    pub(crate) fn page_with(&self, command: Option<String>) {
        if self.out_is_terminal() {
            self.paged.replace(Some(Paged::with(command)));
        }
    }

    /// Stops paging, because a stream without an end cannot be paged. Prints the output so far.
    pub(crate) fn stream(&self) -> Result<(), Error> {
        self.line.never_wait();
        self.suggest_nothing();
        self.paged
            .take()
            .map_or(Ok(()), |output| self.print_raw(&output.text))
    }

    /// Shows the collected output in the pager, if one was requested, and waits until the user
    /// leaves it.
    pub(crate) fn show_paged(&self) -> Result<(), Error> {
        let Some(output) = self.paged.take().filter(|output| !output.text.is_empty()) else {
            return Ok(());
        };
        if output.is_shown() {
            Ok(())
        } else {
            self.print_raw(&output.text)
        }
    }

    /// Records whether the command line names a namespace.
    pub(crate) fn set_namespace_given(&self, given: bool) {
        self.namespace_given.set(given);
    }

    /// Sets the command named in the hint when a request is forbidden.
    pub(crate) fn set_task(&self, task: Option<&'static str>) {
        self.task.set(task);
    }

    pub(crate) fn out_is_terminal(&self) -> bool {
        !self.silent && io::stdout().is_terminal()
    }

    /// Whether a person can answer questions.
    pub(crate) fn is_interactive(&self) -> bool {
        !self.silent && io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    pub(crate) fn in_is_terminal(&self) -> bool {
        io::stdin().is_terminal()
    }

    /// Determines the style of text on stdout.
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

    /// Writes data to stdout. Escapes control sequences other than enabled colors, so that the
    /// terminal does not execute them.
    pub(crate) fn print(&self, text: &str) -> Result<(), Error> {
        self.print_raw(&harmless(text, self.look().color))
    }

    /// Writes text unchanged. If the reader has closed the pipe, the program exits silently, as
    /// filters do.
    pub(crate) fn print_raw(&self, text: &str) -> Result<(), Error> {
        if self.write_out(text)? {
            return Ok(());
        }
        self.line.clear();
        std::process::exit(0)
    }

    /// Prints like `print`, for a program that must continue. False if the reader has closed the
    /// pipe.
    pub(crate) fn offer(&self, text: &str) -> Result<bool, Error> {
        self.write_out(&harmless(text, self.look().color))
    }

    fn write_out(&self, text: &str) -> Result<bool, Error> {
        if self.silent {
            return Ok(true);
        }
        if let Some(output) = self.paged.borrow_mut().as_mut() {
            output.text.push_str(text);
            return Ok(true);
        }
        let result = self.line.above(|| {
            let mut stdout = io::stdout().lock();
            stdout
                .write_all(text.as_bytes())
                .and_then(|()| stdout.flush())
        });
        is_read(result, "to stdout")
    }

    /// Forwards another program's output byte for byte. False if its reader has closed the pipe.
    pub(crate) fn pass(&self, to_stderr: bool, bytes: &[u8]) -> Result<bool, Error> {
        if self.silent {
            return Ok(true);
        }
        let result = if to_stderr {
            io::stderr().lock().write_all(bytes)
        } else {
            let mut stdout = io::stdout().lock();
            stdout.write_all(bytes).and_then(|()| stdout.flush())
        };
        is_read(result, "the output")
    }

    /// Redraws a watched table in place.
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
        // No stream is left to report a failure of stderr.
        let _ = self
            .line
            .above(|| io::stderr().lock().write_all(text.as_bytes()));
    }

    fn err_is_terminal(&self) -> bool {
        !self.silent && io::stderr().is_terminal()
    }

    /// Whether changing lines are drawn.
    fn draws(&self) -> bool {
        self.says(Verbosity::Notes)
            && !self.wishes.plain
            && !self.is_document()
            && self.err_is_terminal()
    }

    /// Creates a progress bar, drawn on a terminal only.
    pub(crate) fn progress(&self, steps: u64, label: &'static str) -> ProgressBar {
        if self.draws() && steps > 1 {
            self.line.progress(steps, label)
        } else {
            ProgressBar::hidden()
        }
    }

    /// Creates a spinner, drawn on a terminal only.
    pub(crate) fn spinner(&self) -> ProgressBar {
        if self.draws() {
            self.line.spinner()
        } else {
            ProgressBar::hidden()
        }
    }

    /// Allows [`Self::show_waiting`] to draw, after any login prompt.
    pub(crate) fn may_show_waiting(&self) {
        self.line.may_wait();
    }

    /// Draws a spinner if a command takes longer than a second and draws no other line. The future
    /// never resolves.
    pub(crate) async fn show_waiting(&self) -> Infallible {
        self.line.waiting(|| self.draws()).await
    }

    /// Removes the progress bar or spinner.
    pub(crate) fn clear_line(&self) {
        self.line.clear();
    }
}

/// False if the reader has closed the pipe.
fn is_read(result: io::Result<()>, target: &str) -> Result<bool, Error> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Error::new(
            ErrorName::OutputFailed,
            format!("cannot write {target}: {error}"),
        )),
    }
}

fn terminal_width() -> Option<usize> {
    terminal_size::terminal_size().map(|(terminal_size::Width(columns), _)| columns.into())
}
