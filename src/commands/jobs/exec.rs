//! `gpuctl exec`: runs a command, or a shell, in a container of a job.

use std::process::ExitCode;

use crate::cli::jobs::exec::Exec;
use crate::context::Context;
use crate::inside::session::{SHELL, SessionOptions, run_session};
use gpuctl_core::error::Error;

pub(crate) async fn run(args: &Exec, context: &Context) -> Result<ExitCode, Error> {
    context.must_change("omit `--replay` to reach the cluster")?;
    let shell = args.command.is_empty();
    let command = if shell {
        SHELL.map(ToOwned::to_owned).to_vec()
    } else {
        args.command.clone()
    };
    let person = context.terminal.stdin_is_terminal();
    let wants = SessionOptions {
        stdin: args.stdin || shell,
        tty: args.tty || (shell && person),
    };
    run_session(
        &args.target.name,
        args.target.choice(),
        Some(&command),
        wants,
        context,
    )
    .await
}
