//! Prints a list of names as lines, CSV or JSON.

use std::process::ExitCode;

use super::list::ListOptions;
use crate::context::Context;
use gpuctl_core::error::Error;
use gpuctl_view::format::{csv, text};
use gpuctl_view::{Format, document};

pub(crate) fn print(
    names: &[String],
    options: &ListOptions,
    none: &str,
    context: &Context,
) -> Result<ExitCode, Error> {
    context.terminal.set_format(options.format);
    let text = match options.format {
        Format::Csv => {
            let title = options.headers.then(|| vec!["name".to_owned()]);
            let rows = names.iter().map(|name| vec![name.clone()]);
            csv::records(title.into_iter().chain(rows))
        }
        format => document(format, &names).unwrap_or_else(|| text::name_lines(names)),
    };
    context.terminal.print(&text)?;
    if names.is_empty() {
        context.terminal.note(none);
    }
    Ok(ExitCode::SUCCESS)
}
