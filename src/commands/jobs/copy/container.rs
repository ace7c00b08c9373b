//! Runs `tar` and other commands for `cp` in a container.

use std::cell::RefCell;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::context::Context;
use crate::inside::choice::from_node;
use gpuctl_cluster::{Connection, ExecRequest, SessionEnd, SessionInput, SessionStream};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::Pod;
use gpuctl_core::model::contract::refusal::ContainerComplaint;

/// Maximum number of archive chunks that wait between disk and network.
pub(super) const MAX_CHUNKS: usize = 16;

/// Maximum size of a command's stderr in bytes. The rest is dropped.
const MAX_STDERR_BYTES: usize = 16 << 10;

/// Timeout for tar's exit after its input or output has ended.
pub(super) const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// A container that runs commands for a copy.
pub(super) struct TarContainer<'a> {
    pub connection: &'a Connection,
    pub namespace: &'a str,
    pub pod: &'a Pod,
    pub name: &'a str,
    pub context: &'a Context,
}

impl TarContainer<'_> {
    /// Runs a command and returns how it ended, with its stderr. The command ends early if `sink`
    /// returns false.
    pub(super) async fn command(
        &self,
        command: &[&str],
        input: Option<mpsc::Receiver<SessionInput>>,
        sink: impl AsyncFnMut(&[u8]) -> bool,
    ) -> Result<(SessionEnd, String), Error> {
        let stderr = RefCell::default();
        let end = self
            .command_with_stderr(command, input, sink, &stderr)
            .await?;
        Ok((end, message(&stderr)))
    }

    /// Runs a command and appends its stderr to `stderr` as it arrives.
    pub(super) async fn command_with_stderr(
        &self,
        command: &[&str],
        input: Option<mpsc::Receiver<SessionInput>>,
        mut sink: impl AsyncFnMut(&[u8]) -> bool,
        stderr: &RefCell<Vec<u8>>,
    ) -> Result<SessionEnd, Error> {
        let command: Vec<String> = command.iter().map(ToString::to_string).collect();
        let request = ExecRequest {
            namespace: self.namespace,
            pod: &self.pod.name,
            container: self.name,
            command: Some(&command),
            stdin: input.is_some(),
            tty: false,
        };
        let session = self
            .connection
            .sessions()
            .start(&request)
            .await
            .map_err(|failure| from_node(failure, self.pod))?;
        // A command without input gets a closed channel.
        let input = input.unwrap_or_else(|| mpsc::channel(1).1);
        let end = session
            .run_slowly(input, async |stream, bytes: &[u8]| match stream {
                SessionStream::Out => sink(bytes).await,
                SessionStream::Err => {
                    let mut stderr = stderr.borrow_mut();
                    let remaining = MAX_STDERR_BYTES.saturating_sub(stderr.len());
                    stderr.extend_from_slice(&bytes[..bytes.len().min(remaining)]);
                    true
                }
            })
            .await;
        Ok(end)
    }
}

pub(super) fn message(stderr: &RefCell<Vec<u8>>) -> String {
    String::from_utf8_lossy(&stderr.borrow()).trim().to_owned()
}

/// Splits a path in a container into its folder and its last part, which must not be `.` or `..`.
pub(super) fn parts(path: &str) -> Result<(&str, &str), Error> {
    let trimmed = path.trim_end_matches('/');
    let (folder, name) = trimmed
        .rsplit_once('/')
        .map_or((".", trimmed), |(folder, name)| {
            (if folder.is_empty() { "/" } else { folder }, name)
        });
    if name.is_empty() || name == "." || name == ".." {
        return Err(
            Error::usage(format!("`{path}` does not end in a file or folder name"))
                .hint("specify one: JOB:/path/NAME"),
        );
    }
    Ok((folder, name))
}

pub(super) fn copy_failed(path: &str) -> Error {
    Error::new(ErrorName::CopyFailed, format!("failed to copy `{path}`"))
}

pub(super) fn no_file_in_job(path: &str) -> Error {
    Error::new(
        ErrorName::FileNotFound,
        format!("`{path}` does not exist in the job"),
    )
}

pub(super) fn connection_lost() -> Error {
    Error::new(
        ErrorName::ConnectionLost,
        "lost the connection while copying",
    )
}

/// Builds the error for a command that ended with `end` and `message` on stderr.
pub(super) fn command_error(end: SessionEnd, message: String, path: &str) -> Error {
    let to_error = |cause: String| copy_failed(path).cause(cause);
    let without_tar = |cause: String| {
        to_error(cause).hint(
            "the image has no `tar`; copy single files with `gpuctl exec JOB -- cat FILE > FILE`",
        )
    };
    match end {
        // The shell's exit code for a command that does not exist (POSIX, 2.8.2).
        SessionEnd::Exit(127) => without_tar(message),
        SessionEnd::Exit(code) => to_error(if message.is_empty() {
            format!("tar exited with code {code}")
        } else {
            message
        }),
        SessionEnd::Refused(message)
            if ContainerComplaint::from_runtime_message(&message)
                == Some(ContainerComplaint::NoProgram) =>
        {
            without_tar(message)
        }
        SessionEnd::Refused(message) => to_error(message),
        SessionEnd::Unread | SessionEnd::Broken => connection_lost(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_a_last_part() {
        assert_eq!(parts("/a/b").ok(), Some(("/a", "b")));
        assert_eq!(parts("/a/").ok(), Some(("/", "a")));
        assert_eq!(parts("x").ok(), Some((".", "x")));
        assert!(parts("/").is_err() && parts("/a/..").is_err());
    }
}
