//! `gpuctl schema`: prints the JSON Schema of the specification file.

use std::process::ExitCode;

use crate::cli::files::schema::Schema;
use crate::context::Context;
use crate::error::Error;
use crate::spec::schema::schema;
use crate::view::json;

pub(crate) async fn run(args: &Schema, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.print(&json(&schema(args.kind.as_deref())))?;
    Ok(ExitCode::SUCCESS)
}
