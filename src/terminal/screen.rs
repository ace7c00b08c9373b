//! The whole screen for a view that lives: taken, drawn without flicker, given to another program
//! for a while, and left as it was found, also by a panic.
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

/// Clicks and the wheel, in their own encoding; the library's own words ask for every movement,
/// too, each of which is an event.
const CLICKS: &str = "\u{1b}[?1000h\u{1b}[?1006h";
const NO_CLICKS: &str = "\u{1b}[?1006l\u{1b}[?1000l";

/// The screen while this value lives.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

/// Keys, clicks and new sizes. While one is there, it alone reads the keyboard.
pub(crate) struct InputEvents(EventStream);

impl InputEvents {
    /// Waits for the next one; `None` when there will be none.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        self.0.next().await?.ok()
    }

    /// Waits for a key; for the end where there will be none.
    pub(crate) async fn key(&mut self) {
        while !matches!(self.next().await, Some(Event::Key(_)) | None) {}
    }
}

impl Screen {
    /// Takes the screen.
    pub(crate) fn enter() -> Result<Self, Error> {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            usual(panic);
        }));
        take()
            .map(|terminal| Self { terminal })
            .map_err(|error| failed(&error))
    }

    pub(crate) fn events(&self) -> InputEvents {
        InputEvents(EventStream::new())
    }

    /// Draws what has changed.
    pub(crate) fn draw(&mut self, render: impl FnOnce(&mut Frame<'_>)) -> Result<(), Error> {
        self.terminal
            .draw(render)
            .map(|_| ())
            .map_err(|error| failed(&error))
    }

    /// Gives the screen to somebody else.
    pub(crate) fn leave(&self) {
        give_back();
    }

    /// Hears keys while somebody else's last words are still to be read.
    pub(crate) fn keys_alone(&self) -> Result<InputEvents, Error> {
        enable_raw_mode().map_err(|error| failed(&error))?;
        Ok(self.events())
    }

    /// Takes it again, and draws everything anew.
    pub(crate) fn return_to(&mut self) -> Result<(), Error> {
        self.terminal = take().map_err(|error| failed(&error))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// A new value draws all of an empty screen. (The library's own way to clear one asks where the
/// cursor is, which not every terminal answers.)
fn take() -> io::Result<Terminal<CrosstermBackend<Stdout>>> {
    let taken = enable_raw_mode()
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
    if taken.is_err() {
        give_back();
    }
    taken
}

/// A terminal that went away is not left any more.
fn give_back() {
    let _ = execute!(io::stdout(), Print(NO_CLICKS), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

fn failed(error: &io::Error) -> Error {
    Error::new(
        ErrorName::OutputFailed,
        format!("cannot use the screen: {error}"),
    )
    .hint("`gpuctl top --once` prints a table")
}
