//! `describe job`: collects what is known of one job from several reads at the same time. Knows nothing of how it looks.

use std::process::ExitCode;

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use futures::future::{join, join4};

use crate::cluster::Failure;
use crate::error::Error;
use crate::model::{JobKind, State, Status};
use crate::spec::masked;
use crate::view::{describe, document};

use super::lookup::{self, Purpose};
use super::{OneFormat, World, completion, get_jobs};

/// Show everything about one job: state, pods, nodes, GPUs, events and the YAML that was submitted
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl describe job qwen2-7b-sft
  gpuctl describe job team-a/qwen2-7b-sft -o json")]
pub struct DescribeJob {
    /// Job, as NAME or NAMESPACE/NAME
    #[arg(add = ArgValueCandidates::new(completion::job_names))]
    name: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

pub async fn run(args: &DescribeJob, world: &World) -> Result<ExitCode, Error> {
    world.terminal.set_format(args.output.into());
    let connection = world.connect().await?;
    let mut job = lookup::job(&connection, &args.name, Purpose::Read).await?;
    // A screen is shared more often than a file.
    if world.terminal.out_is_terminal() {
        job.source = job.source.map(|source| masked(&source));
    }
    let state = State::of(&job);
    let running = job.kind == JobKind::Training && state.status == Status::Running;
    let progress = async { if running { get_jobs::tail(&connection, &job).await } else { None } };
    let reached = async {
        if !job.kind.serves() {
            return Ok((Vec::new(), None));
        }
        let (addresses, autoscaler) = join(connection.addresses(&job), connection.autoscaler(&job)).await;
        Ok::<_, Failure>((addresses?, autoscaler?))
    };
    let (progress, events, objects, reached) =
        join4(progress, connection.job_events(&job), connection.objects_of(&job), reached).await;
    let events = match events {
        Err(failure) if failure.is_forbidden() => {
            world.terminal.lack("you may not list events, so none are shown");
            Vec::new()
        }
        other => other?,
    };
    let (objects, (addresses, autoscaler)) = (objects?, reached?);
    let description = describe::Description { state, progress, events, objects, addresses, autoscaler, job };
    let text = document(args.output.into(), &describe::document(&description))
        .unwrap_or_else(|| describe::text(&description, world.terminal.look(), world.now()));
    world.terminal.print(&text)?;
    let full = format!("{}/{}", description.job.namespace, description.job.name);
    if description.job.kind == JobKind::Notebook && description.state.status == Status::Running {
        world.terminal.hint(&format!("gpuctl open {full}"));
    } else if !description.state.status.is_final() {
        world.terminal.hint(&format!("gpuctl logs {full} -f"));
    }
    Ok(ExitCode::SUCCESS)
}
