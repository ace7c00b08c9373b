//! Submits documents: plans and decides all of them, writes each whole or not at all, then waits if
//! that was asked for.

use std::collections::{BTreeMap, VecDeque};
use std::process::ExitCode;

use serde_json::Value;

use crate::concurrent::SideBySide;
use crate::context::Context;
use crate::deploy::AT_ONCE;
use crate::deploy::decide::{Action, Decision, Judging};
use crate::deploy::defaults::{self, of_job};
use crate::deploy::execute::{RunSummary, Writing, outcome, told};
use crate::deploy::follow::follow;
use crate::deploy::inputs::InputDocument;
use crate::deploy::interrupt::Interruption;
use crate::deploy::namesakes::Namesakes;
use crate::deploy::options::{DocumentKind, DryRun, Mode, SubmitOptions, WaitGoal};
use crate::deploy::plan::{Plan, PlanningFacts, job, plan};
use crate::deploy::shared;
use crate::deploy::wait::wait;
use crate::deploy::warnings::Warned;
use gpuctl_cluster::Connection;
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_core::model::contract::rights::Task;
use gpuctl_view::format::objects::ObjectList;
use gpuctl_view::jobs::created;
use gpuctl_view::jobs::created::{Created, DocumentName, FailedDocument, site_lines};
use gpuctl_view::jobs::local_files;
use gpuctl_view::{Format, document, json, yaml};

/// Submits the documents, or shows what would be submitted.
pub(crate) async fn submit(
    inputs: Vec<InputDocument>,
    how: &SubmitOptions,
    format: Format,
    context: &Context,
) -> Result<ExitCode, Error> {
    refuse_other_kinds(&inputs, how)?;
    if how.wait == Some(WaitGoal::Complete)
        && let Some(input) = inputs
            .iter()
            .find(|input| job(input).is_some_and(|job| job.kind.serves()))
    {
        let message = format!(
            "`{}` is a service or notebook: it never completes",
            input.document.name()
        );
        return Err(Error::usage(message).hint("`--wait` waits until it is ready"));
    }
    if how.follow {
        followable(&inputs, format)?;
    }
    if how.timeout.is_some() && how.wait.is_none() && !how.follow {
        return Err(
            Error::usage("`--timeout` is the time that `--wait` or `--follow` may take")
                .hint("add `--wait`"),
        );
    }
    let (shared, inputs): (Vec<InputDocument>, Vec<InputDocument>) =
        inputs.into_iter().partition(|input| job(input).is_none());
    if how.trust_namespace && how.dry_run.is_none() {
        defaults::trust_namespace(&context.connect().await?, how.private, context).await?;
    }
    if inputs.is_empty() {
        return shared_alone(&shared, how, format, context).await;
    }
    let (connection, mut facts) = match known(context).await {
        Ok((connection, facts)) => (Some(connection), facts),
        Err(error)
            if how.dry_run == Some(DryRun::Client) && error.kind == ErrorKind::Unreachable =>
        {
            context.terminal.warn(&format!(
                "{error}; objects are rendered without knowledge of the nodes"
            ));
            (None, PlanningFacts::default())
        }
        Err(error) => return Err(error),
    };
    facts.foresee(&shared);
    facts.site.require_readable(how.ignore_defaults)?;
    // Nothing is written before every job of the run is known to be one that this cluster has a
    // place for.
    let plans = plan(inputs, connection.as_ref(), &facts, context).await?;
    match (how.dry_run, connection) {
        (Some(DryRun::Client), _) | (_, None) => {
            let before = shared::make(&shared, how, format, false, context).await?;
            tell_failed(&before.failed, how.mode, context);
            show(&plans, format, context)?;
            Ok(before.exit_code())
        }
        (_, Some(connection)) => {
            write(how, &shared, plans, &facts, &connection, format, context).await
        }
    }
}

/// Enforces `--only-kind` before the first request. Checks the parsed documents, because no caller
/// can determine the kind of a text as reliably as the YAML reader.
fn refuse_other_kinds(inputs: &[InputDocument], how: &SubmitOptions) -> Result<(), Error> {
    let Some(only) = how.only_kind else {
        return Ok(());
    };
    let other = |input: &&InputDocument| DocumentKind::of(&input.document) != only;
    let others: Vec<String> = inputs
        .iter()
        .filter(other)
        .map(|input| input.name().to_string())
        .collect();
    if others.is_empty() {
        return Ok(());
    }
    let message = format!(
        "only documents of the kind {} are accepted, but the YAML has {}",
        only.word(),
        others.join(", ")
    );
    let error = Error::new(ErrorName::InvalidSpecification, message).cause("nothing was submitted");
    let hint =
        "use a separate tool for each kind: `gpuctl mcp --allow-writes=jobs,pools,quotas,defaults`";
    Err(error.hint(hint))
}

