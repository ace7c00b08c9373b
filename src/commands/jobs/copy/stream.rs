//! Connects the archive of `cp` with the session. Packs and unpacks in a separate thread, so that a
//! slow disk does not block the async runtime, which handles Ctrl-C.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use crate::deploy::names::suffix;
use gpuctl_cluster::SessionInput;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_local::files::archive::Copied;
use gpuctl_local::files::unpack::{Staged, stage, staging_folder};
use gpuctl_local::platform::termination_signal;

/// Timeout for removing a partial copy, because an interrupted command should end within a second.
/// On a slow disk or with very many files, the folder remains.
const REMOVAL_TIMEOUT: Duration = Duration::from_millis(900);

/// Maximum number of bytes after the end marker of an archive: tar pads its last record.
const MAX_TRAILING_BYTES: usize = 1 << 20;

/// A thread that unpacks an archive as it arrives.
pub(super) struct Unpacking {
    folder: PathBuf,
    stop: Arc<AtomicBool>,
    result: oneshot::Receiver<io::Result<Staged>>,
    done: oneshot::Receiver<()>,
}

impl Unpacking {
    /// Starts the thread. The sender blocks while `max_chunks` chunks are waiting.
    pub(super) fn start(
        name: &str,
        target: &Path,
        max_chunks: usize,
    ) -> (mpsc::Sender<Bytes>, Self) {
        let (sender, receiver) = mpsc::channel(max_chunks);
        let (stop, name, folder) = (
            Arc::new(AtomicBool::new(false)),
            name.to_owned(),
            staging_folder(target, &suffix()),
        );
        let ((result_sender, result), (done_sender, done)) =
            (oneshot::channel(), oneshot::channel());
        let (stopped, staging) = (Arc::clone(&stop), folder.clone());
        std::thread::spawn(move || {
            let mut reader = ArchiveReader {
                receiver,
                rest: Bytes::new(),
                is_stopped: &stopped,
            };
            let staged = stage(&mut reader, &name, &staging, &stopped);
            // An archive without the requested file also has an end marker. tar's exit code
            // explains the missing file.
            let has_end = staged.as_ref().map_or_else(
                |error| error.kind() == io::ErrorKind::UnexpectedEof,
                |_| true,
            );
            // If the receiver is gone, dropping the result removes the folder.
            drop(result_sender.send(staged));
            // Read the rest of tar's last record, so that tar can exit.
            let mut trailing_bytes = 0;
            while has_end && trailing_bytes < MAX_TRAILING_BYTES {
                let Some(chunk) = reader.receiver.blocking_recv() else {
                    break;
                };
                trailing_bytes += chunk.len();
            }
            drop(reader);
            let _ = done_sender.send(());
        });
        (
            sender,
            Self {
                folder,
                stop,
                result,
                done,
            },
        )
    }

    /// Waits for the end of the archive or for an unpacking error.
    pub(super) async fn end(&mut self) -> io::Result<Staged> {
        (&mut self.result)
            .await
            .unwrap_or_else(|_| Err(io::Error::other("unpacking ended early")))
    }

    /// Moves the copy to its target in a separate thread, because merging a large folder takes
    /// time. A signal (`signal`) stops the merge.
    ///
    /// # Errors
    ///
    /// The outer error is an interruption by the user.
    pub(super) async fn place(
        self,
        staged: Staged,
        destination: &Path,
        signal: Pin<&mut impl Future<Output = u8>>,
    ) -> Result<io::Result<Copied>, Error> {
        let (result_sender, mut result) = oneshot::channel();
        let target = destination.to_owned();
        std::thread::spawn(move || result_sender.send(staged.move_into(&target)));
        let number = tokio::select! {
            result = &mut result => return Ok(result.unwrap_or_else(|_| Err(io::Error::other("moving the copy failed unexpectedly")))),
            number = signal => number,
        };
        self.stop.store(true, Ordering::Relaxed);
        match wait_for_removal(result).await {
            // The copy was complete before the signal arrived.
            Some(Ok(copied)) => Ok(Ok(copied)),
            _ => Err(self.interrupted(number).note(format!(
                "{} may contain a partial copy",
                destination.display()
            ))),
        }
    }

    /// Stops unpacking after a signal and waits for the removal of the partial copy.
    pub(super) async fn abort(mut self, signal: u8) -> Error {
        self.stop.store(true, Ordering::Relaxed);
        self.result.close();
        drop(self.result.try_recv());
        let _ = wait_for_removal(&mut self.done).await;
        self.interrupted(signal)
    }

    /// Builds the error for an interrupted copy. Names the partial copy if it still exists.
    fn interrupted(&self, signal: u8) -> Error {
        let folder = self.folder.display();
        match self.folder.symlink_metadata() {
            Err(_) => interrupted(signal),
            Ok(_) => interrupted(signal)
                .note(format!("{folder} has not been removed yet"))
                .hint(format!("remove {folder}")),
        }
    }
}

/// Waits until a thread has ended and removed its folder. A second signal ends the wait.
async fn wait_for_removal<T>(
    thread: impl Future<Output = Result<T, oneshot::error::RecvError>>,
) -> Option<T> {
    tokio::select! {
        result = tokio::time::timeout(REMOVAL_TIMEOUT, thread) => result.ok()?.ok(),
        _ = termination_signal() => None,
    }
}

pub(super) fn interrupted(signal: u8) -> Error {
    Error::new(ErrorName::from_signal(signal), "interrupted while copying")
}

/// Reads an archive as it arrives.
struct ArchiveReader<'a> {
    receiver: mpsc::Receiver<Bytes>,
    rest: Bytes,
    is_stopped: &'a AtomicBool,
}

impl Read for ArchiveReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match self.receiver.blocking_recv() {
                Some(chunk) => self.rest = chunk,
                None => return Ok(0),
            }
        }
        // Callers retry after `ErrorKind::Interrupted`, so use another kind.
        if self.is_stopped.load(Ordering::Relaxed) {
            return Err(io::Error::other("it was interrupted"));
        }
        let count = buffer.len().min(self.rest.len());
        buffer[..count].copy_from_slice(&self.rest.split_to(count));
        Ok(count)
    }
}

/// Writes an archive to the session.
pub(super) struct Sink {
    pub sender: mpsc::Sender<SessionInput>,
    /// Number of sent chunks.
    pub chunk_count: Arc<AtomicU64>,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self
            .sender
            .blocking_send(SessionInput::Bytes(Bytes::copy_from_slice(bytes)));
        self.chunk_count.fetch_add(1, Ordering::Relaxed);
        sent.map(|()| bytes.len())
            .map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the container stopped reading"))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
