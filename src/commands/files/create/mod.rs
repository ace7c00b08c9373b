//! `gpuctl create`: creates the jobs and other objects that files declare.

pub(crate) mod secret;

use std::process::ExitCode;

use crate::cli::files::create::Create;
use crate::context::Context;
use crate::deploy::names::with_unique_names;
use crate::deploy::options::Mode;
use crate::deploy::{copies, inputs};
use crate::show;
use crate::show::reporter::TerminalReporter;
use gpuctl_core::error::Error;
use gpuctl_manifest::spec::Override;

pub(crate) async fn run(args: &Create, context: &Context) -> Result<ExitCode, Error> {
    if let Some(subcommand) = &args.what {
        if !args.files.is_empty()
            || !args.sets.is_empty()
            || args.name.is_some()
            || args.from.is_some()
            || args.generate_name
            || args.local.is_given()
            || args.submit.is_given()
        {
            return Err(
                Error::usage("options of `create secret` must come after `secret`")
                    .hint("gpuctl create secret --help"),
            );
        }
        return subcommand.run(context).await;
    }
    context.terminal.set_format(args.output.into());
    let mut overrides = args.sets.clone();
    overrides.extend(
        args.name
            .as_deref()
            .map(|name| Override::text(&["job", "name"], name)),
    );
    let inputs = match &args.from {
        Some(name) => copies::read(name, &overrides, &context.connect().await?).await?,
        None => match inputs::read(&args.files, &overrides, &args.local.access()?) {
            Ok(inputs) => inputs,
            Err(unreadable) => {
                return show::inputs::refuse(unreadable, args.output.into(), context);
            }
        },
    };
    inputs.warn(&TerminalReporter::new(
        &context.terminal,
        args.output.into(),
    ));
    if args.name.is_some() && inputs.documents.len() != 1 {
        let message = format!(
            "`--name` works with one job, but the files contain {} documents",
            inputs.documents.len()
        );
        return Err(
            Error::usage(message).hint("set their names in the files, or use `--generate-name`")
        );
    }
    let documents = with_unique_names(inputs.documents, args.generate_name)?;
    if let (Some(name), Some(copy)) = (&args.from, documents.first()) {
        copies::check_name(copy, name, &context.connect().await?).await?;
    }
    show::submission::submit(
        documents,
        &args.submit.options(Mode::default()),
        args.output.into(),
        context,
    )
    .await
}
