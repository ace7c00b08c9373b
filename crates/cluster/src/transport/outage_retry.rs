//! Repeats requests of long-running commands while the API server is down, for up to five minutes.

use std::cell::RefCell;
use std::future::Future;
use std::time::{Duration, Instant};

use crate::Failure;

/// Longest outage after which the command gives up.
const LONGEST: Duration = Duration::from_secs(300);

/// Repeats a request until it succeeds, fails permanently, or the outage lasts too long.
pub struct OutageRetry<N: FnMut(&Failure)> {
    /// Called once per request that meets an outage.
    note: RefCell<N>,
}

impl<N: FnMut(&Failure)> OutageRetry<N> {
    pub fn new(note: N) -> Self {
        Self {
            note: RefCell::new(note),
        }
    }

    /// Sends `request` until its failure is not transient or the outage lasts too long.
    pub async fn ask<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        request: impl Fn() -> F,
    ) -> Result<T, Failure> {
        let (start, mut wait) = (Instant::now(), Duration::from_millis(500));
        let mut noted = false;
        loop {
            match request().await {
                Err(failure) if failure.is_transient() && start.elapsed() < LONGEST => {
                    if !std::mem::replace(&mut noted, true) {
                        self.note.borrow_mut()(&failure);
                    }
                }
                other => return other,
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(Duration::from_secs(8));
        }
    }
}
