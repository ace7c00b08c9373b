//! From documents to objects in the cluster, one after the other, each whole or not at all. Knows the order of the steps;
//! what an object looks like and how it is written is known elsewhere.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::cluster::Connection;
use crate::error::{Error, Kind};
use crate::model::rights::Task;
use crate::view::created::{self, Created};
use crate::view::{Format, document, json, yaml};

use super::inputs::Input;
use super::interrupt::Interruption;
use super::judgement::{Judged, Mode, Step, judge};
use super::planning::{Facts, Plan, job, plan};
use super::shared_documents;
use super::waiting::{Goal, wait};
use super::writing::{Account, Writing, outcome, told};
use super::{World, duration};

/// How jobs are submitted.
#[derive(Args, Clone, Debug, Default)]
pub struct How {
    /// What is done about jobs that are there; each verb has its own.
    #[arg(skip)]
    pub mode: Mode,
    /// Only show what would be sent (client), or let the server judge it too (server)
    #[arg(long, value_enum, value_name = "WHERE", num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub dry_run: Option<DryRun>,
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
        self.dry_run.is_some() || self.keep_partial || self.force || self.private || self.wait.is_some() || self.timeout.is_some()
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
    match (how.dry_run, connection) {
        (Some(DryRun::Client), _) | (_, None) => {
            let before = shared_documents::make(&shared, how, format, false, world).await?;
            tell_failed(&before.failed, world);
            show(&plans, format, world)?;
            Ok(before.exit_code())
        }
        (_, Some(connection)) => write(how, &shared, plans, &facts, &connection, format, world).await,
    }
}

async fn known(world: &World) -> Result<(Connection, Facts), Error> {
    let connection = world.connect().await?;
    let facts = Facts::of(&connection).await?;
    Ok((connection, facts))
}

/// A document by its kind and name.
fn named(input: &Input) -> (&'static str, &str) {
    (input.document.kind(), input.document.name())
}

