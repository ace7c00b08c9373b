//! `describe workload` and `tree`: one workload of anybody's, and what it owns.

use std::process::ExitCode;

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::error::Error;
use crate::view::workloads::{self as view, Row};
use crate::view::{document, tree};

use super::metrics::OF_JOBS;
use super::{OneFormat, World, completion, workloads};

/// Show everything about one workload, whoever made it
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl describe workload PyTorchJob/llama-sft
  gpuctl describe workload 7c1f9f52-0d3c-4a53-9a6e-6f1d5a0a9d51 -o json")]
pub struct DescribeWorkload {
    /// Workload, as UID, KIND/NAME, NAMESPACE/KIND/NAME or NAME
    #[arg(add = ArgValueCandidates::new(completion::workload_names))]
    name: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

/// Show what a workload owns, down to its pods
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl tree Deployment/llama3-8b
  gpuctl tree team-a/RayJob/tune -o json")]
pub struct Tree {
    /// Workload, as UID, KIND/NAME, NAMESPACE/KIND/NAME or NAME
    #[arg(add = ArgValueCandidates::new(completion::workload_names))]
    name: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

pub async fn run(args: &DescribeWorkload, world: &World) -> Result<ExitCode, Error> {
    world.terminal.set_format(args.output.into());
    let connection = world.connect().await?;
    let found = workloads::read(world, &connection, &OF_JOBS).await?;
    let workload = workloads::named(&found.workloads, &args.name)?;
    let row = Row { workload, figures: found.figures(workload) };
    let text = document(args.output.into(), &view::document(&row));
    world.terminal.print(&text.unwrap_or_else(|| view::text(&row, world.terminal.look(), world.now())))?;
    Ok(ExitCode::SUCCESS)
}

pub async fn tree(args: &Tree, world: &World) -> Result<ExitCode, Error> {
    world.terminal.set_format(args.output.into());
    let connection = world.connect().await?;
    let found = workloads::read(world, &connection, &[]).await?;
    let workload = workloads::named(&found.workloads, &args.name)?;
    let branch = found.forest.branch(&workload.top);
    let text = document(args.output.into(), &tree::document(&branch));
    world.terminal.print(&text.unwrap_or_else(|| tree::text(&branch, world.terminal.look())))?;
    Ok(ExitCode::SUCCESS)
}
