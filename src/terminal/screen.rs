//! The full screen of `gpuctl top`. It is drawn without flicker, can be left for another program,
//! and is restored at the end, even after a panic.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the edge that writes to the terminal"
)]

use std::io::{self, Stdout};

use crossterm::cursor::{Hide, Show};
use crossterm::event::{Event, EventStream};
use crossterm::execute;
use crossterm::style::Print;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use futures::StreamExt;
use ratatui::backend::CrosstermBackend;
use ratatui::{Frame, Terminal};

use gpuctl_core::error::{Error, ErrorName};

/// Enables reports about clicks and the mouse wheel, in SGR encoding. crossterm's mouse capture
/// would also report every movement.
const CLICKS: &str = "\u{1b}[?1000h\u{1b}[?1006h";
const NO_CLICKS: &str = "\u{1b}[?1006l\u{1b}[?1000l";

/// The full screen. Dropping it restores the terminal.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

/// Keys, clicks and changes of the window size. While it exists, no other code may read the
/// keyboard.
pub(crate) struct InputEvents(EventStream);

impl InputEvents {
    /// Waits for the next event. Returns `None` at the end of the input.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        self.0.next().await?.ok()
    }

    /// Waits for a key press, or for the end of the input.
    pub(crate) async fn key(&mut self) {
        while !matches!(self.next().await, Some(Event::Key(_)) | None) {}
    }
}

impl Screen {
    /// Enters the full screen.
    pub(crate) fn enter() -> Result<Self, Error> {
        // Restore the terminal before the panic message is printed. Otherwise the message would
        // disappear with the full screen.
        let default_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore_terminal();
            default_hook(panic);
        }));
        set_up()
            .map(|terminal| Self { terminal })
            .map_err(|error| failed(&error))
    }

    pub(crate) fn events(&self) -> InputEvents {
        InputEvents(EventStream::new())
    }

    /// Draws what has changed since the last frame.
    pub(crate) fn draw(&mut self, render: impl FnOnce(&mut Frame<'_>)) -> Result<(), Error> {
        self.terminal
            .draw(render)
            .map(|_| ())
            .map_err(|error| failed(&error))
    }

    /// Leaves the full screen for another program.
    pub(crate) fn leave(&self) {
        restore_terminal();
    }

    /// Reads keys while the output of another program is visible.
    pub(crate) fn events_without_screen(&self) -> Result<InputEvents, Error> {
        enable_raw_mode().map_err(|error| failed(&error))?;
        Ok(self.events())
    }

    /// Enters the full screen again and redraws everything.
    pub(crate) fn return_to(&mut self) -> Result<(), Error> {
        self.terminal = set_up().map_err(|error| failed(&error))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore_terminal();
    }
}

/// Creates a terminal whose first frame redraws everything. ratatui's `clear` would query the
/// cursor position, which some terminals do not report.
fn set_up() -> io::Result<Terminal<CrosstermBackend<Stdout>>> {
    let result = enable_raw_mode()
        .and_then(|()| {
            execute!(
                io::stdout(),
                EnterAlternateScreen,
                Print(CLICKS),
                Hide,
                Clear(ClearType::All)
            )
        })
        .and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
    if result.is_err() {
        restore_terminal();
    }
    result
}

/// Ignores errors, because the terminal may have been closed.
fn restore_terminal() {
    let _ = execute!(io::stdout(), Print(NO_CLICKS), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

fn failed(error: &io::Error) -> Error {
    Error::new(
        ErrorName::OutputFailed,
        format!("cannot set up the terminal: {error}"),
    )
    .hint("use `gpuctl top --once` to print a table")
}
