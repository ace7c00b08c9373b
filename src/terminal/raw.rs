//! Puts the terminal into raw mode for work inside a container, and reports its window size.

use std::io::{self, Read};

use bytes::Bytes;
use rustix::termios::{self, OptionalActions, Termios};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// Keys go to the program and not to this terminal's line editor, Ctrl-C among them. Ends when it is dropped.
pub(crate) struct RawMode {
    before: Termios,
}

impl RawMode {
    /// Fails when stdin is no terminal.
    pub(crate) fn enter() -> io::Result<Self> {
        let before = termios::tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        termios::tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Self { before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // Nothing is left to be done about a terminal that went away.
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Returns the signal that ends this process from outside, as its number. It is caught from the call on, so that whoever waits
/// for it can tidy up first.
pub(crate) fn ended_from_outside() -> impl Future<Output = u8> {
    let signals = [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    async move {
        let [Ok(mut hangup), Ok(mut interrupt), Ok(mut terminate)] = signals else { return std::future::pending().await };
        tokio::select! {
            _ = hangup.recv() => 1,
            _ = interrupt.recv() => INTERRUPT,
            _ = terminate.recv() => 15,
        }
    }
}

/// The number of Ctrl-C's signal.
pub(crate) const INTERRUPT: u8 = 2;

/// Returns what is typed or piped in. A thread of its own reads it, for a read of stdin cannot be given up; it ends with the
/// process.
#[must_use]
pub(crate) fn stdin() -> mpsc::Receiver<Bytes> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        let mut bytes = vec![0; 16 << 10];
        while let Ok(count @ 1..) = io::stdin().lock().read(&mut bytes) {
            if sender.blocking_send(Bytes::copy_from_slice(&bytes[..count])).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Tells each time that the size of the window has changed.
pub(crate) fn window_changes() -> io::Result<Signal> {
    signal(SignalKind::window_change())
}

/// Columns and rows.
#[must_use]
pub(crate) fn window() -> Option<(u16, u16)> {
    terminal_size::terminal_size().map(|(columns, rows)| (columns.0, rows.0))
}
