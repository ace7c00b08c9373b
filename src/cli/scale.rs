//! `scale`, `pause` and `resume`: how many pods a job has, down to none and back.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCandidates;

use crate::cluster::Connection;
use crate::error::{Error, Kind};
use crate::model::{Job, JobKind, State, Status};
use crate::view::scaled::{Scaled, text};
use crate::view::text::count;
use crate::view::{Format, document};

use super::lookup::{self, Purpose};
use super::{OneFormat, World, completion};

/// Set the number of replicas of a service
///
/// With 0 it is paused and its GPUs are free. An autoscaler moves any other number again.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl scale llama3-8b --replicas 4
  gpuctl scale data-prep --replicas 0")]
pub struct Scale {
    /// Job, as NAME or NAMESPACE/NAME
    #[arg(add = ArgValueCandidates::new(completion::job_names))]
    name: String,
    /// Pods that shall run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    replicas: u32,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

/// Pause a job and free its GPUs
#[derive(Debug, Subcommand)]
pub enum Pause {
    /// Pause a job: its pods end, its files, claims and addresses stay
    ///
    /// A training goes on from its last checkpoint when it is resumed; whatever a pod kept in memory or in its own
    /// folders is lost, its log included.
    #[command(
        visible_alias = "jobs",
        after_help = "Examples:
  gpuctl pause job data-prep
  gpuctl pause job team-a/qwen2-7b-sft -o json"
    )]
    Job(Paused),
}

#[derive(Args, Debug)]
pub struct Paused {
    /// Job, as NAME or NAMESPACE/NAME
    #[arg(add = ArgValueCandidates::new(completion::job_names))]
    name: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

/// Resume a paused job
#[derive(Debug, Subcommand)]
pub enum Resume {
    /// Resume a paused job with the size that it had
    ///
    /// A notebook that mounts folders of its node comes back to that node, for its files are there.
    #[command(
        visible_alias = "jobs",
        after_help = "Examples:
  gpuctl resume job data-prep
  gpuctl resume job data-prep --anywhere"
    )]
    Job(Resumed),
}

