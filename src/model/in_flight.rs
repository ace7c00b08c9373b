//! Limits the total bytes of all responses in flight. Each response has its own limit, but a
//! command waits for several responses at once, and a server can exhaust each limit.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Limit on the bytes of all responses.
const MOST: usize = 160 << 20;

static RECEIVED: AtomicUsize = AtomicUsize::new(0);

/// Bytes of one response, counted until this is dropped.
#[derive(Default)]
pub(crate) struct InFlight(usize);

impl InFlight {
    /// Counts further bytes. Returns false if the total exceeds the limit.
    #[must_use]
    pub(crate) fn add(&mut self, bytes: usize) -> bool {
        self.0 += bytes;
        RECEIVED.fetch_add(bytes, Ordering::Relaxed) + bytes <= MOST
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        RECEIVED.fetch_sub(self.0, Ordering::Relaxed);
    }
}
