//! `gpuctl attach`: streams the output of a container from now on.

use std::process::ExitCode;

use crate::cli::jobs::attach::Attach;
use crate::context::Context;
use crate::inside::session::{SessionOptions, run_session};
use gpuctl_core::error::Error;

pub(crate) async fn run(args: &Attach, context: &Context) -> Result<ExitCode, Error> {
    context.must_change("remove `--replay` to use a live cluster")?;
    context
        .terminal
        .note("Ctrl-C detaches; the job keeps running");
    // Containers of jobs have no TTY and no stdin, so only their output can be attached.
    run_session(
        &args.target.name,
        args.target.choice(),
        None,
        SessionOptions {
            stdin: false,
            tty: false,
        },
        context,
    )
    .await
}
