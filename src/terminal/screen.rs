//! Uses the terminal's alternate screen for refreshed views, and restores the shell's lines at the end.

use std::io::{self, Write};

use crate::platform::RawMode;

/// The screen while this value lives.
pub(crate) struct Screen {
    /// Keys come one by one, where stdin is a terminal.
    raw: Option<RawMode>,
}

impl Screen {
    #[must_use]
    pub(crate) fn enter() -> Self {
        let screen = Self { raw: RawMode::enter().ok() };
        write("\u{1b}[?1049h\u{1b}[?25l");
        screen
    }

    /// Returns true when keys can be waited for.
    #[must_use]
    pub(crate) fn has_keys(&self) -> bool {
        self.raw.is_some()
    }

    /// Replaces what is shown. What does not fit below is left out.
    pub(crate) fn draw(&self, text: &str) {
        let rows = super::raw::window().map_or(24, |(_, rows)| usize::from(rows));
        let lines: Vec<&str> = text.lines().take(rows.saturating_sub(1).max(1)).collect();
        write(&format!("\u{1b}[H{}\u{1b}[J", lines.iter().map(|line| format!("{line}\u{1b}[K\r\n")).collect::<String>()));
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        write("\u{1b}[?25h\u{1b}[?1049l");
    }
}

fn write(text: &str) {
    let mut out = io::stdout().lock();
    // A terminal that went away shows nothing any more.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
