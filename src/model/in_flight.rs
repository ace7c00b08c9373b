//! Bounds the bytes of all answers that are being received at the same time. Each answer has a limit of its own, but a command
//! waits for several of them, and a server may fill all.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of all of them.
const MOST: usize = 160 << 20;

static RECEIVED: AtomicUsize = AtomicUsize::new(0);

/// Bytes of one answer, which count until this is dropped.
#[derive(Default)]
pub(crate) struct InFlight(usize);

impl InFlight {
    /// Counts further bytes. Returns false when all answers together are too large.
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
