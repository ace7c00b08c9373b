//! `gpuctl exec`: runs a command or a shell in a container of a job.

use std::process::ExitCode;

use crate::cli::jobs::exec::Exec;
use crate::context::Context;
use crate::inside::session::{SHELL, SessionOptions, run_session};
use gpuctl_core::error::Error;

pub(crate) async fn run(args: &Exec, context: &Context) -> Result<ExitCode, Error> {
    context.must_change("remove `--replay` to run this against a live cluster")?;
    let opens_shell = args.command.is_empty();
    let command = if opens_shell {
        SHELL.map(ToOwned::to_owned).to_vec()
    } else {
        args.command.clone()
    };
    let is_interactive = context.terminal.stdin_is_terminal();
    let wants = SessionOptions {
        stdin: args.stdin || opens_shell,
        tty: args.tty || (opens_shell && is_interactive),
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
