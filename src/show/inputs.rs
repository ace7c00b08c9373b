//! Ends a submission if its files cannot be read.

use std::process::ExitCode;

use crate::context::Context;
use crate::deploy::inputs::Unreadable;
use crate::show::reporter::TerminalReporter;
use gpuctl_core::error::Error;
use gpuctl_view::jobs::created::batch;
use gpuctl_view::{Format, document};

/// Reports the errors. Nothing is submitted. If there are several files, stdout gets the batch that
/// programs expect in JSON and YAML.
pub(crate) fn refuse(
    unreadable: Unreadable,
    format: Format,
    context: &Context,
) -> Result<ExitCode, Error> {
    let Unreadable { failed, others } = &unreadable;
    if failed.len() + others.len() > 1
        && let Some(text) = document(format, &batch(&[], failed, others))
    {
        context.terminal.print(&text)?;
    }
    Err(unreadable.report(&TerminalReporter::new(&context.terminal, format)))
}