/// Requires that there is one log to follow, that it ends, and that stdout is for it alone.
fn followable(inputs: &[InputDocument], format: Format) -> Result<(), Error> {
    let jobs: Vec<&InputDocument> = inputs.iter().filter(|input| job(input).is_some()).collect();
    let [input] = jobs.as_slice() else {
        let message = format!(
            "`--follow` prints the log of one job, and here are {}",
            jobs.len()
        );
        return Err(Error::usage(message).hint("`--wait=complete` waits for several"));
    };
    let name = input.document.name();
    if job(input).is_some_and(|job| job.kind.serves()) {
        let message = format!("`{name}` is a service or notebook: its log has no end");
        return Err(Error::usage(message).hint(format!("`--wait`, then `gpuctl logs {name} -f`")));
    }
    if format.is_document() {
        let error = Error::usage("`--follow` prints the log, and `-o` asks for a document");
        return Err(error.hint(format!(
            "submit first, then `gpuctl logs {name} -f -o json`"
        )));
    }
    Ok(())
}

async fn known(context: &Context) -> Result<(Connection, PlanningFacts), Error> {
    let connection = context.connect().await?;
    let facts = PlanningFacts::of(&connection).await?;
    Ok((connection, facts))
}

/// Returns true when the document is among the failed ones.
fn is_among(failed: &[FailedDocument], input: &InputDocument) -> bool {
    failed.iter().any(|failed| failed.document == input.name())
}

/// Pools and quotas without a job.
async fn shared_alone(
    shared: &[InputDocument],
    how: &SubmitOptions,
    format: Format,
    context: &Context,
) -> Result<ExitCode, Error> {
    let only = shared.len() == 1;
    let mut refused = if only {
        Vec::new()
    } else {
        shared::judge(shared, how, context).await?
    };
    if refused
        .iter()
        .any(|failed| failed.error.name != ErrorName::AlreadyExists)
    {
        let not_tried: Vec<DocumentName> = shared
            .iter()
            .filter(|input| !is_among(&refused, input))
            .map(InputDocument::name)
            .collect();
        tell_failed(&refused, how.mode, context);
        context.terminal.print(
            &document(format, &created::batch(&[], &refused, &not_tried)).unwrap_or_default(),
        )?;
        return Ok(ExitCode::from(ErrorKind::Request.exit_code()));
    }
    let fresh: Vec<InputDocument> = shared
        .iter()
        .filter(|input| !is_among(&refused, input))
        .cloned()
        .collect();
    let mut before = shared::make(&fresh, how, format, only, context).await?;
    refused.append(&mut before.failed);
    before.failed = refused;
    tell_failed(&before.failed, how.mode, context);
    let answer = match (only, before.made.first()) {
        (true, Some(made)) => document(format, made),
        _ => document(
            format,
            &created::batch(&before.created(), &before.failed, &[]),
        ),
    };
    context.terminal.print(&answer.unwrap_or_default())?;
    Ok(before.exit_code())
}

/// Prints the objects exactly as they would be sent.
fn show(plans: &[Plan], format: Format, context: &Context) -> Result<(), Error> {
    let mut warned = Warned::default();
    plans
        .iter()
        .for_each(|plan| warned.add(plan.job_name(), &plan.rendered.warnings));
    warned.tell(plans.len(), context);
    let objects: Vec<&Value> = plans
        .iter()
        .flat_map(|plan| &plan.rendered.objects)
        .map(|object| &object.body)
        .collect();
    if format.is_document() {
        // The document is what would be sent, so this goes beside it.
        let lines = plans
            .iter()
            .filter_map(|plan| job(&plan.input))
            .flat_map(|job| site_lines(&of_job(job)));
        let files = plans
            .iter()
            .flat_map(|plan| local_files::lines(&plan.input.attached.files));
        lines
            .chain(files)
            .for_each(|line| context.terminal.report(&line));
    }
    let text = match format {
        Format::Json => json(&ObjectList::of(objects)),
        Format::Yaml => objects.iter().map(yaml).collect::<Vec<_>>().join("---\n"),
        _ => plans
            .iter()
            .map(|plan| created::text(&outcome(plan, &Value::Null, true)))
            .collect(),
    };
    context.terminal.print(&text)?;
    Ok(())
}

