//! `apply`: makes the cluster as files say. What is there already is changed in place where that can be, and replaced where it
//! cannot and that is asked for. How a document gets into the cluster is known elsewhere.

use std::process::ExitCode;

use clap::Args;

use crate::error::Error;
use crate::spec::Override;

use super::create::named;
use super::inputs;
use super::judgement::Mode;
use super::submission::{self, How};
use super::{OneFormat, World, planning};

/// Make the cluster as files say: submit what is missing, change what differs
///
/// Replicas, autoscaling, labels, and the image of services change in place. The pods of a training cannot be changed: it
/// says what differs, and --replace submits it anew. What an autoscaler has scaled and what is paused stays so.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl apply -f service.yaml
  gpuctl apply -f jobs/ -n team-a
  gpuctl apply -f service.yaml --dry-run=server
  gpuctl apply -f train.yaml --replace
  gpuctl diff -f service.yaml")]
pub struct Apply {
    /// File, folder of *.yaml files, or - for stdin; may be repeated
    #[arg(short, long = "filename", required = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    files: Vec<String>,
    /// Change a field of every document, as resources.gpu=4; may be repeated
    #[arg(long = "set", value_name = "FIELD=VALUE", value_parser = Override::parse)]
    sets: Vec<Override>,
    /// Take a job that cannot be changed away, wait for its end, and submit it anew
    #[arg(long)]
    replace: bool,
    /// Overwrite fields that somebody else has set otherwise
    #[arg(long)]
    force_conflicts: bool,
    #[command(flatten)]
    how: How,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

pub async fn run(args: &Apply, world: &World) -> Result<ExitCode, Error> {
    world.terminal.set_format(args.output.into());
    let inputs = inputs::read(&args.files, &args.sets).map_err(|errors| planning::all(world, errors))?;
    inputs.warnings.iter().for_each(|problems| world.terminal.warn_about(problems));
    let mode = Mode::Apply { force_conflicts: args.force_conflicts, replace: args.replace };
    let how = How { mode, ..args.how.clone() };
    submission::submit(named(inputs.documents, false)?, &how, args.output.into(), world).await
}
