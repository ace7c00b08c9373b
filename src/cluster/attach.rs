//! Runs a command in a container, or joins the one that runs there: its input, output, window size and end. Knows
//! channels, not terminals.

use std::pin::pin;
use std::sync::LazyLock;

use bytes::Bytes;
use futures::SinkExt;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::Api;
use kube::api::{AttachParams, AttachedProcess, TerminalSize};
use regex::Regex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

use super::{Connection, Failure};

/// What to run and where.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    pub namespace: &'a str,
    pub pod: &'a str,
    pub container: &'a str,
    /// `None` joins the process that runs there already.
    pub command: Option<&'a [String]>,
    pub stdin: bool,
    /// One stream for output and errors, with a window size.
    pub tty: bool,
}

/// What goes in; the end of the channel is the end of the input.
#[derive(Debug)]
pub enum Input {
    Bytes(Bytes),
    Resize { columns: u16, rows: u16 },
}

/// What comes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    Out,
    Err,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    Exit(i32),
    /// The process could not be run.
    Refused(String),
    /// The connection broke off; the process may still run.
    Broken,
}

/// A process that has been started.
pub struct Session {
    process: AttachedProcess,
}

/// What is kept of a stream until somebody takes it.
const BUFFER: usize = 64 << 10;

impl Connection {
    /// Starts the call. Credentials that have expired are renewed once.
    pub async fn start(&self, call: &Call<'_>) -> Result<Session, Failure> {
        let parameters = AttachParams {
            container: Some(call.container.to_owned()),
            stdin: call.stdin,
            stdout: true,
            stderr: !call.tty,
            tty: call.tty,
            max_stdin_buf_size: Some(BUFFER),
            max_stdout_buf_size: Some(BUFFER),
            max_stderr_buf_size: Some(BUFFER),
        };
        loop {
            let (client, used) = self.streaming();
            let pods: Api<Pod> = Api::namespaced(client, call.namespace);
            let started = match call.command {
                Some(command) => pods.exec(call.pod, command.to_vec(), &parameters).await,
                None => pods.attach(call.pod, &parameters).await,
            };
            match started.map_err(|error| self.upgrade_failure(error)) {
                Ok(process) => return Ok(Session { process }),
                Err(failure) if failure.code() == Some(401) && self.renew(used).await? => {}
                Err(failure) => return Err(failure),
            }
        }
    }

    /// The failure of a request that should have become a stream.
    pub(super) fn upgrade_failure(&self, error: kube::Error) -> Failure {
        match error {
            kube::Error::Api(status) => {
                Failure::Api { code: status.code, reason: status.reason.clone(), message: status.message.clone(), resume: None }
            }
            kube::Error::UpgradeConnection(error) => {
                let cause = format!("{error}; a proxy between may not let WebSockets through");
                Failure::Unreachable { server: self.server.clone(), cause }
            }
            other => self.unreachable(&other),
        }
    }
}

impl Session {
    /// Passes input in and output out until the process ends.
    pub async fn run(mut self, mut input: mpsc::Receiver<Input>, mut sink: impl FnMut(Output, &[u8])) -> Ending {
        let status = self.process.take_status();
        let (out, err) = (self.process.stdout(), self.process.stderr());
        let (stdin, sizes) = (self.process.stdin(), self.process.terminal_size());
        let mut feed = pin!(async move {
            let (mut stdin, mut sizes) = (stdin, sizes);
            while let Some(next) = input.recv().await {
                match (next, &mut stdin, &mut sizes) {
                    (Input::Bytes(bytes), Some(stdin), _) => {
                        // The process reads no more; its end will tell.
                        let _ = stdin.write_all(&bytes).await;
                    }
                    (Input::Resize { columns, rows }, _, Some(sizes)) => {
                        let _ = sizes.send(TerminalSize { width: columns, height: rows }).await;
                    }
                    _ => {}
                }
            }
            if let Some(mut stdin) = stdin {
                let _ = stdin.shutdown().await;
            }
            // The window may still change, and its channel must stay open.
            std::future::pending::<()>().await;
        });
        let mut read = pin!(read(out, err, &mut sink));
        let mut fed = false;
        loop {
            tokio::select! {
                () = &mut read => break,
                () = &mut feed, if !fed => fed = true,
            }
        }
        match status {
            Some(status) => status.await.map_or(Ending::Broken, |status| ending(&status)),
            None => Ending::Broken,
        }
    }
}

/// Both streams until both have ended.
async fn read(
    mut out: Option<impl AsyncRead + Unpin>,
    mut err: Option<impl AsyncRead + Unpin>,
    sink: &mut impl FnMut(Output, &[u8]),
) {
    let (mut out_bytes, mut err_bytes) = (vec![0; BUFFER], vec![0; BUFFER]);
    while out.is_some() || err.is_some() {
        tokio::select! {
            read = next(&mut out, &mut out_bytes), if out.is_some() => match read {
                0 => out = None,
                count => sink(Output::Out, &out_bytes[..count]),
            },
            read = next(&mut err, &mut err_bytes), if err.is_some() => match read {
                0 => err = None,
                count => sink(Output::Err, &err_bytes[..count]),
            },
        }
    }
}

async fn next(stream: &mut Option<impl AsyncRead + Unpin>, bytes: &mut [u8]) -> usize {
    match stream {
        Some(stream) => stream.read(bytes).await.unwrap_or(0),
        None => 0,
    }
}

/// The exit code is a cause in the details of a failed Status; kubelets that are none, such as virtual ones, wrap it in words.
fn ending(status: &Status) -> Ending {
    static IN_WORDS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"exit (?:status|code) (\d+)$").expect("the pattern is tested"));
    if status.status.as_deref() == Some("Success") {
        return Ending::Exit(0);
    }
    let message = status.message.as_deref().unwrap_or("the command could not be run");
    let causes = status.details.as_ref().and_then(|details| details.causes.as_ref()).into_iter().flatten();
    let code = causes.clone().find(|cause| cause.reason.as_deref() == Some("ExitCode"));
    let told = code.and_then(|cause| cause.message.as_ref()?.parse().ok());
    let in_words = || IN_WORDS.captures(message.trim_end()).and_then(|found| found[1].parse().ok());
    told.or_else(in_words).map_or_else(|| Ending::Refused(message.to_owned()), Ending::Exit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_exit_code_is_in_the_details() {
        let read = |value| ending(&serde_json::from_value(value).unwrap());
        assert_eq!(read(json!({"status": "Success"})), Ending::Exit(0));
        let failed = json!({"status": "Failure", "reason": "NonZeroExitCode", "message": "command terminated with non-zero exit code",
            "details": {"causes": [{"reason": "ExitCode", "message": "137"}]}});
        assert_eq!(read(failed), Ending::Exit(137));
        let wrapped = json!({"status": "Failure", "message": "error executing command in container: cmd wait: exit status 7"});
        assert_eq!(read(wrapped), Ending::Exit(7));
        let refused = json!({"status": "Failure", "reason": "InternalError", "message": "no such container"});
        assert_eq!(read(refused), Ending::Refused("no such container".to_owned()));
    }
}