#[derive(Args, Debug)]
pub struct Resumed {
    /// Job, as NAME or NAMESPACE/NAME
    #[arg(add = ArgValueCandidates::new(completion::job_names))]
    name: String,
    /// On any node, without the files that a notebook left on its last one
    #[arg(long)]
    anywhere: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

pub async fn scale(args: &Scale, world: &World) -> Result<ExitCode, Error> {
    world.terminal.set_format(args.output.into());
    let connection = world.connect().await?;
    let job = changeable(&connection, &args.name).await?;
    let full = format!("{}/{}", job.namespace, job.name);
    match job.kind {
        JobKind::Training => {
            let error = Error::new(
                Kind::Request,
                "NotScalable",
                format!("`{}` is a training: its ranks are fixed when it begins", job.name),
            );
            return Err(error.hint(format!("`gpuctl pause job {full}`, or submit it anew with another `resources.node_count`")));
        }
        JobKind::Notebook if args.replicas > 1 => {
            let error = Error::new(Kind::Request, "NotScalable", format!("`{}` is a notebook: it is one pod", job.name));
            return Err(error.hint("submit a second notebook under another name"));
        }
        _ => {}
    }
    let before = if job.suspended { 0 } else { job.pods_wanted };
    // Read beforehand: what was done must not look like a failure because of a warning.
    let autoscaler = connection.autoscaler(&job).await?;
    if args.replicas != before {
        connection.scale(&job, args.replicas).await?;
    }
    if let Some(autoscaler) = autoscaler.filter(|_| args.replicas > 0) {
        let (low, high) = (autoscaler.min_replicas, autoscaler.max_replicas);
        world.terminal.warn(&format!("its autoscaler keeps between {low} and {high} replicas and moves this number again"));
    }
    let message = match (before, args.replicas) {
        (before, after) if before == after => format!("{} already", count(after.into(), "replica")),
        (before, 0) => format!("paused; it had {}", count(before.into(), "replica")),
        (before, after) => format!("scaled from {before} to {}", count(after.into(), "replica")),
    };
    let change = Change { status: if args.replicas == 0 { "paused" } else { "scaled" }, before, after: args.replicas, message };
    answer(&job, change, args.output.into(), world)
}

pub async fn pause(args: &Pause, world: &World) -> Result<ExitCode, Error> {
    let Pause::Job(args) = args;
    world.terminal.set_format(args.output.into());
    let connection = world.connect().await?;
    let job = changeable(&connection, &args.name).await?;
    let state = State::of(&job);
    if state.status == Status::Paused {
        let change = Change { status: "paused", before: 0, after: 0, message: "paused already".to_owned() };
        return answer(&job, change, args.output.into(), world);
    }
    if state.status.is_final() {
        let error = Error::new(Kind::Request, "NotRunning", format!("job `{}` has {}", job.name, state.status));
        return Err(error.hint(format!("gpuctl delete job {}/{}", job.namespace, job.name)));
    }
    if job.kind.serves() {
        connection.scale(&job, 0).await?;
    } else if job.queued {
        connection.hold(&job, true).await?;
    } else {
        connection.suspend(&job, true).await?;
    }
    let freed = match job.gpus_held() {
        0 => String::new(),
        1 => "; 1 GPU becomes free".to_owned(),
        many => format!("; {many} GPUs become free"),
    };
    let lost = if job.kind.serves() { "" } else { "; it goes on from its last checkpoint" };
    let change = Change { status: "paused", before: job.pods_wanted, after: 0, message: format!("paused{freed}{lost}") };
    answer(&job, change, args.output.into(), world)
}

pub async fn resume(args: &Resume, world: &World) -> Result<ExitCode, Error> {
    let Resume::Job(args) = args;
    world.terminal.set_format(args.output.into());
    let connection = world.connect().await?;
    let job = changeable(&connection, &args.name).await?;
    let leaves = args.anywhere && job.pinned.is_some();
    if State::of(&job).status != Status::Paused && !leaves && !job.held {
        let size = job.pods_wanted;
        let change = Change { status: "resumed", before: size, after: size, message: "it was not paused".to_owned() };
        return answer(&job, change, args.output.into(), world);
    }
    if job.queued && !job.kind.serves() {
        connection.hold(&job, false).await?;
        let message = "resumed: it runs when its queue admits it".to_owned();
        return answer(&job, Change { status: "resumed", before: 0, after: job.pods_wanted, message }, args.output.into(), world);
    }
    connection.resume(&job, args.anywhere).await?;
    let place = match &job.pinned {
        Some(node) if !args.anywhere => format!(" on its last node {node}"),
        Some(_) => " on any node".to_owned(),
        None => String::new(),
    };
    let message = format!("resumed with {}{place}", count(job.pods_wanted.into(), "pod"));
    answer(&job, Change { status: "resumed", before: 0, after: job.pods_wanted, message }, args.output.into(), world)
}

/// The job, unless it is going away.
async fn changeable(connection: &Connection, name: &str) -> Result<Job, Error> {
    let job = lookup::job(connection, name, Purpose::Change).await?;
    if job.deleting {
        return Err(Error::new(Kind::Request, "Terminating", format!("job `{}` is being deleted", job.name)));
    }
    Ok(job)
}

struct Change {
    status: &'static str,
    before: u32,
    after: u32,
    message: String,
}

fn answer(job: &Job, change: Change, format: Format, world: &World) -> Result<ExitCode, Error> {
    let scaled = Scaled {
        job_id: job.name.clone(),
        namespace: job.namespace.clone(),
        kind: job.kind.word(),
        status: change.status,
        replicas_before: change.before,
        replicas: change.after,
        message: change.message,
    };
    world.terminal.print(&document(format, &scaled).unwrap_or_else(|| text(&scaled)))?;
    Ok(ExitCode::SUCCESS)
}
