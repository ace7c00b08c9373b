//! `delete`: takes jobs away and waits until their GPUs are free. Touches only what gpuctl made, by UID.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCandidates;

use crate::cluster::{Connection, Deletion, Patience, Remainder};
use crate::error::{Error, Kind};
use crate::model::Job;
use crate::spec::Document;
use crate::view::deleted::{self, Deleted};
use crate::view::{Format, document};

use super::lookup::{self, Purpose};
use super::{OneFormat, World, completion, duration, inputs};

/// Delete jobs and free their GPUs
///
/// Waits until the pods are gone, for only then are the GPUs free. Claims that `size:` made are kept unless --purge.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  gpuctl delete job qwen2-7b-sft
  gpuctl delete job a b c --force
  gpuctl delete -f job.yaml"
)]
pub struct Delete {
    #[command(subcommand)]
    what: Option<What>,
    /// Delete what these files describe; - is stdin
    #[arg(short, long = "filename", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    files: Vec<String>,
    #[command(flatten)]
    how: How,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Delete jobs by name
    #[command(visible_alias = "jobs")]
    Job(Names),
}

#[derive(Args, Debug)]
struct Names {
    /// Jobs, as NAME or NAMESPACE/NAME
    #[arg(required = true, add = ArgValueCandidates::new(completion::job_names))]
    names: Vec<String>,
    #[command(flatten)]
    how: How,
}

#[derive(Args, Clone, Debug)]
struct How {
    /// End the containers at once, without their grace period
    #[arg(long)]
    force: bool,
    /// Delete the job's claims and their data too
    #[arg(long)]
    purge: bool,
    /// Return before the pods are gone
    #[arg(long)]
    no_wait: bool,
    /// A job that is not there is no error
    #[arg(long)]
    ignore_not_found: bool,
    /// Longest time to wait for the pods
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    timeout: Duration,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

pub async fn run(args: &Delete, world: &World) -> Result<ExitCode, Error> {
    let (names, how) = match &args.what {
        Some(What::Job(names)) => (names.names.clone(), &names.how),
        None => (Vec::new(), &args.how),
    };
    let format: Format = how.output.into();
    world.terminal.set_format(format);
    if args.what.is_none() && args.files.is_empty() {
        return Err(Error::usage("nothing to delete is named").hint("`gpuctl delete job NAME` or `gpuctl delete -f FILE`"));
    }
    let names = if args.what.is_some() { names } else { names_in(&args.files, world)? };
    for name in &names {
        let (namespace, job) = lookup::split(name)?;
        if let (Some(namespace), Some(given)) =
            (namespace, world.access.namespace.as_deref().filter(|given| Some(*given) != namespace))
        {
            let message = format!("`{job}` is in namespace `{namespace}`, and `-n {given}` says another");
            return Err(Error::new(Kind::Usage, "NamespaceConflict", message).hint("leave `-n` out"));
        }
    }
    let connection = world.connect().await?;
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for name in &names {
        match begin(&connection, name, how).await {
            Ok(Some(job)) => done.push((job, Instant::now())),
            Ok(None) => {}
            Err(error) if names.len() == 1 => return Err(error),
            Err(error) => {
                world.terminal.fail(&error);
                failed.push((name.clone(), error));
            }
        }
    }
    let mut answers = Vec::new();
    for (job, start) in done {
        let answer = match end(&connection, &job, start, how, world).await {
            Ok(answer) => answer,
            Err(error) if names.len() == 1 => return Err(error),
            Err(error) => {
                world.terminal.fail(&error);
                failed.push((job.name.clone(), error));
                continue;
            }
        };
        if !format.is_document() {
            world.terminal.print(&deleted::text(&answer))?;
        }
        answers.push(answer);
    }
    let text = match (names.len(), answers.first()) {
        (1, Some(answer)) => document(format, answer),
        _ => document(format, &deleted::batch(&answers, &failed)),
    };
    world.terminal.print(&text.unwrap_or_default())?;
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(Kind::Request.exit_code()) })
}

/// The jobs of files, last first: what was created last goes first.
fn names_in(files: &[String], world: &World) -> Result<Vec<String>, Error> {
    let inputs = inputs::read(files, &[]).map_err(|mut errors| {
        let last = errors.pop().expect("a failed reading has an error");
        errors.iter().for_each(|error| world.terminal.fail(error));
        last
    })?;
    let mut names = Vec::new();
    for input in inputs.documents.iter().rev() {
        match &input.document {
            Document::Job(job) => names.push(match &job.namespace {
                Some(space) => format!("{}/{}", space.value, job.name.value),
                None => job.name.value.clone(),
            }),
            other => {
                let message = format!("deleting `kind: {}` is not there yet", other.kind());
                return Err(Error::new(Kind::Specification, "Unsupported", message).hint("this version of gpuctl deletes jobs"));
            }
        }
    }
    Ok(names)
}

