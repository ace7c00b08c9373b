//! Runs gpuctl as a child process for a tool call, with limits on time and output.

use std::ffi::OsString;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::{AcquireError, Semaphore};

use super::tools::Call;
use crate::config::TOKEN;
use gpuctl_cluster::AccessToken;

/// Time limit of a command.
const WITHIN: Duration = Duration::from_secs(120);
/// Maximum size of each output stream in bytes, about 2,000 pages.
const LARGEST: usize = 4 << 20;
/// Maximum number of concurrent commands, so that one client cannot overload the API server.
const AT_ONCE: usize = 4;

/// Runs commands with the server's global options.
#[derive(Debug)]
pub(super) struct Runner {
    /// Global options that the server was started with.
    global_options: Vec<OsString>,
    /// Global options that select a namespace. A call can override them.
    namespace: Vec<OsString>,
    /// Token for the API server. Passed through the environment, because other users can read
    /// arguments.
    token: Option<AccessToken>,
    permits: Semaphore,
}

/// Output of a command.
#[derive(Debug)]
pub(super) struct Output {
    pub stdout: String,
    /// Warnings, hints and errors.
    pub stderr: String,
    /// Exit code, or `None` if a signal ended the command.
    pub code: Option<i32>,
    /// Whether the output exceeded the size limit.
    pub is_cut: bool,
}

/// Whether a command may write to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandAccess {
    Read,
    Write,
}

/// Why a command has no output.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunError {
    #[error("the server is shutting down: {0}")]
    ServerEnds(AcquireError),
    #[error("cannot find the gpuctl executable: {0}")]
    NoProgram(std::io::Error),
    #[error("cannot start gpuctl: {0}")]
    NotStarted(std::io::Error),
    #[error("cannot read the output of gpuctl: {0}")]
    Unread(std::io::Error),
    #[error("the command was stopped after {} s without a response", WITHIN.as_secs())]
    TimedOut,
    #[error(
        "the command was stopped after {} s without a response; \
         part of the change may have been made, so check before you retry",
        WITHIN.as_secs()
    )]
    ChangeTimedOut,
    /// The JSON before and after the command shows different objects.
    #[error(
        "nothing was changed: the object was created, deleted or replaced during the preview\n\
         hint: call the tool again"
    )]
    ObjectReplaced,
}

impl Runner {
    pub(super) fn new(
        own_options: Vec<OsString>,
        namespace: Vec<OsString>,
        token: Option<AccessToken>,
    ) -> Self {
        Self {
            global_options: own_options,
            namespace,
            token,
            permits: Semaphore::new(AT_ONCE),
        }
    }

    /// Runs the command until it exits.
    ///
    /// # Errors
    ///
    /// Fails if the command does not start, or exceeds its time limit.
    pub(super) async fn run(&self, call: &Call, access: CommandAccess) -> Result<Output, RunError> {
        let permit = self.permits.acquire().await.map_err(RunError::ServerEnds)?;
        let mut child = self.start(call, access)?;
        let outcome = tokio::time::timeout(WITHIN, exchange(&mut child, &call.input, access)).await;
        drop(permit);
        match (outcome, access) {
            (Ok(output), _) => output.map_err(RunError::Unread),
            (Err(_), CommandAccess::Read) => Err(RunError::TimedOut),
            (Err(_), CommandAccess::Write) => Err(RunError::ChangeTimedOut),
        }
    }

    fn start(&self, call: &Call, access: CommandAccess) -> Result<Child, RunError> {
        let program = std::env::current_exe().map_err(RunError::NoProgram)?;
        let names_namespace = call
            .words
            .iter()
            .any(|word| word.starts_with("--namespace="));
        let namespace = if names_namespace {
            &[][..]
        } else {
            &self.namespace
        };
        let mut command = Command::new(program);
        command
            .args(&self.global_options)
            .args(namespace)
            .args(&call.words);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command.env("NO_COLOR", "1");
        if let Some(token) = &self.token {
            command.env(TOKEN, token.secret());
        }
        if access == CommandAccess::Read {
            command.env("GPUCTL_READ_ONLY", "1");
        }
        command.spawn().map_err(RunError::NotStarted)
    }
}

/// Writes the command's input and reads both output streams.
async fn exchange(
    child: &mut Child,
    input: &str,
    access: CommandAccess,
) -> std::io::Result<Output> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async move {
        if let Some(mut stdin) = stdin {
            // The command may exit without reading all input. Its exit code shows whether that is
            // an error.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
    };
    let (mut stdout_bytes, mut stderr_bytes) = (Vec::new(), Vec::new());
    let read = async {
        match tokio::try_join!(
            read_limited(stdout, &mut stdout_bytes, access),
            read_limited(stderr, &mut stderr_bytes, access)
        ) {
            Ok((stdout_is_cut, stderr_is_cut)) => Ok(stdout_is_cut || stderr_is_cut),
            Err(Stop::Endless) => child.start_kill().map(|()| true),
            Err(Stop::Failed(error)) => Err(error),
        }
    };
    let ((), is_cut) = tokio::join!(feed, read);
    let is_cut = is_cut?;
    let status: ExitStatus = child.wait().await?;
    Ok(Output {
        stdout: text(stdout_bytes),
        stderr: text(stderr_bytes),
        code: status.code(),
        is_cut,
    })
}

/// Why reading stopped before the end of a stream.
enum Stop {
    Endless,
    Failed(std::io::Error),
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Reads a stream up to the size limit. The stream of a writing command is read to its end, because
/// a closed pipe would interrupt the change, and `true` reports that it exceeded the limit. For
/// other commands, exceeding the limit is an error, so that the caller does not wait for the other
/// stream.
async fn read_limited<S: AsyncRead + Unpin>(
    stream: Option<S>,
    buffer: &mut Vec<u8>,
    access: CommandAccess,
) -> Result<bool, Stop> {
    let Some(mut stream) = stream else {
        return Ok(false);
    };
    (&mut stream)
        .take(LARGEST as u64 + 1)
        .read_to_end(buffer)
        .await?;
    let is_cut = buffer.len() > LARGEST;
    buffer.truncate(LARGEST);
    if is_cut && access == CommandAccess::Read {
        return Err(Stop::Endless);
    }
    if is_cut {
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    }
    Ok(is_cut)
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    async fn shell(script: &str, input: &str, access: CommandAccess) -> Output {
        let mut command = Command::new("sh");
        command.args(["-c", script]).kill_on_drop(true);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        exchange(&mut command.spawn().unwrap(), input, access)
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn an_endless_command_is_cut_off_and_ended() {
        for script in ["yes", "yes >&2"] {
            let output = shell(script, "", CommandAccess::Read).await;
            assert!(output.is_cut && output.code != Some(0), "{script}");
            assert!(
                output.stdout.len() + output.stderr.len() <= 2 * LARGEST,
                "{script}"
            );
        }
    }

    #[tokio::test]
    async fn a_failing_output_never_interrupts_a_change() {
        let output = shell(
            "yes | head -c 9000000; cat >&2; exit 3",
            "done",
            CommandAccess::Write,
        )
        .await;
        assert_eq!(
            (
                output.is_cut,
                output.code,
                output.stdout.len(),
                output.stderr.as_str()
            ),
            (true, Some(3), LARGEST, "done")
        );
    }
}
