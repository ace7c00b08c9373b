//! Prints a list of bare names, one a line or as JSON.

use std::process::ExitCode;

use crate::context::Context;
use crate::error::Error;
use crate::view::{Format, document};

pub(crate) fn print(names: &[String], format: Format, none: &str, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(format);
    let lines = || names.iter().map(|name| format!("{}\n", crate::view::text::clean(name))).collect::<String>();
    context.terminal.print(&document(format, &names).unwrap_or_else(lines))?;
    if names.is_empty() {
        context.terminal.note(none);
    }
    Ok(ExitCode::SUCCESS)
}
