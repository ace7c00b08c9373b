//! Copies a file or folder out of a container, unpacking the archive as it arrives.

use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::container::{
    EXIT_TIMEOUT, MAX_CHUNKS, TarContainer, command_error, copy_failed, no_file_in_job, parts,
};
use super::stream::Unpacking;
use gpuctl_cluster::{SessionEnd, SessionInput};
use gpuctl_core::error::Error;
use gpuctl_core::model::contract::refusal::ContainerComplaint;
use gpuctl_local::files::archive::{Copied, target};
use gpuctl_local::files::unpack::Staged;
use gpuctl_local::platform::termination_signal;
use gpuctl_view::jobs::copied;

/// Runs tar and keeps the session open until gpuctl sends a line. Otherwise, the node closes the
/// connection when tar exits, and drops data that a slow reader has not received
/// (kubernetes/kubernetes#60140). If tar fails, the script exits immediately with its code. Names
/// are arguments, so the shell does not parse them.
const SCRIPT: &str = r#"tar cf - -C "$1" "$2" && { read -r line || true; }"#;

/// Timeout for tar's exit after the end of the archive. If the session is idle for this long,
/// gpuctl sends the line anyway, because an archive without an end would keep the session open.
const ARCHIVE_END_TIMEOUT: Duration = Duration::from_secs(10);

/// Result of tar, if it exited in time, and of unpacking.
struct Received {
    command: Option<Result<(SessionEnd, String), Error>>,
    staged: io::Result<Staged>,
}

impl TarContainer<'_> {
    pub(super) async fn download(&self, path: &str, local_path: &str) -> Result<Copied, Error> {
        let (folder, name) = parts(path)?;
        let target = target(local_path, name);
        // Listen for signals early, so that none is lost between two steps.
        let mut signal = pin!(termination_signal());
        let (sender, mut unpacking) = Unpacking::start(name, &target, MAX_CHUNKS);
        // The prefix prevents tar from parsing a name with a leading `-` as an option.
        let name = format!("./{name}");
        let received = self
            .receive(
                path,
                (folder, &name),
                sender,
                &mut unpacking,
                signal.as_mut(),
            )
            .await;
        let Received { command, staged } = match received {
            Ok(received) => received,
            Err(signal) => return Err(unpacking.abort(signal).await),
        };
        let (end, message) = command.unwrap_or(Ok((SessionEnd::Unread, String::new())))?;
        let staged = match (end, staged) {
            (SessionEnd::Exit(0), Ok(staged)) => staged,
            // GNU tar exits with 1 if a file changes during the copy, which is common for
            // checkpoints and logs.
            (SessionEnd::Exit(1), Ok(staged))
                if ContainerComplaint::from_tar_output(&message)
                    == Some(ContainerComplaint::Changed) =>
            {
                self.context.terminal.warn(&format!(
                    "the file changed while it was being copied: {message}"
                ));
                staged
            }
            (end, staged) => return Err(download_error(path, end, staged.err(), message)),
        };
        unpacking
            .place(staged, &target, signal)
            .await?
            .map_err(|error| copy_failed(path).cause(error.to_string()))
    }

    /// Unpacks the archive as it arrives. Returns the number of a signal as the error.
    async fn receive(
        &self,
        path: &str,
        source: (&str, &str),
        sender: mpsc::Sender<Bytes>,
        unpacking: &mut Unpacking,
        mut signal: Pin<&mut impl Future<Output = u8>>,
    ) -> Result<Received, u8> {
        let spinner = self.context.terminal.spinner();
        let mut bytes = 0;
        let spinner_message =
            |bytes| spinner.set_message(format!("{path}: {}", copied::size(bytes)));
        let received = {
            let (confirm, input) = mpsc::channel(2);
            let idle_since = &Cell::new(Some(Instant::now()));
            let mut running =
                pin!(self.send_archive(source, input, async move |chunk: &[u8]| {
                    bytes += chunk.len() as u64;
                    spinner_message(bytes);
                    idle_since.set(None);
                    let is_wanted = sender.send(Bytes::copy_from_slice(chunk)).await.is_ok();
                    idle_since.set(Some(Instant::now()));
                    is_wanted
                }));
            tokio::select! {
                result = async {
                    tokio::select! {
                        end = &mut running => Received {
                            command: Some(end),
                            staged: unpacking.end().await,
                        },
                        // A hostile tar may never exit, so wait with a timeout.
                        staged = unpacking.end() => {
                            send_line(&confirm);
                            let timeout = if staged.is_ok() { ARCHIVE_END_TIMEOUT } else { EXIT_TIMEOUT };
                            let command = tokio::time::timeout(timeout, &mut running).await.ok();
                            Received { command, staged }
                        }
                    }
                } => Ok(result),
                never = confirm_when_idle(idle_since, &confirm) => match never {},
                number = &mut signal => Err(number),
            }
        };
        spinner.finish_and_clear();
        received
    }

    /// Runs tar in a shell, or directly if the image has no shell.
    async fn send_archive(
        &self,
        (folder, name): (&str, &str),
        input: mpsc::Receiver<SessionInput>,
        mut sink: impl AsyncFnMut(&[u8]) -> bool,
    ) -> Result<(SessionEnd, String), Error> {
        let command = ["sh", "-c", SCRIPT, "sh", folder, name];
        let end = self.command(&command, Some(input), &mut sink).await?;
        match &end.0 {
            SessionEnd::Refused(message)
                if ContainerComplaint::from_runtime_message(message)
                    == Some(ContainerComplaint::NoProgram) =>
            {
                let command = ["tar", "cf", "-", "-C", folder, name];
                self.command(&command, None, sink).await
            }
            _ => Ok(end),
        }
    }
}

