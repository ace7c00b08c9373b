//! `gpuctl apply`: creates or updates the objects that files declare.

use std::process::ExitCode;

use crate::cli::files::apply::Apply;
use crate::context::Context;
use crate::deploy::inputs;
use crate::deploy::names::with_unique_names;
use crate::deploy::options::Mode;
use crate::show;
use crate::show::reporter::TerminalReporter;
use gpuctl_core::error::Error;

pub(crate) async fn run(args: &Apply, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let inputs = match inputs::read(&args.files, &args.sets, &args.local.access()?) {
        Ok(inputs) => inputs,
        Err(unreadable) => return show::inputs::refuse(unreadable, args.output.into(), context),
    };
    inputs.warn(&TerminalReporter::new(
        &context.terminal,
        args.output.into(),
    ));
    let mode = Mode::Apply {
        force_conflicts: args.force_conflicts,
        replace: args.replace,
    };
    show::submission::submit(
        with_unique_names(inputs.documents, false)?,
        &args.submit.options(mode),
        args.output.into(),
        context,
    )
    .await
}
