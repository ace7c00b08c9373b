//! From documents to objects in the cluster, one after the other, each whole or not at all. Knows the order of the steps;
//! what an object looks like and how it is written is known elsewhere.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::cluster::{Connection, Obstacle, label};
use crate::error::{Error, Kind};
use crate::model::Node;
use crate::model::rights::Task;
use crate::render::{namespace, pods_in_all, render};
use crate::spec::Document;
use crate::view::created::{self, Created};
use crate::view::{Format, document, json, yaml};

use super::inputs::Input;
use super::obstacles::{broken, in_the_way};
use super::planning::{Facts, Plan, job, plan};
use super::shared_documents::{self, Outcome};
use super::waiting::{Goal, wait};
use super::{World, duration, pool_rules};

/// How jobs are submitted.
#[derive(Args, Debug)]
pub struct How {
    /// Only show what would be sent (client), or let the server judge it too (server)
    #[arg(long, value_enum, value_name = "WHERE", num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub dry_run: Option<DryRun>,
    /// Append a random suffix to each job's name, so that a file can be submitted many times
    #[arg(long)]
    pub generate_name: bool,
    /// Keep the objects of a document that fails part way
    #[arg(long)]
    pub keep_partial: bool,
    /// Move nodes that are in another pool, for pools
    #[arg(long)]
    pub force: bool,
    /// Let nobody but administrators read the definitions of pools
    #[arg(long)]
    pub private: bool,
    /// Wait until the jobs run, or until they are complete
    #[arg(long, value_enum, value_name = "UNTIL", num_args = 0..=1, require_equals = true, default_missing_value = "running", conflicts_with = "dry_run")]
    pub wait: Option<Goal>,
    /// Longest time to wait; the jobs stay
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "wait")]
    pub timeout: Option<Duration>,
}

impl How {
    /// True when any of it was written.
    pub fn is_said(&self) -> bool {
        self.dry_run.is_some()
            || self.generate_name
            || self.keep_partial
            || self.force
            || self.private
            || self.wait.is_some()
            || self.timeout.is_some()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DryRun {
    Client,
    Server,
}

/// Submits the documents, or shows what would be submitted.
pub async fn submit(inputs: Vec<Input>, how: &How, format: Format, world: &World) -> Result<ExitCode, Error> {
    if how.wait == Some(Goal::Complete)
        && let Some(input) = inputs.iter().find(|input| job(input).is_some_and(|job| job.kind.serves()))
    {
        let message = format!("`{}` is a service or notebook: it never completes", input.document.name());
        return Err(Error::usage(message).hint("`--wait` waits until it is ready"));
    }
    let (shared, inputs): (Vec<Input>, Vec<Input>) = inputs.into_iter().partition(|input| job(input).is_none());
    if inputs.is_empty() {
        return shared_alone(&shared, how, format, world).await;
    }
    let (connection, mut facts) = match known(world).await {
        Ok((connection, facts)) => (Some(connection), facts),
        Err(error) if how.dry_run == Some(DryRun::Client) && error.kind == Kind::Unreachable => {
            world.terminal.warn(&format!("{error}; the objects are shown as for a cluster whose nodes may not be seen"));
            (None, Facts::default())
        }
        Err(error) => return Err(error),
    };
    facts.foresee(&shared);
    // Nothing is written before every job of the run is known to be one that this cluster has a place for.
    let plans = plan(inputs, connection.as_ref(), &facts, world).await?;
    let before = shared_documents::make(&shared, how, format, false, world).await?;
    match (how.dry_run, connection) {
        (Some(DryRun::Client), _) | (_, None) => {
            show(&plans, format, world)?;
            Ok(before.exit_code())
        }
        (_, Some(connection)) => write(how, plans, before, &facts, &connection, format, world).await,
    }
}

async fn known(world: &World) -> Result<(Connection, Facts), Error> {
    let connection = world.connect().await?;
    let facts = Facts::of(&connection).await?;
    Ok((connection, facts))
}

/// Pools and quotas without a job.
async fn shared_alone(shared: &[Input], how: &How, format: Format, world: &World) -> Result<ExitCode, Error> {
    let only = shared.len() == 1;
    let before = shared_documents::make(shared, how, format, only, world).await?;
    let answer = match (only, before.made.first()) {
        (true, Some(made)) => document(format, made),
        _ => document(format, &created::batch(&before.created(), &before.failed)),
    };
    world.terminal.print(&answer.unwrap_or_default())?;
    Ok(before.exit_code())
}

/// The objects themselves: exactly what would be sent.
fn show(plans: &[Plan], format: Format, world: &World) -> Result<(), Error> {
    plans.iter().flat_map(|plan| &plan.rendered.warnings).for_each(|warning| world.terminal.warn(warning));
    let objects: Vec<&Value> = plans.iter().flat_map(|plan| &plan.rendered.objects).map(|object| &object.body).collect();
    let text = match format {
        Format::Json => json(&serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects})),
        Format::Yaml => objects.iter().map(yaml).collect::<Vec<_>>().join("---\n"),
        _ => plans.iter().map(|plan| created::text(&outcome(plan, &Value::Null, true))).collect(),
    };
    world.terminal.print(&text)?;
    Ok(())
}

