//! Limits the total bytes of all responses in flight. Each response also has its own limit, but a
//! command can read several responses at once, and a server can exhaust the limit of each.
//!
//! All responses share one limit. Once it is reached, only one response at a time may continue, up
//! to its own limit, and the others wait for it to finish. The continuing response does not depend
//! on the others, so they cannot deadlock.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

/// Maximum total bytes of all responses, except the one that holds `TURN`.
const MOST: usize = 64 << 20;
/// Maximum time to wait for `TURN`. The response that holds it may never finish, because the
/// program may stop reading it.
const PATIENCE: Duration = Duration::from_secs(30);
/// Error message for a response that waited too long for `TURN`.
pub const NO_TURN: &str = "its response did not fit into memory along with other large responses; request a shorter period or a single namespace";

static SHARED: AtomicUsize = AtomicUsize::new(0);
static TURN: Semaphore = Semaphore::const_new(1);

/// Counts the bytes of one response against the shared limit until it is dropped.
#[derive(Default)]
pub struct InFlight {
    shared: usize,
    turn: Option<SemaphorePermit<'static>>,
}

impl InFlight {
    /// Adds `bytes` to the response. At the limit, waits until this response may continue, and
    /// returns false after `PATIENCE`.
    #[must_use]
    pub async fn add(&mut self, bytes: usize) -> bool {
        if self.turn.is_some() {
            return true;
        }
        if SHARED.fetch_add(bytes, Ordering::Relaxed) + bytes <= MOST {
            self.shared += bytes;
            return true;
        }
        SHARED.fetch_sub(bytes, Ordering::Relaxed);
        let Ok(Ok(turn)) = tokio::time::timeout(PATIENCE, TURN.acquire()).await else {
            return false;
        };
        self.turn = Some(turn);
        SHARED.fetch_sub(std::mem::take(&mut self.shared), Ordering::Relaxed);
        true
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        SHARED.fetch_sub(self.shared, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_responses_wait_for_each_other_and_all_succeed() {
        let response = async || {
            let mut in_flight = InFlight::default();
            for _ in 0..90 {
                assert!(in_flight.add(1 << 20).await);
                tokio::task::yield_now().await;
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async { tokio::join!(response(), response(), response()) });
    }
}
