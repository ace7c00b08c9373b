//! `gpuctl explain`: describes one field of the specification file.

use std::process::ExitCode;

use crate::cli::files::explain::Explain;
use crate::context::Context;
use crate::error::{Error, ErrorName};
use crate::spec::nearest;
use crate::view::{Format, document, reference};

pub(crate) async fn run(args: &Explain, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    let found = reference::find(&args.field).map_err(|(part, known)| {
        let error = Error::new(ErrorName::FieldNotFound, format!("there is no field `{part}` in `{}`", args.field));
        match (nearest(&part, &known), known.is_empty()) {
            (Some(near), _) => error.hint(format!("did you mean `{near}`?")),
            (None, false) => error.hint(format!("known values: {}", known.join(", "))),
            (None, true) => error.hint("the part before it has no fields"),
        }
    })?;
    let text = document(format, &reference::value(&args.field, found));
    context.terminal.print(&text.unwrap_or_else(|| reference::explained(&args.field, found)))?;
    Ok(ExitCode::SUCCESS)
}