async fn write(
    how: &How,
    plans: Vec<Plan>,
    before: Outcome,
    facts: &Facts,
    connection: &Connection,
    format: Format,
    world: &World,
) -> Result<ExitCode, Error> {
    let dry_run = how.dry_run.is_some();
    let single = plans.len() == 1 && before.made.is_empty() && before.failed.is_empty();
    // Pools and quotas of the same files stand first in the report, and are not waited for.
    let (shared, mut failed) = (before.created(), before.failed);
    let lost: Vec<String> = failed.iter().filter(|(kind, ..)| *kind == "pool").map(|(_, name, _)| name.clone()).collect();
    let mut done: Vec<Created> = Vec::new();
    for plan in plans {
        let kind = plan.input.document.kind();
        let name = plan.input.document.name().to_owned();
        world.terminal.set_task(Some(Task::creating(kind)));
        let submitted = match lost_pool(&plan, &lost) {
            Some(error) => Err(error),
            None => submit_one(plan, facts, connection, dry_run, how.keep_partial, world).await,
        };
        match submitted {
            Ok(created) => {
                if !format.is_document() {
                    world.terminal.print(&created::text(&created))?;
                }
                done.push(created);
            }
            Err(error) if single => return Err(error),
            Err(error) => {
                world.terminal.fail(&error);
                failed.push((kind, name, error));
            }
        }
    }
    let answer = match (single, done.first()) {
        (true, Some(created)) => document(format, created),
        _ => document(format, &created::batch(&[&shared[..], &done].concat(), &failed)),
    };
    if let Some(text) = answer.filter(|_| how.wait.is_none()) {
        world.terminal.print(&text)?;
    }
    if let Some(goal) = how.wait {
        let waited = wait(connection, &mut done, goal, how.timeout, world).await;
        let answer = match single {
            true => document(format, &done[0]),
            false => document(format, &created::batch(&[&shared[..], &done].concat(), &failed)),
        };
        if let Some(text) = answer {
            world.terminal.print(&text)?;
        }
        waited?;
    } else if let Some(created) = done.first().filter(|_| !dry_run) {
        let full = format!("{}/{}", created.namespace, created.job_id);
        let next = if created.kind == "notebook" { format!("gpuctl open {full}") } else { format!("gpuctl logs {full} -f") };
        world.terminal.hint(&next);
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(Kind::Request.exit_code()) })
}

/// A job of a pool that could not be made would wait for nobody knows what.
fn lost_pool(plan: &Plan, lost: &[String]) -> Option<Error> {
    let pool = job(&plan.input)?.resources.pool.as_ref().filter(|pool| lost.contains(&pool.value))?;
    Some(Error::new(Kind::Request, "PoolNotMade", format!("its pool `{}` of the same run could not be made", pool.value)))
}

