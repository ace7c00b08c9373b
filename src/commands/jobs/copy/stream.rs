//! Connects the archive of `cp` with the session that carries it: one thread packs or unpacks, so that a slow disk never
//! blocks the runtime, which has to see Ctrl-C.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use crate::cluster::SessionInput;
use crate::deploy::names::suffix;
use crate::files::unpack::{Staged, stage, staging_folder};
use crate::platform::ended_from_outside;

/// How long the thread may take to remove what has arrived. It takes longer only where the disk does not answer.
const REMOVAL: Duration = Duration::from_secs(30);

/// Most bytes behind the end of an archive: tar fills its last record.
const MOST_BEHIND: usize = 1 << 20;

/// A thread that unpacks an archive while it arrives.
pub(super) struct Unpacking {
    stop: Arc<AtomicBool>,
    result: oneshot::Receiver<io::Result<Staged>>,
    done: oneshot::Receiver<()>,
}

impl Unpacking {
    /// Starts the thread. The sender takes the archive and waits while `pieces` of it are not written yet.
    pub(super) fn start(name: &str, to: &Path, pieces: usize) -> (mpsc::Sender<Bytes>, Self) {
        let (sender, receiver) = mpsc::channel(pieces);
        let (stop, name, folder) = (Arc::new(AtomicBool::new(false)), name.to_owned(), staging_folder(to, &suffix()));
        let ((tell, result), (end, done)) = (oneshot::channel(), oneshot::channel());
        let stopped = Arc::clone(&stop);
        std::thread::spawn(move || {
            let mut pieces = Pieces { receiver, rest: Bytes::new(), stopped: &stopped };
            let staged = stage(&mut pieces, &name, &folder, &stopped);
            // An archive without the file has an end too, and the exit code of tar says why.
            let has_end = staged.as_ref().map_or_else(|error| error.kind() == io::ErrorKind::UnexpectedEof, |_| true);
            // Without a reader the folder is removed here.
            drop(tell.send(staged));
            // tar is still sending the rest of its last record, and its exit code comes after that.
            let mut behind = 0;
            while has_end && behind < MOST_BEHIND {
                let Some(piece) = pieces.receiver.blocking_recv() else { break };
                behind += piece.len();
            }
            drop(pieces);
            let _ = end.send(());
        });
        (sender, Self { stop, result, done })
    }

    /// Waits for the end of the archive, or for the error that ends it.
    pub(super) async fn end(&mut self) -> io::Result<Staged> {
        (&mut self.result).await.unwrap_or_else(|_| Err(io::Error::other("unpacking ended early")))
    }

    /// Stops, and waits until what has arrived is removed. A second signal does not wait.
    pub(super) async fn abort(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.result.close();
        drop(self.result.try_recv());
        tokio::select! {
            _ = tokio::time::timeout(REMOVAL, self.done) => {}
            _ = ended_from_outside() => {}
        }
    }
}

/// An archive as it arrives.
struct Pieces<'a> {
    receiver: mpsc::Receiver<Bytes>,
    rest: Bytes,
    stopped: &'a AtomicBool,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match self.receiver.blocking_recv() {
                Some(piece) => self.rest = piece,
                None => return Ok(0),
            }
        }
        // `ErrorKind::Interrupted` would only be tried again.
        if self.stopped.load(Ordering::Relaxed) {
            return Err(io::Error::other("it was interrupted"));
        }
        let count = buffer.len().min(self.rest.len());
        buffer[..count].copy_from_slice(&self.rest.split_to(count));
        Ok(count)
    }
}

/// An archive as it leaves.
pub(super) struct Sink {
    pub sender: mpsc::Sender<SessionInput>,
    /// Pieces that went out.
    pub taken: Arc<AtomicU64>,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.sender.blocking_send(SessionInput::Bytes(Bytes::copy_from_slice(bytes)));
        self.taken.fetch_add(1, Ordering::Relaxed);
        sent.map(|()| bytes.len()).map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the container reads no more"))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
