//! `gpuctl apply`: changes the cluster to what files say.

use std::process::ExitCode;

use crate::cli::files::apply::Apply;
use crate::context::Context;
use crate::deploy::decide::Mode;
use crate::deploy::names::named;
use crate::deploy::{inputs, plan, submit};
use crate::error::Error;

pub async fn run(args: &Apply, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let inputs = inputs::read(&args.files, &args.sets).map_err(|errors| plan::all(context, errors))?;
    inputs.warnings.iter().for_each(|problems| context.terminal.warn_about(problems));
    let mode = Mode::Apply { force_conflicts: args.force_conflicts, replace: args.replace };
    submit::submit(named(inputs.documents, false)?, &args.submit.options(mode), args.output.into(), context).await
}
