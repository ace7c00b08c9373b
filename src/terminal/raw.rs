//! Reads stdin for sessions in a container, and determines the size of the window.

use std::io::{self, Read};

use bytes::Bytes;
use tokio::sync::mpsc;

/// Reads typed or piped input in a thread, because a blocking read from stdin cannot be cancelled.
/// The thread ends with the process.
pub(crate) fn stdin() -> mpsc::Receiver<Bytes> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        let mut bytes = vec![0; 16 << 10];
        // A read of zero bytes marks the end of the input.
        while let Ok(count @ 1..) = io::stdin().lock().read(&mut bytes) {
            if sender
                .blocking_send(Bytes::copy_from_slice(&bytes[..count]))
                .is_err()
            {
                return;
            }
        }
    });
    receiver
}

/// Returns the number of columns and rows of the window.
pub(crate) fn window() -> Option<(u16, u16)> {
    terminal_size::terminal_size().map(|(columns, rows)| (columns.0, rows.0))
}