/// Sends the line that ends the script. Has no effect after its end.
fn send_line(confirm: &mpsc::Sender<SessionInput>) {
    let _ = confirm.try_send(SessionInput::Bytes(Bytes::from_static(b"\n")));
}

/// Sends the line if the session is idle. `idle_since` is `None` while a chunk is unpacked.
async fn confirm_when_idle(
    idle_since: &Cell<Option<Instant>>,
    confirm: &mpsc::Sender<SessionInput>,
) -> Infallible {
    let idle = || {
        let since = idle_since.get();
        since.map_or(Duration::ZERO, |since| since.elapsed())
    };
    while let Some(rest) = ARCHIVE_END_TIMEOUT
        .checked_sub(idle())
        .filter(|rest| !rest.is_zero())
    {
        tokio::time::sleep(rest).await;
    }
    send_line(confirm);
    std::future::pending().await
}

/// Builds the error of a failed download. `unpack_error` is the local error, if any.
fn download_error(
    path: &str,
    end: SessionEnd,
    unpack_error: Option<io::Error>,
    message: String,
) -> Error {
    let has_no_file =
        ContainerComplaint::from_tar_output(&message) == Some(ContainerComplaint::NoFile);
    match (end, unpack_error) {
        (_, Some(error))
            if !matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::Other
            ) =>
        {
            copy_failed(path).cause(error.to_string())
        }
        (SessionEnd::Exit(_), Some(_)) if has_no_file => no_file_in_job(path).cause(message),
        (SessionEnd::Exit(_), Some(error))
            if message.is_empty() && error.kind() == io::ErrorKind::UnexpectedEof =>
        {
            copy_failed(path)
                .cause("the connection closed before the archive was complete")
                .hint("run the command again")
        }
        (SessionEnd::Exit(0), Some(error)) => copy_failed(path).cause(error.to_string()),
        (SessionEnd::Unread, None) => {
            copy_failed(path).cause("tar in the container did not exit after sending its archive")
        }
        (end, _) => command_error(end, message, path),
    }
}