/// Judges every document, then writes them. Nothing is written when one of them cannot be: a job
/// that is there already is in the way of itself alone.
async fn write(
    how: &SubmitOptions,
    shared: &[InputDocument],
    plans: Vec<Plan>,
    facts: &PlanningFacts,
    connection: &Connection,
    format: Format,
    context: &Context,
) -> Result<ExitCode, Error> {
    let (mode, dry_run) = (how.mode, how.dry_run.is_some());
    let single = plans.len() == 1 && shared.is_empty();
    let mut account = RunSummary::default();
    let interruption = Interruption::listen();
    let mut judging = Judging::new(how, facts, connection);
    plans.iter().for_each(|plan| judging.foresee(plan));
    let looking = async {
        let mut failed = shared::judge(shared, how, context).await?;
        let (judged, rest) = judge_all(plans, &judging, context, &mut failed).await;
        Ok::<_, Error>((judged, rest, failed))
    };
    let (judged, rest, failed) = tokio::select! {
        found = looking => found?,
        () = interruption.times(1) => return Err(Error::new(ErrorName::Interrupted, "interrupted").cause("no document was written")),
    };
    account.failed = failed;
    let refused = account
        .failed
        .iter()
        .any(|failed| failed.error.name != ErrorName::AlreadyExists);
    let (mut made, mut heard) = (Vec::new(), Ok(true));
    // What is there already has failed by itself.
    let fresh: Vec<InputDocument> = shared
        .iter()
        .filter(|input| !is_among(&account.failed, input))
        .cloned()
        .collect();
    if refused {
        account.not_tried = rest;
        account
            .not_tried
            .extend(shared.iter().map(InputDocument::name));
        account
            .not_tried
            .extend(judged.iter().map(|one| one.plan.input.name()));
        account.not_tried.retain(|document| {
            !account
                .failed
                .iter()
                .any(|failed| failed.document == *document)
        });
    } else if dry_run {
        made = shared::make(&fresh, how, format, false, context)
            .await?
            .created();
        for one in &judged {
            account.done.push(foreseen(one, mode));
        }
        tell_done(&account.done, format, context)?;
    } else {
        let before = tokio::select! {
            made = shared::make(&fresh, how, format, false, context) => made?,
            () = interruption.times(1) => {
                let error = Error::new(ErrorName::Interrupted, "interrupted while writing pools, quotas and defaults");
                return Err(error.cause("one of them may be incomplete").hint("run it again, or `gpuctl delete -f`"));
            }
        };
        made = before.created();
        let lost: Vec<String> = before
            .failed
            .iter()
            .map(|failed| &failed.document)
            .filter(|one| one.kind == "pool")
            .map(|one| one.name.clone())
            .collect();
        account.failed.extend(before.failed);
        let (orphans, judged): (Vec<Decision>, Vec<Decision>) = judged
            .into_iter()
            .partition(|one| lost_pool(&one.plan, &lost).is_some());
        account
            .not_tried
            .extend(orphans.iter().map(|one| one.plan.input.name()));
        let writing = Writing::new(&judging, how.keep_partial, context, interruption.clone());
        let tell = |created: &Created| match format.is_document() {
            true => Ok(true),
            false => context.terminal.offer(&created::text(created)),
        };
        heard = writing.all(judged, &mut account, tell).await;
    }
    if single && let Some(failed) = account.failed.pop() {
        context
            .terminal
            .set_task(Some(Task::writing(failed.document.kind, mode.changes())));
        return Err(failed.error);
    }
    tell_failed(&account.failed, mode, context);
    if !account.not_tried.is_empty() {
        let names: Vec<String> = account.not_tried.iter().map(ToString::to_string).collect();
        context
            .terminal
            .warn(&format!("not tried: {}", names.join(", ")));
    }
    if !heard? {
        return Ok(account.exit_code());
    }
    context.terminal.set_task(
        account
            .done
            .first()
            .map(|created| Task::writing(created.kind, mode.changes())),
    );
    let goal = if how.follow {
        Some(WaitGoal::Started)
    } else {
        how.wait
    };
    let waited = match goal {
        Some(goal) if account.kind() != Some(ErrorKind::Interrupted) => {
            wait(
                connection,
                &mut account.done,
                goal,
                how.timeout,
                &interruption,
                context,
            )
            .await
        }
        _ => Ok(()),
    };
    let answer = match (single, account.done.first()) {
        (true, Some(created)) => document(format, created),
        _ => document(
            format,
            &created::batch(
                &[&made[..], &account.done].concat(),
                &account.failed,
                &account.not_tried,
            ),
        ),
    };
    if let Some(text) = answer {
        context.terminal.print(&text)?;
    }
    waited?;
    if let Some(created) = account.done.first().filter(|_| how.follow) {
        return follow(connection, created, &interruption, context).await;
    }
    if let Some(created) = account.done.first().filter(|_| !dry_run) {
        context.terminal.hint(&next_command(created, how.wait));
    }
    Ok(account.exit_code())
}

