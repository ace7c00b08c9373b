//! `gpuctl attach`: shows what a container prints from now on.

use std::process::ExitCode;

use crate::cli::jobs::attach::Attach;
use crate::context::Context;
use crate::inside::session::{Wants, within};
use gpuctl_core::error::Error;

pub(crate) async fn run(args: &Attach, context: &Context) -> Result<ExitCode, Error> {
    context.must_change("omit `--replay` to reach the cluster")?;
    context.terminal.note("Ctrl-C detaches; the job continues");
    // The containers of jobs have neither a terminal nor stdin that could be joined.
    within(
        &args.target.name,
        args.target.choice(),
        None,
        Wants {
            stdin: false,
            tty: false,
        },
        context,
    )
    .await
}