/// Pools and quotas without a job.
async fn shared_alone(shared: &[Input], how: &How, format: Format, world: &World) -> Result<ExitCode, Error> {
    let only = shared.len() == 1;
    let mut refused = if only { Vec::new() } else { shared_documents::judge(shared, how, world).await? };
    if refused.iter().any(|(.., error)| error.name != "AlreadyExists") {
        let failed = |input: &&Input| refused.iter().any(|(kind, name, _)| (*kind, name.as_str()) == named(input));
        let not_tried: Vec<(&str, String)> =
            shared.iter().filter(|input| !failed(input)).map(|input| (named(input).0, named(input).1.to_owned())).collect();
        tell_failed(&refused, world);
        world.terminal.print(&document(format, &created::batch(&[], &refused, &not_tried)).unwrap_or_default())?;
        return Ok(ExitCode::from(Kind::Request.exit_code()));
    }
    let fresh = shared.iter().filter(|input| !refused.iter().any(|(kind, name, _)| (*kind, name.as_str()) == named(input)));
    let fresh: Vec<Input> = fresh.cloned().collect();
    let mut before = shared_documents::make(&fresh, how, format, only, world).await?;
    refused.append(&mut before.failed);
    before.failed = refused;
    tell_failed(&before.failed, world);
    let answer = match (only, before.made.first()) {
        (true, Some(made)) => document(format, made),
        _ => document(format, &created::batch(&before.created(), &before.failed, &[])),
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

/// Judges every document, then writes them in order. Nothing is written when one of them cannot be: a job that is there
/// already is in the way of itself alone.
async fn write(
    how: &How,
    shared: &[Input],
    plans: Vec<Plan>,
    facts: &Facts,
    connection: &Connection,
    format: Format,
    world: &World,
) -> Result<ExitCode, Error> {
    let (mode, dry_run) = (how.mode, how.dry_run.is_some());
    let single = plans.len() == 1 && shared.is_empty();
    let mut account = Account::default();
    let interruption = Interruption::listen();
    let judging = async {
        let mut failed = shared_documents::judge(shared, how, world).await?;
        let (judged, rest) = judge_all(plans, mode, facts, connection, dry_run, world, &mut failed).await;
        Ok::<_, Error>((judged, rest, failed))
    };
    let (judged, rest, failed) = tokio::select! {
        found = judging => found?,
        () = interruption.times(1) => return Err(Error::new(Kind::Interrupted, "Interrupted", "interrupted").cause("no document was written")),
    };
    account.failed = failed;
    let refused = account.failed.iter().any(|(.., error)| error.name != "AlreadyExists");
    let mut made = Vec::new();
    // What is there already has failed by itself.
    let failed = |input: &&Input| {
        account.failed.iter().any(|(kind, name, _)| (*kind, name.as_str()) == (input.document.kind(), input.document.name()))
    };
    let fresh: Vec<Input> = shared.iter().filter(|input| !failed(input)).cloned().collect();
    if refused {
        account.not_tried = rest;
        account.not_tried.extend(shared.iter().map(|input| (input.document.kind(), input.document.name().to_owned())));
        account
            .not_tried
            .extend(judged.iter().map(|one| (one.plan.input.document.kind(), one.plan.input.document.name().to_owned())));
        let failed: Vec<(&str, &str)> = account.failed.iter().map(|(kind, name, _)| (*kind, name.as_str())).collect();
        account.not_tried.retain(|(kind, name)| !failed.contains(&(*kind, name.as_str())));
    } else if dry_run {
        made = shared_documents::make(&fresh, how, format, false, world).await?.created();
        for one in &judged {
            account.done.push(foreseen(one, mode));
        }
        tell_done(&account.done, format, world)?;
    } else {
        let before = tokio::select! {
            made = shared_documents::make(&fresh, how, format, false, world) => made?,
            () = interruption.times(1) => {
                let error = Error::new(Kind::Interrupted, "Interrupted", "interrupted while pools and quotas were written");
                return Err(error.cause("one of them may be half made").hint("run it again, or `gpuctl delete -f`"));
            }
        };
        made = before.created();
        let lost: Vec<String> =
            before.failed.iter().filter(|(kind, ..)| *kind == "pool").map(|(_, name, _)| name.clone()).collect();
        account.failed.extend(before.failed);
        let (orphans, judged): (Vec<Judged>, Vec<Judged>) =
            judged.into_iter().partition(|one| lost_pool(&one.plan, &lost).is_some());
        account
            .not_tried
            .extend(orphans.iter().map(|one| (one.plan.input.document.kind(), one.plan.input.document.name().to_owned())));
        let writing = Writing::new(mode, how.keep_partial, facts, connection, world, interruption.clone());
        writing.all(judged, &mut account, |created| tell_done(std::slice::from_ref(created), format, world)).await?;
    }
    if single && let Some((.., error)) = account.failed.pop() {
        return Err(error);
    }
    tell_failed(&account.failed, world);
    if !account.not_tried.is_empty() {
        let names: Vec<String> = account.not_tried.iter().map(|(kind, name)| format!("{kind}/{name}")).collect();
        world.terminal.warn(&format!("not tried: {}", names.join(", ")));
    }
    let waited = match how.wait {
        Some(goal) if account.kind() != Some(Kind::Interrupted) => {
            wait(connection, &mut account.done, goal, how.timeout, &interruption, world).await
        }
        _ => Ok(()),
    };
    let answer = match (single, account.done.first()) {
        (true, Some(created)) => document(format, created),
        _ => document(format, &created::batch(&[&made[..], &account.done].concat(), &account.failed, &account.not_tried)),
    };
    if let Some(text) = answer {
        world.terminal.print(&text)?;
    }
    waited?;
    if let Some(created) = account.done.first().filter(|_| how.wait.is_none() && !dry_run) {
        let full = format!("{}/{}", created.namespace, created.job_id);
        let next = if created.kind == "notebook" { format!("gpuctl open {full}") } else { format!("gpuctl logs {full} -f") };
        world.terminal.hint(&next);
    }
    Ok(account.kind().map_or(ExitCode::SUCCESS, |kind| ExitCode::from(kind.exit_code())))
}

/// Judges every job; those that may not be written are in `failed` then.
async fn judge_all(
    plans: Vec<Plan>,
    mode: Mode,
    facts: &Facts,
    connection: &Connection,
    dry_run: bool,
    world: &World,
    failed: &mut Vec<(&'static str, String, Error)>,
) -> (Vec<Judged>, Vec<(&'static str, String)>) {
    let mut judged: Vec<Judged> = Vec::new();
    let mut plans = plans.into_iter();
    for plan in plans.by_ref() {
        let (kind, name) = (plan.input.document.kind(), plan.input.document.name().to_owned());
        world.terminal.set_task(Some(Task::writing(kind, mode.changes())));
        let pool = |plan: &Plan| job(&plan.input).and_then(|job| job.resources.pool.as_ref()).map(|pool| pool.value.clone());
        let own = pool(&plan);
        let beside =
            judged.iter().filter(|one| own.is_some() && matches!(one.step, Step::Create) && pool(&one.plan) == own).count();
        match judge(plan, mode, beside, facts, connection, dry_run).await {
            Ok(one) => {
                if !matches!(one.step, Step::Nothing) {
                    one.warnings.iter().for_each(|warning| world.terminal.warn(warning));
                }
                judged.push(one);
            }
            Err(error) => {
                // Without the cluster nothing more can be found out.
                let over = error.kind == Kind::Unreachable;
                failed.push((kind, name, error));
                if over {
                    break;
                }
            }
        }
    }
    let rest = plans.map(|plan| (plan.input.document.kind(), plan.input.document.name().to_owned())).collect();
    (judged, rest)
}

fn tell_failed(failed: &[(&'static str, String, Error)], world: &World) {
    failed.iter().for_each(|(kind, name, error)| world.terminal.fail(&error.clone().during(format!("{kind}/{name} failed"))));
}

fn tell_done(done: &[Created], format: Format, world: &World) -> Result<(), Error> {
    if !format.is_document() {
        done.iter().try_for_each(|created| world.terminal.print(&created::text(created)))?;
    }
    Ok(())
}

/// What would become of a document.
fn foreseen(judged: &Judged, mode: Mode) -> Created {
    let (action, changes) = match &judged.step {
        Step::Create | Step::Later => ("created", Vec::new()),
        Step::Nothing => ("unchanged", Vec::new()),
        Step::Replace(_) => ("replaced", Vec::new()),
        Step::Change(effects) => ("updated", told(&judged.plan, &judged.live, effects)),
    };
    Created { action: mode.changes().then_some(action), changes, ..outcome(&judged.plan, &judged.live, true) }
}

/// A job of a pool that could not be made would wait for nobody knows what.
fn lost_pool<'p>(plan: &'p Plan, lost: &[String]) -> Option<&'p str> {
    job(&plan.input)?.resources.pool.as_ref().map(|pool| pool.value.as_str()).filter(|pool| lost.iter().any(|lost| lost == pool))
}
