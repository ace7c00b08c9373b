//! Reports files that cannot be read, and ends the submission.

use std::process::ExitCode;

use crate::context::Context;
use crate::deploy::inputs::Unreadable;
use crate::show::reporter::TerminalReporter;
use gpuctl_core::error::Error;
use gpuctl_view::jobs::created::batch;
use gpuctl_view::{Format, document};

/// Prints the errors and submits nothing. With several files, also prints the JSON or YAML batch to
/// stdout, because programs parse it.
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
