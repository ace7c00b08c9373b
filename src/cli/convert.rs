//! `convert`: prints the file that a job of others would be here, and says what it leaves out. Asks no cluster.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use crate::convert::{Converted, convert};
use crate::error::{Error, Kind};
use crate::spec;
use crate::view::{Format, document, yaml};

use super::{World, inputs};

/// Turn job files of others into gpuctl's: Jobs, Deployments, PyTorchJobs, Slurm scripts
///
/// What cannot be expressed stands as a comment in the result and as a warning on stderr; nothing is dropped silently.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl convert -f job.yaml > train.yaml
  gpuctl convert -f train.sbatch --image pytorch/pytorch:2.9.0
  kubectl get job bert -o yaml | gpuctl convert -f -")]
pub struct Convert {
    /// File, or - for stdin
    #[arg(short, long = "filename", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: String,
    /// Container image, for scripts that name none
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Output format; json lists what is left out beside each document
    #[arg(short, long, value_parser = ["yaml", "json"], default_value = "yaml", value_name = "FORMAT")]
    output: String,
}

pub fn run(args: &Convert, world: &World) -> Result<ExitCode, Error> {
    let format = if args.output == "json" { Format::Json } else { Format::Table };
    world.terminal.set_format(format);
    let bytes = inputs::bytes(&args.file)?;
    let invalid = |message: String| Error::new(Kind::Specification, "NotConvertible", message);
    let text = String::from_utf8(bytes).map_err(|_| invalid(format!("`{}` is not a text file", args.file)))?;
    let found = convert(&text, args.image.as_deref())
        .map_err(|refused| invalid(format!("`{}` cannot be converted: {}", args.file, refused.message)).hint(refused.hint))?;
    for one in &found {
        one.lost.iter().for_each(|lost| world.terminal.warn(&format!("{}: not carried over: {lost}", one.from)));
        // What the reader would say of it is better heard now.
        match spec::parse(&one.from, &yaml(&one.document)) {
            Ok(_) => {}
            Err(problems) => problems.list.iter().for_each(|problem| {
                world.terminal.warn(&format!("{}: to be corrected: {}", one.from, problem.message));
            }),
        }
    }
    let value: Vec<_> =
        found.iter().map(|one| json!({"from": one.from, "document": one.document, "notCarriedOver": one.lost})).collect();
    world.terminal.print(&document(format, &value).unwrap_or_else(|| as_yaml(&found)))?;
    Ok(ExitCode::SUCCESS)
}

fn as_yaml(found: &[Converted]) -> String {
    let one = |one: &Converted| {
        let mut text = format!("# from {}\n", one.from);
        one.lost.iter().for_each(|lost| text.push_str(&format!("# not carried over: {}\n", lost.replace('\n', " "))));
        text + &yaml(&one.document)
    };
    found.iter().map(one).collect::<Vec<_>>().join("---\n")
}