/// Returns what people usually type next.
fn next_command(created: &Created, waited: Option<WaitGoal>) -> String {
    let full = format!("{}/{}", created.namespace, created.job_id);
    match created.kind {
        "notebook" => format!("gpuctl open {full}"),
        _ if waited == Some(WaitGoal::Complete) => format!("gpuctl logs {full}"),
        _ => format!("gpuctl logs {full} -f"),
    }
}

/// Judges every job, several at once; those that may not be written are in `failed` then.
async fn judge_all(
    plans: Vec<Plan>,
    judging: &Judging<'_>,
    context: &Context,
    failed: &mut Vec<FailedDocument>,
) -> (Vec<Decision>, Vec<DocumentName>) {
    let there = Namesakes::of(judging.connection, &plans).await;
    let (documents, mut warned) = (plans.len(), Warned::default());
    let mut rest: VecDeque<DocumentName> = plans.iter().map(|plan| plan.input.name()).collect();
    let mut of_pools = BTreeMap::<String, usize>::new();
    let asked = plans.into_iter().map(|plan| {
        let pool = job(&plan.input).and_then(|job| job.resources.pool.as_ref());
        let beside = pool.map_or(0, |pool| of_pools.get(&pool.value).copied().unwrap_or(0));
        if let Some(pool) = pool.filter(|_| !matches!(there.get(&plan), Ok(Some(_)))) {
            *of_pools.entry(pool.value.clone()).or_default() += 1;
        }
        judging.judge(plan, beside, &there)
    });
    let mut answers = SideBySide::new(asked, AT_ONCE);
    let mut judged: Vec<Decision> = Vec::new();
    while let Some(answer) = answers.next().await {
        let document = rest.pop_front().expect("every document has one answer");
        match answer {
            Ok(one) => {
                one.plan
                    .notes
                    .iter()
                    .for_each(|note| context.terminal.report(note));
                if !matches!(one.step, Action::Nothing) {
                    warned.add(one.plan.job_name(), &one.warnings);
                }
                judged.push(one);
            }
            Err(error) => {
                // Without the cluster nothing more can be found out.
                let over = error.kind == ErrorKind::Unreachable;
                failed.push(FailedDocument { document, error });
                if over {
                    break;
                }
            }
        }
    }
    warned.tell(documents, context);
    (judged, rest.into())
}

fn tell_failed(failed: &[FailedDocument], mode: Mode, context: &Context) {
    for failed in failed {
        context
            .terminal
            .set_task(Some(Task::writing(failed.document.kind, mode.changes())));
        context.terminal.fail(
            &failed
                .error
                .clone()
                .during(format!("{} failed", failed.document)),
        );
    }
}

fn tell_done(done: &[Created], format: Format, context: &Context) -> Result<(), Error> {
    if !format.is_document() {
        done.iter()
            .try_for_each(|created| context.terminal.print(&created::text(created)))?;
    }
    Ok(())
}

/// Returns what would become of a document.
fn foreseen(judged: &Decision, mode: Mode) -> Created {
    let (action, changes) = match &judged.step {
        Action::Create | Action::Later => ("created", Vec::new()),
        Action::Nothing => ("unchanged", Vec::new()),
        Action::Replace(_) => ("replaced", Vec::new()),
        Action::Change(effects) => ("updated", told(&judged.plan, &judged.live, effects)),
    };
    Created {
        action: mode.changes().then_some(action),
        changes,
        ..outcome(&judged.plan, &judged.live, true)
    }
}

/// Returns the job's pool when that could not be created: the job's pods would wait without an
/// explanation.
fn lost_pool<'p>(plan: &'p Plan, lost: &[String]) -> Option<&'p str> {
    job(&plan.input)?
        .resources
        .pool
        .as_ref()
        .map(|pool| pool.value.as_str())
        .filter(|pool| lost.iter().any(|lost| lost == pool))
}
