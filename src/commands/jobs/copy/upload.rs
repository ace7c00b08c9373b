//! Copies a file or folder into a container. A file is renamed to its final name after it is
//! complete.

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::container::{
    EXIT_TIMEOUT, MAX_CHUNKS, TarContainer, command_error, connection_lost, copy_failed, message,
    no_file_in_job, parts,
};
use super::stream::{Sink, interrupted};
use crate::deploy::names::suffix;
use gpuctl_cluster::SessionEnd;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::contract::refusal::ContainerComplaint;
use gpuctl_local::files::archive::{Copied, is_file, pack};
use gpuctl_local::platform::termination_signal;

/// Exit code of tar after a fatal error.
const TAR_FAILED: i32 = 2;

/// Timeout for removing the partial file in the container after an interrupt.
const CLEANUP: Duration = Duration::from_millis(800);

impl TarContainer<'_> {
    pub(super) async fn upload(&self, from: &str, path: &str) -> Result<Copied, Error> {
        let is_single_file = is_file(from).map_err(|error| unreadable(from, &error))?;
        let (folder, name) = self.destination(from, path).await?;
        if !is_single_file {
            // A folder is unpacked in place, so an interrupted copy leaves files behind.
            return tokio::select! {
                result = self.send(from, folder, name, path) => result,
                signal = termination_signal() => Err(interrupted(signal)),
            };
        }
        // Unpack under a temporary name in the same folder, where `mv` is atomic.
        let temporary_name = format!(".gpuctl-cp-{}", suffix());
        let (temporary, target) = (
            format!("{folder}/{temporary_name}"),
            format!("{folder}/{name}"),
        );
        let (result, is_interrupted) = tokio::select! {
            result = self.send(from, folder, &temporary_name, path) => (result, false),
            signal = termination_signal() => (Err(interrupted(signal)), true),
        };
        if result.is_ok() {
            self.rename(&temporary, &target, path).await?;
        } else {
            let timeout = if is_interrupted {
                CLEANUP
            } else {
                EXIT_TIMEOUT
            };
            let removal = ["rm", "-f", "--", &temporary];
            let removal = self.command(&removal, None, async |_| true);
            drop(tokio::time::timeout(timeout, removal).await);
        }
        result
    }

    /// Returns the folder in the container and the name of the copy.
    async fn destination<'p>(
        &self,
        from: &'p str,
        path: &'p str,
    ) -> Result<(&'p str, &'p str), Error> {
        let local_name = Path::new(from).file_name().and_then(|name| name.to_str());
        let is_folder = self
            .command(&["test", "-d", path], None, async |_| true)
            .await?
            .0
            == SessionEnd::Exit(0);
        if !is_folder && path.ends_with('/') {
            return Err(Error::new(
                ErrorName::FileNotFound,
                format!("folder `{path}` does not exist in {}", self.pod.name),
            ));
        }
        let (folder, name) = match (is_folder, local_name) {
            (true, Some(name)) => (path.trim_end_matches('/'), name),
            (true, None) => {
                let error = Error::usage(format!("`{from}` does not end in a file name"));
                return Err(error.hint("specify a name for the copy: JOB:/path/NAME"));
            }
            (false, _) => parts(path)?,
        };
        let folder = if folder.is_empty() { "/" } else { folder };
        Ok((folder, name))
    }

    async fn rename(&self, temporary: &str, target: &str, path: &str) -> Result<(), Error> {
        let command = ["mv", "-f", "--", temporary, target];
        let rename = self.command(&command, None, async |_| true);
        let result = tokio::time::timeout(EXIT_TIMEOUT, rename).await;
        match result.map_err(|_| connection_lost())?? {
            (SessionEnd::Exit(0), _) => Ok(()),
            (end, message) => Err(command_error(end, message, path)),
        }
    }

    /// Sends the archive to a `tar` process that unpacks it into `folder`.
    async fn send(
        &self,
        from: &str,
        folder: &str,
        name: &str,
        path: &str,
    ) -> Result<Copied, Error> {
        let (sender, receiver) = mpsc::channel(MAX_CHUNKS);
        // Holds tar's input open until the grace period has passed.
        let (open_input, chunk_count) = (sender.clone(), Arc::new(AtomicU64::new(0)));
        let sink = Sink {
            sender,
            chunk_count: Arc::clone(&chunk_count),
        };
        let mut pack_result = start_packing(from, name, sink);
        let command = ["tar", "xmf", "-", "-C", folder];
        let stderr = RefCell::default();
        let mut running =
            pin!(self.command_with_stderr(&command, Some(receiver), async |_| true, &stderr));
        let (end, pack_result) = tokio::select! {
            // containerd stops reading the input after the command has exited, but reports the exit
            // only after all input is read. If the transfer stalls and stderr has a message, assume
            // that tar has failed.
            () = stalled(&chunk_count, &stderr) => (Ok(SessionEnd::Exit(TAR_FAILED)), None),
            // tar stopped reading. Unless it had read everything, stderr explains why.
            end = &mut running => (end, tokio::time::timeout(EXIT_TIMEOUT, &mut pack_result).await.ok()),
            pack_result = &mut pack_result => {
                if let Ok(Err(error)) = pack_result {
                    return Err(copy_failed(from).cause(error.to_string()));
                }
                // Old servers kill the process when its input is closed, so wait for tar's exit
                // first.
                let end = tokio::time::timeout(EXIT_TIMEOUT, &mut running).await;
                drop(open_input);
                (match end { Ok(end) => end, Err(_) => running.await }, Some(pack_result))
            }
        };
        match (end?, message(&stderr)) {
            (SessionEnd::Exit(0), _) => {}
            (SessionEnd::Exit(_), message)
                if ContainerComplaint::from_tar_output(&message)
                    == Some(ContainerComplaint::NoFile) =>
            {
                return Err(no_file_in_job(path).cause(message));
            }
            (end, message) => return Err(command_error(end, message, path)),
        }
        match pack_result {
            Some(Ok(Ok(copied))) => Ok(copied),
            Some(Ok(Err(error))) => Err(copy_failed(from).cause(error.to_string())),
            _ => {
                Err(copy_failed(from)
                    .cause("tar in the container exited before reading everything"))
            }
        }
    }
}

fn unreadable(from: &str, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::new(
            ErrorName::FileNotFound,
            format!("`{from}` does not exist on this machine"),
        ),
        _ => copy_failed(from).cause(error.to_string()),
    }
}

/// Packs a file or folder as `name` in a separate thread.
fn start_packing(from: &str, name: &str, sink: Sink) -> oneshot::Receiver<io::Result<Copied>> {
    let (source, name) = (from.to_owned(), name.to_owned());
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let sink = io::BufWriter::with_capacity(64 << 10, sink);
        let _ = sender.send(pack(Path::new(&source), &name, sink));
    });
    receiver
}

/// Completes if the command has written to stderr and no longer reads its input. After a mere
/// warning, tar continues to read.
async fn stalled(chunk_count: &AtomicU64, stderr: &RefCell<Vec<u8>>) {
    let mut previous = None;
    loop {
        let current = chunk_count.load(Ordering::Relaxed);
        if previous == Some(current) && !stderr.borrow().is_empty() {
            return;
        }
        previous = Some(current);
        tokio::time::sleep(EXIT_TIMEOUT).await;
    }
}