async fn submit_one(
    mut plan: Plan,
    facts: &Facts,
    connection: &Connection,
    dry_run: bool,
    keep_partial: bool,
    world: &World,
) -> Result<Created, Error> {
    let unchecked = pool_rules::check(connection, &plan, facts.pools.as_deref()).await?;
    let space = &plan.target.namespace;
    if dry_run && facts.coming.contains(space) && connection.live(&namespace(space)).await?.is_none() {
        world.terminal.warn(&format!("namespace `{space}` comes with this run, so the server could not check what goes into it"));
        return Ok(outcome(&plan, &Value::Null, true));
    }
    let mut warnings = match connection.preflight(&plan.rendered, dry_run).await {
        Err(Obstacle::NoPriorityClass) => {
            plan.target.without_priority = true;
            plan.rendered = render(&plan.input.document, &plan.target)
                .map_err(|refusal| Error::refused(refusal, &plan.input.file, &plan.input.text))?;
            let mut warnings =
                connection.preflight(&plan.rendered, dry_run).await.map_err(|obstacle| in_the_way(obstacle, &plan))?;
            warnings.push("`job.priority` has no effect: its priority class is not there and you may not create it".to_owned());
            warnings
        }
        other => other.map_err(|obstacle| in_the_way(obstacle, &plan))?,
    };
    warnings.extend(unchecked);
    warnings.extend(plan.rendered.warnings.clone());
    warnings.extend(gang_warning(&plan, connection).await);
    warnings.extend(connection.take_warnings());
    warnings.iter().for_each(|warning| world.terminal.warn(warning));
    let live = if dry_run { Value::Null } else { connection.submit(&plan.rendered, keep_partial).await.map_err(broken)? };
    // The server says the same again when it is written for good.
    connection
        .take_warnings()
        .iter()
        .filter(|warning| !warnings.contains(warning))
        .for_each(|warning| world.terminal.warn(warning));
    Ok(outcome(&plan, &live, dry_run))
}

/// Without a gang scheduler a half-placed job holds GPUs and waits for ever: better to know beforehand.
async fn gang_warning(plan: &Plan, connection: &Connection) -> Option<String> {
    let Document::Job(job) = &plan.input.document else { return None };
    let (resource, per_pod) = plan.rendered.choice.resources.iter().next()?;
    let per_pod: u64 = per_pod.0.parse().ok()?;
    let nodes: Vec<Node> =
        plan.target.nodes.all().iter().filter(|node| plan.rendered.choice.candidates.contains(&node.name)).cloned().collect();
    if job.training.node_count < 2 || per_pod == 0 {
        return None;
    }
    let free = connection.free_gpus(resource, &nodes).await.ok()??;
    let fit: u64 = free.values().map(|free| free / per_pod).sum();
    let wanted = u64::from(job.training.node_count);
    (fit < wanted)
        .then(|| format!("only {fit} of {wanted} pods fit now; those that start hold their GPUs while they wait for the others"))
}

fn outcome(plan: &Plan, live: &Value, dry_run: bool) -> Created {
    let Document::Job(job) = &plan.input.document else { unreachable!("only jobs are rendered") };
    let pool = job.resources.pool.as_ref().map(|pool| pool.value.clone());
    let place = pool.clone().unwrap_or_else(|| plan.target.namespace.clone());
    Created {
        job_id: job.id().to_owned(),
        name: job.name.value.clone(),
        kind: job.kind.word(),
        status: "pending".to_owned(),
        created_at: live.pointer("/metadata/creationTimestamp").and_then(Value::as_str).and_then(|text| text.parse().ok()),
        message: if dry_run { format!("would be submitted to {place}") } else { format!("submitted to {place}") },
        namespace: plan.target.namespace.clone(),
        pods: pods_in_all(job).into(),
        gpus_per_pod: job.resources.gpu.into(),
        gpu_type: plan.rendered.choice.gpu_type.clone(),
        pool,
        objects: plan.rendered.objects.iter().map(label).collect(),
        dry_run,
    }
}
