//! Owns stdout and stderr; no other code writes to a stream. Data goes to stdout, and messages
//! (`terminal/messages.rs`) go to stderr.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the edge that writes to the terminal"
)]

mod frame;
mod line;
mod messages;
mod pager;
pub(crate) mod raw;
pub(crate) mod request_log;
pub(crate) mod screen;
mod selected;

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::rc::Rc;

use indicatif::ProgressBar;

use gpuctl_core::error::{Error, ErrorName};
use gpuctl_view::format::selection::OutputSelection;
use gpuctl_view::format::text::{as_plugin, sanitized};
use gpuctl_view::{Format, TextStyle};

use frame::frame;
use line::ChangingLine;
use pager::PagerOutput;
use selected::SelectedOutput;

/// When to use colors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ColorChoice {
    #[default]
    Auto,
    Always,
    Never,
}

/// Verbosity of messages on stderr. Each level includes the previous ones.
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
    /// Whether `NO_COLOR`, `CLICOLOR_FORCE`, `CLICOLOR` or `TERM` enables colors. Used if no flag
    /// decides.
    pub environment: Option<bool>,
    pub plain: bool,
    pub verbosity: Verbosity,
    /// Width of the terminal according to the environment.
    pub columns: Option<usize>,
    /// Whether kubectl runs the program as a plugin, so that suggested commands begin with
    /// `kubectl`.
    pub is_plugin: bool,
}

/// The output streams of this process.
#[derive(Debug)]
pub(crate) struct Terminal {
    options: TerminalOptions,
    /// Whether to print nothing, for commands that only run to record their requests.
    silent: bool,
    /// Output so far, if it goes to a pager.
    pager_output: RefCell<Option<PagerOutput>>,
    /// The line that changes during a wait. Data and messages are printed above the line.
    line: Rc<ChangingLine>,
    /// The kubeconfig context that messages name, if a command reads several.
    source: Option<String>,
    verbosity: Cell<Verbosity>,
    format: RefCell<Format>,
    /// Selected parts of the JSON output, or `None` to print all of it.
    selected: RefCell<Option<SelectedOutput>>,
    /// Name of the command in `auth check`, such as `get nodes`.
    task: Cell<Option<&'static str>>,
    /// Whether the hint about missing permissions has been printed.
    shows_permission_hint: Rc<Cell<bool>>,
    /// Whether a hint about the next command has been printed, or such hints are disabled.
    has_next_hint: Cell<bool>,
    /// Whether the command line names a namespace, so that a hint about `-n` would be wrong.
    namespace_given: Cell<bool>,
    /// The first warnings, which a report repeats for readers who do not see stderr.
    warnings: Rc<RefCell<Vec<String>>>,
}

impl Terminal {
    pub(crate) fn new(options: TerminalOptions) -> Self {
        // Each text is colored according to its own stream, but `colored` would only check stdout.
        colored::control::set_override(true);
        Self {
            options,
            silent: false,
            pager_output: RefCell::default(),
            line: Rc::default(),
            source: None,
            verbosity: Cell::new(options.verbosity),
            format: RefCell::default(),
            selected: RefCell::default(),
            task: Cell::default(),
            shows_permission_hint: Rc::default(),
            has_next_hint: Cell::default(),
            namespace_given: Cell::default(),
            warnings: Rc::default(),
        }
    }

    /// Builds a terminal that prints nothing.
    pub(crate) fn silent() -> Self {
        Self {
            silent: true,
            ..Self::new(TerminalOptions {
                verbosity: Verbosity::Errors,
                ..TerminalOptions::default()
            })
        }
    }

    /// Sets the format of stdout, which also determines the format of messages on stderr.
    pub(crate) fn set_format(&self, format: Format) {
        self.format.replace(format);
    }

    /// Sets the verbosity, unless a flag has set it.
    pub(crate) fn set_verbosity(&self, verbosity: Verbosity) {
        if self.options.verbosity == Verbosity::default() {
            self.verbosity.set(verbosity);
        }
    }

