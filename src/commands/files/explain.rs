//! `gpuctl explain`: describes a field of the job file.

use std::process::ExitCode;

use crate::cli::files::explain::Explain;
use crate::context::Context;
use crate::deploy::defaults::parse_stored;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_manifest::spec::reference::scope_names;
use gpuctl_manifest::spec::{DefaultRow, nearest};
use gpuctl_view::files::{defaults, reference};
use gpuctl_view::{Format, document};

pub(crate) async fn run(args: &Explain, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    let field = reference::find(&args.field).map_err(|(part, known_values)| {
        let error = Error::new(
            ErrorName::FieldNotFound,
            format!("unknown field `{part}` in `{}`", args.field),
        );
        match (nearest(&part, &known_values), known_values.is_empty()) {
            (Some(suggestion), _) => error.hint(format!("did you mean `{suggestion}`?")),
            // Users often know only the last part of a path.
            _ if let Some(path) = reference::paths()
                .iter()
                .find(|path| path.rsplit('.').next() == Some(args.field.as_str())) =>
            {
                error.hint(format!("did you mean `{path}`?"))
            }
            (None, false) => error.hint(format!("known values: {}", known_values.join(", "))),
            (None, true) => error.hint("its parent has no fields"),
        }
    })?;
    let site_rows = if args.server {
        Some(read_site_defaults(&args.field, context).await?)
    } else {
        None
    };
    let mut answer = reference::document(&args.field, field);
    answer.defaults = site_rows
        .as_ref()
        .map(|rows| defaults::list(rows, rows.len()));
    let text = document(format, &answer);
    let site_text = site_rows
        .as_ref()
        .map_or_else(String::new, |rows| defaults::below(rows));
    context.terminal.print(
        &text.unwrap_or_else(|| format!("{}{site_text}", reference::explained(&args.field, field))),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the site's defaults of a field. Compares only the last part of the path.
async fn read_site_defaults(field: &str, context: &Context) -> Result<Vec<DefaultRow>, Error> {
    let connection = context.connect().await?;
    let stored = parse_stored(connection.site().defaults().await?)?;
    let rows = stored.map_or_else(Vec::new, |(site, _)| site.rows());
    let last_part = field.rsplit('.').next().unwrap_or(field);
    Ok(rows
        .into_iter()
        .filter(|row| scope_names(row.field).contains(&last_part))
        .collect())
}
