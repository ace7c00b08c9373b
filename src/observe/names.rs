//! Prints a list of plain names, one per line or as JSON.

use std::process::ExitCode;

use crate::context::Context;
use gpuctl_core::error::Error;
use gpuctl_view::{Format, document};

pub(crate) fn print(
    names: &[String],
    format: Format,
    none: &str,
    context: &Context,
) -> Result<ExitCode, Error> {
    context.terminal.set_format(format);
    let lines = || {
        names
            .iter()
            .map(|name| format!("{}\n", gpuctl_view::format::text::clean(name)))
            .collect::<String>()
    };
    context
        .terminal
        .print(&document(format, &names).unwrap_or_else(lines))?;
    if names.is_empty() {
        context.terminal.note(none);
    }
    Ok(ExitCode::SUCCESS)
}