    /// Replaces the verbosity and returns the previous one, for work that is checked silently
    /// before it is done.
    pub(crate) fn swap_verbosity(&self, verbosity: Verbosity) -> Verbosity {
        self.verbosity.replace(verbosity)
    }

    fn shows(&self, verbosity: Verbosity) -> bool {
        self.verbosity.get() >= verbosity
    }

    /// Collects further output for a pager if stdout is a terminal. `command` replaces the default
    /// pager.
    pub(crate) fn page_with(&self, command: Option<String>) {
        if self.stdout_is_terminal() {
            self.pager_output.replace(Some(PagerOutput::new(command)));
        }
    }

    /// Stops paging and prints the output so far, because an endless stream cannot be paged.
    pub(crate) fn stream(&self) -> Result<(), Error> {
        self.line.disable_waiting();
        self.disable_suggestion();
        self.pager_output
            .take()
            .map_or(Ok(()), |output| self.print_raw(&output.text))
    }

    /// Shows the collected output in the pager, if requested, and waits until the user leaves the
    /// pager.
    pub(crate) fn show_in_pager(&self) -> Result<(), Error> {
        let Some(output) = self
            .pager_output
            .take()
            .filter(|output| !output.text.is_empty())
        else {
            return Ok(());
        };
        if output.show() {
            Ok(())
        } else {
            self.print_raw(&output.text)
        }
    }

    /// Records whether the command line names a namespace.
    pub(crate) fn set_namespace_given(&self, given: bool) {
        self.namespace_given.set(given);
    }

    /// Sets the command that the hint names when a request is forbidden.
    pub(crate) fn set_task(&self, task: Option<&'static str>) {
        self.task.set(task);
    }

    pub(crate) fn stdout_is_terminal(&self) -> bool {
        !self.silent && io::stdout().is_terminal()
    }

