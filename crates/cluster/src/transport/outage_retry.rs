//! Repeats requests of long-running commands while the API server is down, for up to five minutes.

use std::cell::RefCell;
use std::future::Future;
use std::time::{Duration, Instant};

use crate::Failure;

/// Longest outage after which the command gives up.
const LONGEST: Duration = Duration::from_secs(300);
/// Interval of messages during an outage.
const NOTE_INTERVAL: Duration = Duration::from_secs(60);

/// Repeats a request until it succeeds, fails permanently, or the outage lasts too long.
pub struct OutageRetry<N: FnMut(&Failure)> {
    /// Called when an outage begins, and then once per minute: CI systems end silent steps.
    note: RefCell<N>,
    longest: Option<Duration>,
    deadline: Option<Instant>,
}

impl<N: FnMut(&Failure)> OutageRetry<N> {
    pub fn new(note: N) -> Self {
        Self {
            note: RefCell::new(note),
            longest: Some(LONGEST),
            deadline: None,
        }
    }

    /// Keeps trying until the deadline, or for ever without one.
    #[must_use]
    pub fn until(self, deadline: Option<Instant>) -> Self {
        Self {
            longest: None,
            deadline,
            ..self
        }
    }

    /// Sends `request` until its failure is not transient or the outage lasts too long.
    pub async fn ask<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        request: impl Fn() -> F,
    ) -> Result<T, Failure> {
        let (start, mut wait) = (Instant::now(), Duration::from_millis(500));
        let mut noted: Option<Instant> = None;
        let may_wait = || {
            self.longest.is_none_or(|longest| start.elapsed() < longest)
                && self
                    .deadline
                    .is_none_or(|deadline| Instant::now() < deadline)
        };
        loop {
            match request().await {
                Err(failure) if failure.is_transient() && may_wait() => {
                    if noted.is_none_or(|at| at.elapsed() >= NOTE_INTERVAL) {
                        noted = Some(Instant::now());
                        self.note.borrow_mut()(&failure);
                    }
                }
                other => return other,
            }
            let left = self.deadline.map_or(wait, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            tokio::time::sleep(wait.min(left)).await;
            wait = (wait * 2).min(Duration::from_secs(8));
        }
    }
}