/// Starts the deletion. `None` when there is nothing and that is no error.
async fn begin(connection: &Connection, name: &str, how: &How) -> Result<Option<Job>, Error> {
    let job = match lookup::job(connection, name, Purpose::Change).await {
        Ok(job) => job,
        Err(error) if error.kind == Kind::NotFound => return absent(connection, name, error, how).await,
        Err(error) => return Err(error),
    };
    connection.delete_owner(&job).await?;
    for belonging in connection.belongings(&job.namespace, &job.name).await? {
        if how.purge || !belonging.kept {
            connection.delete_belonging(&belonging).await?;
        }
    }
    if how.force {
        if job.kind.is_replicated() {
            connection.delete_replica_sets(&job).await?;
        }
        for pod in connection.remains(&job).await?.iter().filter(|rest| rest.label.starts_with("pod/")) {
            connection.delete_at(&pod.path, Deletion { uid: Some(&pod.uid), force: true }).await?;
        }
    }
    Ok(Some(job))
}

/// No job of ours: a foreign one of that name stays, leftovers of an interrupted create go.
async fn absent(connection: &Connection, name: &str, error: Error, how: &How) -> Result<Option<Job>, Error> {
    let (namespace, name) = lookup::split(name)?;
    let namespace = namespace.unwrap_or(&connection.namespace);
    if let Some(kind) = connection.foreign(namespace, name).await? {
        let message = format!("{kind} `{name}` in namespace `{namespace}` was not made by gpuctl");
        return Err(Error::new(Kind::Request, "NotOurs", message).hint(format!("kubectl delete {kind} {name} -n {namespace}")));
    }
    let mut removed = false;
    for belonging in connection.belongings(namespace, name).await? {
        if how.purge || !belonging.kept {
            removed |= connection.delete_belonging(&belonging).await?;
        }
    }
    // Pods outlive a job whose deletion was not waited for, or was orphaning.
    for (path, uid) in connection.orphans(namespace, name).await? {
        removed |= connection.delete_at(&path, Deletion { uid: Some(&uid), force: how.force }).await?;
    }
    if removed || how.ignore_not_found { Ok(None) } else { Err(error) }
}

/// Waits until nothing of the job runs.
async fn end(connection: &Connection, job: &Job, start: Instant, how: &How, world: &World) -> Result<Deleted, Error> {
    let gpus = job.gpus_held();
    let freed = match gpus {
        0 => "it held no GPUs".to_owned(),
        1 => "1 GPU is free again".to_owned(),
        _ => format!("{gpus} GPUs are free again"),
    };
    let answer =
        |status, message: String| Deleted { job_id: job.name.clone(), namespace: job.namespace.clone(), status, message };
    if how.no_wait {
        return Ok(answer("terminating", "its pods are ending".to_owned()));
    }
    // What is there at the first look is ours; what a namesake makes later is not.
    let mut ours: Option<BTreeSet<String>> = None;
    let patience = Patience::new(|failure| world.terminal.warn(&format!("{failure}; trying again")));
    let spinner = world.terminal.spinner();
    loop {
        let mut left = patience.ask(|| connection.remains(job)).await?;
        let ours = ours.get_or_insert_with(|| left.iter().map(|rest| rest.uid.clone()).collect());
        left.retain(|rest| ours.contains(&rest.uid));
        if left.is_empty() {
            spinner.finish_and_clear();
            return Ok(answer("deleted", freed));
        }
        spinner.set_message(format!("{}: {} ending", job.name, crate::view::text::count(left.len() as u64, "object")));
        if start.elapsed() >= how.timeout {
            spinner.finish_and_clear();
            let message = format!("job `{}` is still there after {} s", job.name, start.elapsed().as_secs());
            let error = Error::new(Kind::Timeout, "Timeout", message).cause(labels(&left));
            return Err(error.hint(format!("gpuctl delete job {}/{} --force", job.namespace, job.name)));
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

fn labels(left: &[Remainder]) -> String {
    left.iter().map(|rest| rest.label.as_str()).collect::<Vec<_>>().join("; ")
}