    /// Returns true if a user at a terminal can answer questions.
    pub(crate) fn is_interactive(&self) -> bool {
        !self.silent && io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    pub(crate) fn stdin_is_terminal(&self) -> bool {
        io::stdin().is_terminal()
    }

    /// Returns the style of text on stdout.
    pub(crate) fn style(&self) -> TextStyle {
        self.style_for(self.stdout_is_terminal())
    }

    fn error_style(&self) -> TextStyle {
        self.style_for(io::stderr().is_terminal())
    }

    fn style_for(&self, terminal: bool) -> TextStyle {
        let color = match self.options.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                self.options.environment.unwrap_or(terminal)
                    && (terminal || self.options.environment == Some(true))
            }
        };
        let width = terminal.then(|| self.options.columns.or_else(terminal_width).unwrap_or(80));
        TextStyle {
            width,
            color,
            plain: self.options.plain,
        }
    }

    /// Prints only the selected parts of further JSON output. `headers` includes column titles.
    pub(crate) fn select(&self, selection: OutputSelection, headers: bool) {
        let selected = SelectedOutput::new(selection, headers);
        self.selected.replace(Some(selected));
    }

    /// Applies the selection, if any, to the output of a command.
    fn selected<'t>(&self, text: &'t str) -> Result<Cow<'t, str>, Error> {
        match self.selected.borrow().as_ref() {
            Some(selected) => selected.apply(text, self.style(), |message, hint| {
                self.warn_with(message, Some(hint));
            }),
            None => Ok(Cow::Borrowed(text)),
        }
    }

    /// Writes data to stdout. Escapes control sequences except those of enabled colors, so that the
    /// terminal does not execute them.
    pub(crate) fn print(&self, text: &str) -> Result<(), Error> {
        let text = self.selected(text)?;
        self.print_raw(&sanitized(&text, self.style().color))
    }

    /// Writes text unchanged. If the reader has closed the pipe, ends the program silently, as
    /// filters do.
    pub(crate) fn print_raw(&self, text: &str) -> Result<(), Error> {
        if self.write_out(text)? {
            return Ok(());
        }
        self.line.clear();
        std::process::exit(0)
    }

    /// Like `print`, for programs that continue after the reader has closed the pipe. Returns false
    /// in that case.
    pub(crate) fn try_print(&self, text: &str) -> Result<bool, Error> {
        let text = self.selected(text)?;
        self.write_out(&sanitized(&text, self.style().color))
    }

    fn write_out(&self, text: &str) -> Result<bool, Error> {
        if self.silent {
            return Ok(true);
        }
        if let Some(output) = self.pager_output.borrow_mut().as_mut() {
            output.text.push_str(text);
            return Ok(true);
        }
        let result = self.line.with_line_hidden(|| {
            let mut stdout = io::stdout().lock();
            stdout
                .write_all(text.as_bytes())
                .and_then(|()| stdout.flush())
        });
        pipe_is_open(result, "to stdout")
    }

    /// Writes another program's output unchanged. Returns false if the reader has closed the pipe.
    pub(crate) fn forward(&self, to_stderr: bool, bytes: &[u8]) -> Result<bool, Error> {
        if self.silent {
            return Ok(true);
        }
        let result = if to_stderr {
            io::stderr().lock().write_all(bytes)
        } else {
            let mut stdout = io::stdout().lock();
            stdout.write_all(bytes).and_then(|()| stdout.flush())
        };
        pipe_is_open(result, "the output")
    }

    /// Replaces the watched table on the screen.
    pub(crate) fn redraw(&self, text: &str, first: bool) -> Result<(), Error> {
        let rows = raw::window().map_or(usize::MAX, |(_, rows)| usize::from(rows));
        self.print_raw(&frame(&sanitized(text, self.style().color), rows, first))
    }

    fn write_stderr(&self, text: &str) {
        if self.silent {
            return;
        }
        let text = if self.options.is_plugin {
            Cow::Owned(as_plugin(text))
        } else {
            Cow::Borrowed(text)
        };
        let text = sanitized(&text, self.error_style().color);
        // An error of stderr cannot be reported anywhere.
        let _ = self
            .line
            .with_line_hidden(|| io::stderr().lock().write_all(text.as_bytes()));
    }

    pub(crate) fn stderr_is_terminal(&self) -> bool {
        !self.silent && io::stderr().is_terminal()
    }

    /// Returns true if the changing line is drawn.
    fn draws_progress(&self) -> bool {
        self.source.is_none()
            && self.shows(Verbosity::Notes)
            && !self.options.plain
            && !self.is_document()
            && self.stderr_is_terminal()
    }

    /// Creates a progress bar, which is drawn only on a terminal.
    pub(crate) fn progress(&self, steps: u64, label: &'static str) -> ProgressBar {
        if self.draws_progress() && steps > 1 {
            self.line.progress(steps, label)
        } else {
            ProgressBar::hidden()
        }
    }

    /// Creates a spinner, which is drawn only on a terminal.
    pub(crate) fn spinner(&self) -> ProgressBar {
        if self.draws_progress() {
            self.line.spinner()
        } else {
            ProgressBar::hidden()
        }
    }

    /// Allows [`Self::show_waiting`] to draw, after any login prompt.
    pub(crate) fn allow_waiting_line(&self) {
        self.line.allow_waiting();
    }

    /// Draws a spinner if a command takes longer than a second and draws no other line. The future
    /// never resolves.
    pub(crate) async fn show_waiting(&self) -> Infallible {
        self.line.show_waiting(|| self.draws_progress()).await
    }

    pub(crate) fn clear_line(&self) {
        self.line.clear();
    }
}

/// Converts a broken pipe into `Ok(false)`, and other errors into an error about `target`.
fn pipe_is_open(result: io::Result<()>, target: &str) -> Result<bool, Error> {
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
