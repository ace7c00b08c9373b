//! The line at the bottom of the terminal that changes during a wait. Other output appears above
//! it. Callers decide what the line shows and whether it is drawn.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::fmt;
use std::future::pending;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle, WeakProgressBar};
use tokio::time::sleep;

/// The most recent line. It disappears when its owner drops it.
#[derive(Default)]
pub(super) struct ChangingLine {
    bar: RefCell<WeakProgressBar>,
    /// Whether [`Self::show_waiting`] may draw.
    waiting_state: Cell<WaitingState>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum WaitingState {
    /// Not yet, because a login program may prompt the user.
    #[default]
    NotYet,
    Allowed,
    /// Never again, because the terminal is used for something else.
    Disabled,
}

/// Delay of the spinner. Shorter waits need no feedback.
const SOON: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(200);

impl ChangingLine {
    /// Draws a progress bar.
    pub(super) fn progress(&self, steps: u64, label: &'static str) -> ProgressBar {
        let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} {msg}, {eta} left")
            .expect("the template is valid");
        self.set(
            ProgressBar::new(steps)
                .with_style(style)
                .with_message(label),
        )
    }

    /// Draws a spinner.
    pub(super) fn spinner(&self) -> ProgressBar {
        let bar = ProgressBar::new_spinner();
        bar.set_style(
            ProgressStyle::with_template("{spinner} {msg} ({elapsed})")
                .expect("the template is valid"),
        );
        bar.enable_steady_tick(Duration::from_millis(120));
        self.set(bar)
    }

    fn set(&self, bar: ProgressBar) -> ProgressBar {
        self.clear();
        self.bar.replace(bar.downgrade());
        bar
    }

    /// Draws a spinner after a second, when no other line is visible. The future never resolves.
    pub(super) async fn show_waiting(&self, is_wanted: impl Fn() -> bool) -> Infallible {
        sleep(SOON).await;
        while self.waiting_state.get() == WaitingState::NotYet
            || self.bar.borrow().upgrade().is_some()
        {
            sleep(STEP).await;
        }
        let line = (self.waiting_state.get() == WaitingState::Allowed && is_wanted())
            .then(|| self.spinner());
        line.iter()
            .for_each(|line| line.set_message("waiting for responses"));
        pending().await
    }

    /// Allows [`Self::show_waiting`] to draw from now on.
    pub(super) fn allow_waiting(&self) {
        if self.waiting_state.get() == WaitingState::NotYet {
            self.waiting_state.set(WaitingState::Allowed);
        }
    }

    /// Permanently prevents [`Self::show_waiting`] from drawing.
    pub(super) fn disable_waiting(&self) {
        if self.waiting_state.replace(WaitingState::Disabled) != WaitingState::Disabled {
            self.clear();
        }
    }

    /// Hides the line while `print` runs, so that its output appears above the line.
    pub(super) fn with_line_hidden<T>(&self, print: impl FnOnce() -> T) -> T {
        let bar = self.bar.borrow().upgrade();
        match bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    pub(super) fn clear(&self) {
        if let Some(bar) = self.bar.borrow().upgrade() {
            bar.finish_and_clear();
        }
    }
}

impl fmt::Debug for ChangingLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChangingLine")
    }
}
