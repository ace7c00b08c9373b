//! Runs a command in a container or attaches to its process, and transfers the input, the output,
//! the window size and the exit code.

use std::sync::LazyLock;

use bytes::Bytes;
use futures::SinkExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use regex::Regex;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

use crate::transport::http::with_query;
use crate::transport::socket::{PING, Socket, framed};
use crate::{Failure, handles::SessionsApi};

/// Channels of the `v5.channel.k8s.io` protocol (k8s.io/apimachinery/pkg/util/remotecommand). The
/// first byte of each message is its channel.
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const RESIZE: u8 = 4;
/// Closes the channel named by the next byte (new in v5).
const CLOSE: u8 = 255;

/// The container and the command to run in it.
#[derive(Clone, Debug)]
pub struct ExecRequest<'a> {
    pub namespace: &'a str,
    pub pod: &'a str,
    pub container: &'a str,
    /// The command to run, or `None` to attach to the running process.
    pub command: Option<&'a [String]>,
    pub stdin: bool,
    /// Allocates a terminal, which merges output and errors into one stream and gives the window a
    /// size.
    pub tty: bool,
}

/// Input for the process. Dropping the sender ends the process's input.
#[derive(Debug)]
pub enum SessionInput {
    Bytes(Bytes),
    Resize { columns: u16, rows: u16 },
}

/// The output stream that a chunk comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionStream {
    Out,
    Err,
}

/// How a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    Exit(i32),
    /// The process could not be started.
    Refused(String),
    /// `sink` returned false.
    Unread,
    /// The connection was lost. The process may still be running.
    Broken,
}

/// An open session whose process has started.
pub struct Session {
    socket: Socket,
    stdin: bool,
}

impl SessionsApi<'_> {
    /// Starts the process and opens a session with it.
    pub async fn start(self, call: &ExecRequest<'_>) -> Result<Session, Failure> {
        let flag = |enabled: bool| if enabled { "true" } else { "false" };
        let mut parameters = vec![
            ("container", call.container),
            ("stdin", flag(call.stdin)),
            ("stdout", "true"),
            // A terminal has only one output stream, so container runtimes reject `stderr` together
            // with `tty`.
            ("stderr", flag(!call.tty)),
            ("tty", flag(call.tty)),
        ];
        parameters.extend(
            call.command
                .into_iter()
                .flatten()
                .map(|argument| ("command", argument.as_str())),
        );
        let verb = if call.command.is_some() {
            "exec"
        } else {
            "attach"
        };
        let path = with_query(
            &format!(
                "/api/v1/namespaces/{}/pods/{}/{verb}",
                call.namespace, call.pod
            ),
            &parameters,
        );
        Ok(Session {
            socket: self.0.upgrade(&path).await?,
            stdin: call.stdin,
        })
    }
}

impl Session {
    /// Transfers input and output until the process ends or `sink` returns false.
    pub async fn run(
        self,
        input: mpsc::Receiver<SessionInput>,
        mut sink: impl FnMut(SessionStream, &[u8]) -> bool,
    ) -> SessionEnd {
        self.run_slowly(input, async |stream, bytes: &[u8]| sink(stream, bytes))
            .await
    }

    /// Like `run`, but with an asynchronous `sink`. A slow `sink` pauses only the reading of
    /// output.
    pub async fn run_slowly(
        self,
        mut input: mpsc::Receiver<SessionInput>,
        mut sink: impl AsyncFnMut(SessionStream, &[u8]) -> bool,
    ) -> SessionEnd {
        let Socket {
            mut send,
            mut receive,
            half_close,
        } = self.socket;
        let feeding = async {
            let mut pings = tokio::time::interval(PING);
            let mut input_open = true;
            loop {
                let message = tokio::select! {
                    next = input.recv(), if input_open => match next {
                        Some(SessionInput::Bytes(bytes)) => framed(STDIN, &bytes),
                        Some(SessionInput::Resize { columns, rows }) => {
                            // The keys are capitalized, because the API server's `TerminalSize` has
                            // no JSON tags.
                            framed(RESIZE, json!({"Width": columns, "Height": rows}).to_string().as_bytes())
                        }
                        None => {
                            input_open = false;
                            // Before v5, only closing the whole connection ended the input.
                            if !(half_close && self.stdin) {
                                continue;
                            }
                            framed(CLOSE, &[STDIN])
                        }
                    },
                    _ = pings.tick() => Message::Ping(Bytes::new()),
                };
                if send.send(message).await.is_err() {
                    // Wait for the reading side, which reports how the session ended.
                    std::future::pending::<()>().await;
                }
            }
        };
        let reading = async {
            while let Some((channel, content)) = receive.next().await {
                let stream = match channel {
                    STDOUT => SessionStream::Out,
                    STDERR => SessionStream::Err,
                    // Skip the empty message that the server sends once the connection is
                    // established.
                    STATUS if !content.is_empty() => {
                        return serde_json::from_slice(&content)
                            .map_or(SessionEnd::Broken, |status| ending(&status));
                    }
                    _ => continue,
                };
                if !content.is_empty() && !sink(stream, &content).await {
                    return SessionEnd::Unread;
                }
            }
            SessionEnd::Broken
        };
        tokio::select! {
            ending = reading => ending,
            () = feeding => SessionEnd::Broken,
        }
    }
}

/// Reads the exit code from the causes of a failed Status. Servers other than the kubelet, such as
/// virtual kubelets, write it into the message.
fn ending(status: &Status) -> SessionEnd {
    static IN_WORDS: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"exit (?:status|code) (\d+)$").expect("the pattern is tested")
    });
    if status.status.as_deref() == Some("Success") {
        return SessionEnd::Exit(0);
    }
    // Remove the prefix that each server on the path adds.
    let message = status
        .message
        .as_deref()
        .unwrap_or("the command could not be run")
        .trim_start_matches("Internal error occurred: ");
    let causes = status
        .details
        .as_ref()
        .and_then(|details| details.causes.as_ref())
        .into_iter()
        .flatten();
    let code = causes
        .clone()
        .find(|cause| cause.reason.as_deref() == Some("ExitCode"));
    let exit_code = code.and_then(|cause| cause.message.as_ref()?.parse().ok());
    let code_in_message = || {
        IN_WORDS
            .captures(message.trim_end())
            .and_then(|captures| captures[1].parse().ok())
    };
    exit_code
        .or_else(code_in_message)
        .map_or_else(|| SessionEnd::Refused(message.to_owned()), SessionEnd::Exit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_exit_code_is_in_the_details() {
        let end_of = |value| ending(&serde_json::from_value(value).unwrap());
        assert_eq!(end_of(json!({"status": "Success"})), SessionEnd::Exit(0));
        let failed = json!({"status": "Failure", "reason": "NonZeroExitCode", "message": "command terminated with non-zero exit code",
            "details": {"causes": [{"reason": "ExitCode", "message": "137"}]}});
        assert_eq!(end_of(failed), SessionEnd::Exit(137));
        let in_message = json!({"status": "Failure", "message": "error executing command in container: cmd wait: exit status 7"});
        assert_eq!(end_of(in_message), SessionEnd::Exit(7));
        let forbidden =
            json!({"status": "Failure", "reason": "InternalError", "message": "no such container"});
        assert_eq!(
            end_of(forbidden),
            SessionEnd::Refused("no such container".to_owned())
        );
    }
}
