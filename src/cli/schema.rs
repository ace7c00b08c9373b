//! `schema`, `explain` and `init`: what a file may say, for editors, for people, and to begin with. No cluster is asked.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::error::{Error, Kind};
use crate::files;
use crate::spec::nearest;
use crate::spec::reference::KINDS;
use crate::spec::schema::schema;
use crate::view::{Format, document, json, reference};

use super::{OneFormat, World};

/// Kinds as words of the command line.
fn kinds() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(
        KINDS.iter().map(|(kind, about)| clap::builder::PossibleValue::new(*kind).help(*about)),
    )
}

/// Print the JSON Schema of the files, for editors
///
/// Draft 2020-12. It accepts what gpuctl accepts, but for rules that compare two values of a file.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl schema > gpuctl.schema.json
  gpuctl schema training")]
pub struct Schema {
    /// Only of this kind
    #[arg(value_name = "KIND", value_parser = kinds())]
    kind: Option<String>,
}

/// Say what a field of the files means
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl explain training
  gpuctl explain training.resources.gpu
  gpuctl explain service.health_check -o json")]
pub struct Explain {
    /// Field, with or without its kind
    #[arg(value_name = "FIELD")]
    field: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

/// Write a file to begin with: what is needed is set, everything else stands there as a comment
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl init training --output job.yaml
  gpuctl init inference | less")]
pub struct Init {
    /// What the file is to describe
    #[arg(value_name = "KIND", value_parser = kinds())]
    kind: String,
    /// File to write; stdout without it
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Overwrite a file that is there
    #[arg(long, requires = "output")]
    force: bool,
}

pub fn schema_of(args: &Schema, world: &World) -> Result<ExitCode, Error> {
    world.terminal.print(&json(&schema(args.kind.as_deref())))?;
    Ok(ExitCode::SUCCESS)
}

pub fn explain(args: &Explain, world: &World) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    world.terminal.set_format(format);
    let found = reference::find(&args.field).map_err(|(part, known)| {
        let error = Error::new(Kind::NotFound, "FieldNotFound", format!("there is no field `{part}` in `{}`", args.field));
        match (nearest(&part, &known), known.is_empty()) {
            (Some(near), _) => error.hint(format!("did you mean `{near}`?")),
            (None, false) => error.hint(format!("known here: {}", known.join(", "))),
            (None, true) => error.hint("what stands before it has no fields of its own"),
        }
    })?;
    let text = document(format, &reference::value(&args.field, found));
    world.terminal.print(&text.unwrap_or_else(|| reference::explained(&args.field, found)))?;
    Ok(ExitCode::SUCCESS)
}

pub fn init(args: &Init, world: &World) -> Result<ExitCode, Error> {
    let text = reference::starter(&args.kind);
    let Some(path) = &args.output else {
        world.terminal.print(&text)?;
        return Ok(ExitCode::SUCCESS);
    };
    let shown = path.display();
    let written = match args.force {
        true => files::replace(path, text.as_bytes(), 0o644).map(|()| true),
        false => files::create(path, text.as_bytes()),
    };
    if !written.map_err(|told| Error::new(Kind::Request, "FileNotWritten", told))? {
        let error = Error::new(Kind::Request, "AlreadyExists", format!("there is a file `{shown}` already"));
        return Err(error.hint("--force overwrites it"));
    }
    world.terminal.note(&format!("{shown} is written; gpuctl validate -f {shown}"));
    Ok(ExitCode::SUCCESS)
}
