//! Judges every job of a run, then writes, waits and answers.

use std::collections::{BTreeMap, VecDeque};
use std::process::ExitCode;

use crate::concurrent::SideBySide;
use crate::context::Context;
use crate::deploy::AT_ONCE;
use crate::deploy::decide::{Decision, Judging};
use crate::deploy::execute::Writing;
use crate::deploy::follow::follow;
use crate::deploy::inputs::InputDocument;
use crate::deploy::interrupt::Interruption;
use crate::deploy::namesakes::Namesakes;
use crate::deploy::options::{Mode, SubmitOptions, WaitGoal};
use crate::deploy::plan::{Plan, PlanningFacts, job};
use crate::deploy::reapply::Action;
use crate::deploy::report::{changed_fields, outcome};
use crate::deploy::run_summary::RunSummary;
use crate::deploy::shared;
use crate::deploy::wait::wait;
use crate::deploy::warnings::Warned;
use gpuctl_cluster::Connection;
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_core::model::contract::rights::Task;
use gpuctl_view::jobs::created;
use gpuctl_view::jobs::created::{Created, DocumentName, FailedDocument};
use gpuctl_view::{Format, document};

/// One run of `create` or `apply` with jobs.
pub(crate) struct Run<'r> {
    pub how: &'r SubmitOptions,
    /// Pools, quotas and defaults, which are written before the jobs.
    pub shared: &'r [InputDocument],
    pub connection: &'r Connection,
    pub format: Format,
    pub context: &'r Context,
    pub interruption: Interruption,
}

