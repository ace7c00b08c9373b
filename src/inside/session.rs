//! Runs a command in a container and connects it to the user's terminal, for `exec` and `attach`.

use std::process::ExitCode;

use tokio::sync::mpsc;

use crate::context::Context;
use crate::inside::choice::{ContainerChoice, from_node, pod};
use crate::lookup::{self, LookupPurpose};
use crate::terminal::raw;
use gpuctl_cluster::{
    ExecRequest, Failure, SessionEnd, SessionInput, SessionStream, names_no_container,
};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::contract::refusal::ContainerComplaint;
use gpuctl_core::model::{Job, Pod};
use gpuctl_local::platform::{self, RawMode, WindowChanges};

/// Starts bash if the image has it, and otherwise `sh`.
pub(crate) const SHELL: [&str; 3] = [
    "sh",
    "-c",
    "command -v bash >/dev/null 2>&1 && exec bash || exec sh",
];

pub(crate) struct SessionOptions {
    pub stdin: bool,
    pub tty: bool,
}

pub(crate) async fn run_session(
    name: &str,
    choice: ContainerChoice<'_>,
    command: Option<&[String]>,
    options: SessionOptions,
    context: &Context,
) -> Result<ExitCode, Error> {
    let connection = context.connect().await?;
    let job = lookup::job(&connection, name, LookupPurpose::Change).await?;
    let pod = pod(&job, choice)?;
    let tty = options.tty && context.terminal.stdin_is_terminal();
    if options.tty && !tty {
        context
            .terminal
            .warn("stdin is not a terminal, so the command runs without one");
    }
    let container = choice
        .container
        .unwrap_or_else(|| pod.own_container())
        .to_owned();
    let call = ExecRequest {
        namespace: &job.namespace,
        pod: &pod.name,
        container: &container,
        command,
        stdin: options.stdin || tty,
        tty,
    };
    let session = connection
        .sessions()
        .start(&call)
        .await
        .map_err(|failure| refused(failure, &job, pod, &container))?;
    // Write the session's output directly, not to the pager.
    context.terminal.stream()?;
    // Switch to raw mode after the checks above, so that their errors are printed on a normal
    // terminal.
    let raw = if tty { RawMode::enter().ok() } else { None };
    let input = input(call.stdin, tty);
    let mut failed = None;
    let running = session.run(input, |stream, bytes| {
        match context
            .terminal
            .forward(stream == SessionStream::Err, bytes)
        {
            Ok(read) => read,
            Err(error) => {
                failed = Some(error);
                false
            }
        }
    });
    let ending = tokio::select! {
        ending = running => ending,
        // Restore the terminal before a signal ends the process.
        number = platform::termination_signal() => {
            drop(raw);
            // As in shells, signal N results in exit code 128 + N.
            return Ok(ExitCode::from(128 + number));
        }
    };
    drop(raw);
    if let Some(error) = failed {
        return Err(error);
    }
    exit_code(ending, command, &job, pod)
}

/// Converts the end of a session into the command's exit code. Fails if the command did not run to
/// its end.
fn exit_code(
    ending: SessionEnd,
    command: Option<&[String]>,
    job: &Job,
    pod: &Pod,
) -> Result<ExitCode, Error> {
    match ending {
        // The reader has closed the pipe. End silently, as filters do.
        SessionEnd::Unread => Ok(ExitCode::SUCCESS),
        SessionEnd::Exit(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(1))),
        SessionEnd::Refused(reason)
            if ContainerComplaint::from_runtime_message(&reason)
                == Some(ContainerComplaint::NoProgram) =>
        {
            let program = command
                .and_then(|command| command.first())
                .map_or("", String::as_str);
            let message = format!("the image of job `{}` has no `{program}`", job.name);
            Err(Error::new(ErrorName::CommandNotFound, message).cause(reason))
        }
        SessionEnd::Refused(reason) => Err(Error::new(
            ErrorName::CommandFailed,
            format!("cannot run the command in {}", pod.name),
        )
        .cause(reason)),
        SessionEnd::Broken => Err(Error::new(
            ErrorName::ConnectionLost,
            format!("the connection to {} was lost", pod.name),
        )
        .hint(format!(
            "the command may still be running: gpuctl describe job {}/{}",
            job.namespace, job.name
        ))),
    }
}

fn refused(failure: Failure, job: &Job, pod: &Pod, container: &str) -> Error {
    let names: Vec<&str> = job
        .pods
        .iter()
        .flat_map(|pod| &pod.containers)
        .map(|member| member.name.as_str())
        .collect();
    if names_no_container(&failure) {
        let message = format!("job `{}` has no container `{container}`", job.name);
        return Error::new(ErrorName::ContainerNotFound, message)
            .hint(format!("available: {}", names.join(", ")));
    }
    from_node(failure, pod)
}

/// Reads typed or piped input, and the size of the window at the start and after every change.
fn input(stdin: bool, tty: bool) -> mpsc::Receiver<SessionInput> {
    let (sender, receiver) = mpsc::channel(16);
    if tty {
        let sizes = sender.clone();
        tokio::spawn(async move {
            let Ok(mut changes) = WindowChanges::listen() else {
                return;
            };
            loop {
                if let Some((columns, rows)) = raw::window()
                    && sizes
                        .send(SessionInput::Resize { columns, rows })
                        .await
                        .is_err()
                {
                    return;
                }
                if !changes.next().await {
                    return;
                }
            }
        });
    }
    if stdin {
        tokio::spawn(async move {
            let mut bytes = raw::stdin();
            while let Some(bytes) = bytes.recv().await {
                if sender.send(SessionInput::Bytes(bytes)).await.is_err() {
                    return;
                }
            }
        });
    }
    receiver
}
