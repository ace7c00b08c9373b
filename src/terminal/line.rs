//! The line at the bottom of a terminal that changes while something is awaited; whatever else is printed goes above it. It does not
//! know whether anybody wants to see it.

use std::cell::RefCell;
use std::fmt;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle, WeakProgressBar};

/// The newest line; it is gone when whoever draws it has dropped it.
#[derive(Default)]
pub(super) struct ChangingLine(RefCell<WeakProgressBar>);

impl ChangingLine {
    /// Draws how far something long is.
    pub(super) fn progress(&self, steps: u64, what: &'static str) -> ProgressBar {
        let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} {msg}, {eta} left").expect("the template is valid");
        self.set(ProgressBar::new(steps).with_style(style).with_message(what))
    }

    /// Draws that something is awaited.
    pub(super) fn spinner(&self) -> ProgressBar {
        let bar = ProgressBar::new_spinner();
        bar.set_style(ProgressStyle::with_template("{spinner} {msg} ({elapsed})").expect("the template is valid"));
        bar.enable_steady_tick(Duration::from_millis(120));
        self.set(bar)
    }

    fn set(&self, bar: ProgressBar) -> ProgressBar {
        self.0.replace(bar.downgrade());
        bar
    }

    /// Takes the line away while something is printed. That it cannot be drawn again is no error: the terminal may be gone.
    pub(super) fn above<T>(&self, print: impl FnOnce() -> T) -> T {
        let bar = self.0.borrow().upgrade();
        match bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Takes the line away for good.
    pub(super) fn clear(&self) {
        if let Some(bar) = self.0.borrow().upgrade() {
            bar.finish_and_clear();
        }
    }
}

impl fmt::Debug for ChangingLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChangingLine")
    }
}