impl Run<'_> {
    /// Judges every document, then writes them. Nothing is written when one of them cannot be: a
    /// job that exists already is in the way of itself alone.
    pub(crate) async fn write(
        &self,
        plans: Vec<Plan>,
        facts: &PlanningFacts,
    ) -> Result<ExitCode, Error> {
        let (how, mode, context) = (self.how, self.how.mode, self.context);
        let single = plans.len() == 1 && self.shared.is_empty();
        let mut judging = Judging::new(how, facts, self.connection);
        plans.iter().for_each(|plan| judging.foresee(plan));
        let looking = async {
            let mut failed = shared::judge(self.shared, how, context).await?;
            let (judged, rest) = judge_all(plans, &judging, context, &mut failed).await;
            Ok::<_, Error>((judged, rest, failed))
        };
        let (judged, rest, failed) = tokio::select! {
            found = looking => found?,
            () = self.interruption.times(1) => {
                let error = Error::new(ErrorName::Interrupted, "interrupted");
                return Err(error.cause("no document was written"));
            }
        };
        let refused = failed
            .iter()
            .any(|failed| failed.error.name != ErrorName::AlreadyExists);
        let mut account = RunSummary {
            failed,
            ..RunSummary::default()
        };
        let (made, heard) = if refused {
            account.not_tried = self.untried(rest, &judged, &account.failed);
            (Vec::new(), Ok(true))
        } else if how.dry_run.is_some() {
            (self.foresee(&judged, &mut account).await?, Ok(true))
        } else {
            self.write_all(&judging, judged, &mut account).await?
        };
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
        self.finish(single, &made, account).await
    }

    /// Returns the shared documents that may be written. Those that exist already have failed by
    /// themselves.
    fn fresh(&self, failed: &[FailedDocument]) -> Vec<InputDocument> {
        let fresh = |input: &&InputDocument| !is_among(failed, input);
        self.shared.iter().filter(fresh).cloned().collect()
    }

    /// Names the documents of a refused run that did not fail themselves.
    fn untried(
        &self,
        rest: Vec<DocumentName>,
        judged: &[Decision],
        failed: &[FailedDocument],
    ) -> Vec<DocumentName> {
        let mut names = rest;
        names.extend(self.shared.iter().map(InputDocument::name));
        names.extend(judged.iter().map(|one| one.plan.input.name()));
        names.retain(|document| !failed.iter().any(|failed| failed.document == *document));
        names
    }

    /// Prints what would be written. Returns the shared documents.
    async fn foresee(
        &self,
        judged: &[Decision],
        account: &mut RunSummary,
    ) -> Result<Vec<Created>, Error> {
        let fresh = self.fresh(&account.failed);
        let made = shared::make(&fresh, self.how, self.format, false, self.context).await?;
        let foreseen = judged.iter().map(|one| foreseen(one, self.how.mode));
        account.done.extend(foreseen);
        if !self.format.is_document() {
            account
                .done
                .iter()
                .try_for_each(|created| self.context.terminal.print(&created::text(created)))?;
        }
        Ok(made.created())
    }

    /// Writes the shared documents, then the jobs. Returns the shared documents, and whether
    /// anybody still reads the output.
    async fn write_all(
        &self,
        judging: &Judging<'_>,
        judged: Vec<Decision>,
        account: &mut RunSummary,
    ) -> Result<(Vec<Created>, Result<bool, Error>), Error> {
        let (how, context) = (self.how, self.context);
        let fresh = self.fresh(&account.failed);
        let before = tokio::select! {
            made = shared::make(&fresh, how, self.format, false, context) => made?,
            () = self.interruption.times(1) => {
                let message = "interrupted while writing pools, quotas and defaults";
                return Err(Error::new(ErrorName::Interrupted, message)
                    .cause("one of them may be incomplete")
                    .hint("run it again, or `gpuctl delete -f`"));
            }
        };
        let made = before.created();
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
        let interruption = self.interruption.clone();
        let writing = Writing::new(judging, how.keep_partial, context, interruption);
        let tell = |created: &Created| match self.format.is_document() {
            true => Ok(true),
            false => context.terminal.offer(&created::text(created)),
        };
        let heard = writing.all(judged, account, tell).await;
        Ok((made, heard))
    }

    /// Waits if asked to, and prints the answer. Then follows the log, or hints at the next
    /// command.
    async fn finish(
        &self,
        single: bool,
        made: &[Created],
        mut account: RunSummary,
    ) -> Result<ExitCode, Error> {
        let (how, context) = (self.how, self.context);
        context.terminal.set_task(
            account
                .done
                .first()
                .map(|created| Task::writing(created.kind, how.mode.changes())),
        );
        let waited = self.wait(&mut account).await;
        let answer = match (single, account.done.first()) {
            (true, Some(created)) => document(self.format, created),
            _ => document(
                self.format,
                &created::batch(
                    &[made, &account.done].concat(),
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
            return follow(self.connection, created, &self.interruption, context).await;
        }
        if let Some(created) = account.done.first().filter(|_| how.dry_run.is_none()) {
            context.terminal.hint(&next_command(created, how.wait));
        }
        Ok(account.exit_code())
    }

    async fn wait(&self, account: &mut RunSummary) -> Result<(), Error> {
        let goal = if self.how.follow {
            Some(WaitGoal::Started)
        } else {
            self.how.wait
        };
        match goal {
            Some(goal) if account.kind() != Some(ErrorKind::Interrupted) => {
                wait(
                    self.connection,
                    &mut account.done,
                    goal,
                    self.how.timeout,
                    &self.interruption,
                    self.context,
                )
                .await
            }
            _ => Ok(()),
        }
    }
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
    let namesakes = Namesakes::of(judging.connection, &plans).await;
    let (documents, mut warned) = (plans.len(), Warned::default());
    let mut rest: VecDeque<DocumentName> = plans.iter().map(|plan| plan.input.name()).collect();
    let mut of_pools = BTreeMap::<String, usize>::new();
    let asked = plans.into_iter().map(|plan| {
        let pool = job(&plan.input).and_then(|job| job.resources.pool.as_ref());
        let others = pool.map_or(0, |pool| of_pools.get(&pool.value).copied().unwrap_or(0));
        if let Some(pool) = pool.filter(|_| !matches!(namesakes.get(&plan), Ok(Some(_)))) {
            *of_pools.entry(pool.value.clone()).or_default() += 1;
        }
        judging.judge(plan, others, &namesakes)
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

/// Prints each failure, with the rights that its command needs.
pub(crate) fn tell_failed(failed: &[FailedDocument], mode: Mode, context: &Context) {
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

/// Returns true when the document is among the failed ones.
pub(crate) fn is_among(failed: &[FailedDocument], input: &InputDocument) -> bool {
    failed.iter().any(|failed| failed.document == input.name())
}

/// Returns what would become of a document.
fn foreseen(judged: &Decision, mode: Mode) -> Created {
    let (action, changes) = match &judged.step {
        Action::Create | Action::Later => ("created", Vec::new()),
        Action::Nothing => ("unchanged", Vec::new()),
        Action::Replace(_) => ("replaced", Vec::new()),
        Action::Change(effects) => (
            "updated",
            changed_fields(&judged.plan, &judged.live, effects),
        ),
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
