//! Prints a line per minute while a followed log is silent, because CI systems stop a step that
//! prints nothing for several minutes.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::pending;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::reporter::BEAT;
use crate::terminal::Terminal;

/// Measures how long a followed log has been silent.
pub(crate) struct LogSilence {
    /// When the last line arrived, or the log was opened.
    since: Cell<Instant>,
}

impl LogSilence {
    pub(crate) fn begin() -> Self {
        Self {
            since: Cell::new(Instant::now()),
        }
    }

    /// Starts the measurement again, because a line has arrived.
    pub(crate) fn end(&self) {
        self.since.set(Instant::now());
    }

    /// Prints a line to stderr for each minute of silence, unless stderr is a terminal. Never
    /// completes.
    pub(crate) async fn report(&self, job: &str, terminal: &Terminal) -> Infallible {
        if terminal.stderr_is_terminal() {
            return pending().await;
        }
        loop {
            let silence = self.since.get().elapsed();
            sleep(until_next_beat(silence)).await;
            let since_line = self.since.get().elapsed();
            if since_line >= silence.max(BEAT) {
                terminal.report(&text(job, since_line));
            }
        }
    }
}

/// The time until the silence has lasted another full minute.
fn until_next_beat(silence: Duration) -> Duration {
    let beats = silence.as_secs() / BEAT.as_secs() + 1;
    Duration::from_secs(beats * BEAT.as_secs()).saturating_sub(silence)
}

fn text(job: &str, silence: Duration) -> String {
    let minutes = silence.as_secs() / 60;
    format!("following job `{job}`: no new log line for {minutes} min")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_log_is_reported_once_per_minute_since_its_last_line() {
        for (silence, left) in [(0.0, 60.0), (59.5, 0.5), (60.0, 60.0), (61.0, 59.0)] {
            let next = until_next_beat(Duration::from_secs_f64(silence));
            assert_eq!(next, Duration::from_secs_f64(left), "{silence}");
        }
        assert_eq!(
            text("a", Duration::from_secs(185)),
            "following job `a`: no new log line for 3 min"
        );
    }
}
