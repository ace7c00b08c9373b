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
use super::{OneFormat, World, completion, duration, inputs, pool_changes, quota_changes};

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
    /// Delete pools: the labels that were set for them, and their definition
    #[command(visible_alias = "pools")]
    Pool(PoolNames),
    /// Delete quotas of gpuctl's in every namespace that they bind
    #[command(visible_alias = "quotas")]
    Quota(QuotaNames),
}

#[derive(Args, Debug)]
struct PoolNames {
    /// Pools
    #[arg(required = true, value_parser = super::object_name, add = ArgValueCandidates::new(completion::pool_names))]
    names: Vec<String>,
    #[command(flatten)]
    how: How,
}

#[derive(Args, Debug)]
struct QuotaNames {
    /// Quotas, as `quota.name` says
    #[arg(required = true, value_parser = super::object_name, add = ArgValueCandidates::new(completion::quota_names))]
    names: Vec<String>,
    #[command(flatten)]
    how: How,
}

/// What is deleted.
#[derive(Clone, Debug)]
enum Item {
    Job(String),
    Pool(String),
    Quota(String),
}

impl Delete {
    /// As `auth check` names it; `None` where files decide.
    pub fn task(&self) -> Option<&'static str> {
        Some(match self.what.as_ref()? {
            What::Job(_) => "delete jobs",
            What::Pool(_) => "delete pools",
            What::Quota(_) => "delete quotas",
        })
    }
}

impl Item {
    fn name(&self) -> &str {
        match self {
            Self::Job(name) | Self::Pool(name) | Self::Quota(name) => name,
        }
    }
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
    /// End the containers at once, without their grace period; of a pool, also with jobs in it
    #[arg(long)]
    force: bool,
    /// Delete the job's claims and their data too; of a quota, namespaces that gpuctl made and that are empty
    #[arg(long)]
    purge: bool,
    /// Leave the labels of a pool on its nodes
    #[arg(long)]
    keep_labels: bool,
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
    let (items, how) = match &args.what {
        Some(What::Job(names)) => (names.names.iter().cloned().map(Item::Job).collect(), &names.how),
        Some(What::Pool(names)) => (names.names.iter().cloned().map(Item::Pool).collect(), &names.how),
        Some(What::Quota(names)) => (names.names.iter().cloned().map(Item::Quota).collect(), &names.how),
        None => (Vec::new(), &args.how),
    };
    let format: Format = how.output.into();
    world.terminal.set_format(format);
    if args.what.is_none() && args.files.is_empty() {
        return Err(Error::usage("nothing to delete is named").hint("`gpuctl delete job NAME` or `gpuctl delete -f FILE`"));
    }
    let items = if args.what.is_some() { items } else { items_in(&args.files, world)? };
    for item in &items {
        let Item::Job(name) = item else { continue };
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
    let mut answers = Vec::new();
    for item in &items {
        let begun = match item {
            Item::Job(name) => begin(&connection, name, how).await.map(|job| done.extend(job.map(|job| (job, Instant::now())))),
            other => shared(&connection, other, how, world).await.map(|answer| answers.extend(answer)),
        };
        if let Err(error) = begun {
            if items.len() == 1 {
                return Err(error);
            }
            world.terminal.fail(&error);
            failed.push((item.name().to_owned(), error));
        }
    }
    if !format.is_document() {
        answers.iter().try_for_each(|answer| world.terminal.print(&deleted::text(answer)))?;
    }
    for (job, start) in done {
        let answer = match end(&connection, &job, start, how, world).await {
            Ok(answer) => answer,
            Err(error) if items.len() == 1 => return Err(error),
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
    let text = match (items.len(), answers.first()) {
        (1, Some(answer)) => document(format, answer),
        _ => document(format, &deleted::batch(&answers, &failed)),
    };
    world.terminal.print(&text.unwrap_or_default())?;
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(Kind::Request.exit_code()) })
}

/// What files describe, last first: what was created last goes first.
fn items_in(files: &[String], world: &World) -> Result<Vec<Item>, Error> {
    let inputs = inputs::read(files, &[]).map_err(|mut errors| {
        let last = errors.pop().expect("a failed reading has an error");
        errors.iter().for_each(|error| world.terminal.fail(error));
        last
    })?;
    let item = |document: &Document| match document {
        Document::Job(job) => Item::Job(match &job.namespace {
            Some(space) => format!("{}/{}", space.value, job.name.value),
            None => job.name.value.clone(),
        }),
        Document::Pool(pool) => Item::Pool(pool.name.value.clone()),
        Document::Quota(quota) => Item::Quota(quota.name.clone()),
    };
    // Jobs before the pools and quotas that they are in.
    let (jobs, shared): (Vec<Item>, Vec<Item>) =
        inputs.documents.iter().rev().map(|input| item(&input.document)).partition(|item| matches!(item, Item::Job(_)));
    Ok(jobs.into_iter().chain(shared).collect())
}

/// Takes a pool or a quota away.
async fn shared(connection: &Connection, item: &Item, how: &How, world: &World) -> Result<Option<Deleted>, Error> {
    let message = match item {
        Item::Pool(name) => {
            let ending =
                pool_changes::Ending { force: how.force, keep_labels: how.keep_labels, ignore_not_found: how.ignore_not_found };
            pool_changes::delete(connection, name, ending, world).await?
        }
        Item::Quota(name) => quota_changes::delete(connection, name, how.purge, how.ignore_not_found, world).await?,
        Item::Job(_) => None,
    };
    let answer = |message| Deleted { job_id: item.name().to_owned(), namespace: None, status: "deleted", message };
    Ok(message.map(answer))
}

/// Takes a job away to make room for another of its name: its claims stay. Waits until its pods are gone.
pub async fn away(connection: &Connection, job: &Job, timeout: Duration, world: &World) -> Result<(), Error> {
    let how = How {
        force: false,
        purge: false,
        keep_labels: false,
        no_wait: false,
        ignore_not_found: true,
        timeout,
        output: OneFormat::default(),
    };
    let start = Instant::now();
    let name = format!("{}/{}", job.namespace, job.name);
    if lookup::job(connection, &name, Purpose::Change).await.is_ok_and(|found| found.uid != job.uid) {
        let message = format!("job `{}` was replaced by somebody else meanwhile", job.name);
        return Err(Error::new(Kind::Request, "AlreadyExists", message));
    }
    if let Some(job) = begin(connection, &format!("{}/{}", job.namespace, job.name), &how).await? {
        end(connection, &job, start, &how, world).await?;
    }
    Ok(())
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
            connection.delete_at(&pod.path, Deletion { uid: Some(&pod.uid), force: true, version: None }).await?;
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
        removed |= connection.delete_at(&path, Deletion { uid: Some(&uid), force: how.force, version: None }).await?;
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
        |status, message: String| Deleted { job_id: job.name.clone(), namespace: Some(job.namespace.clone()), status, message };
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
