//! Decides about every job of a run, then writes them and waits.

use std::collections::{BTreeMap, VecDeque};

use crate::concurrent::SideBySide;
use crate::context::Context;
use crate::deploy::AT_ONCE;
use crate::deploy::decide::{Decision, Judging};
use crate::deploy::events::{DeployEvent, Done, Reporter};
use crate::deploy::execute::Writing;
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
use gpuctl_core::model::contract::submission::{Created, DocumentName, FailedDocument};

/// One run of `create` or `apply` with jobs.
pub(crate) struct Run<'r> {
    pub how: &'r SubmitOptions,
    /// Pools, quotas and defaults, which are written before the jobs.
    pub shared: &'r [InputDocument],
    pub connection: Connection,
    pub context: &'r Context,
    pub reporter: &'r dyn Reporter,
    pub interruption: Interruption,
}

/// The result of a run of `create` or `apply`.
pub(crate) struct WrittenRun {
    pub connection: Connection,
    pub interruption: Interruption,
    /// True if the run had only one document, whose result is the result of the command.
    pub single: bool,
    /// Pools, quotas and defaults.
    pub shared: Vec<Created>,
    pub jobs: RunSummary,
    /// False if the output has no reader anymore. In this case the run did not wait.
    pub is_read: bool,
    pub waited: Result<(), Error>,
}

impl Run<'_> {
    /// Decides about every document, then writes them. Writes nothing if one of them has an error.
    /// A job that already exists does not stop the others.
    pub(crate) async fn write(
        self,
        plans: Vec<Plan>,
        facts: &PlanningFacts,
    ) -> Result<WrittenRun, Error> {
        let (how, mode, reporter) = (self.how, self.how.mode, self.reporter);
        let single = plans.len() == 1 && self.shared.is_empty();
        let mut judging = Judging::new(how, facts, &self.connection);
        // Documents can refer to objects of later documents in the same run.
        plans.iter().for_each(|plan| judging.foresee(plan));
        let looking = async {
            let mut failed = shared::judge(self.shared, how, self.context, reporter).await?;
            let (judged, rest) = judge_all(plans, &judging, reporter, &mut failed).await;
            Ok::<_, Error>((judged, rest, failed))
        };
        // Nothing has been written yet, so an interruption needs no cleanup.
        let (judged, rest, failed) = tokio::select! {
            found = looking => found?,
            () = self.interruption.times(1) => {
                let error = Error::new(ErrorName::Interrupted, "interrupted");
                return Err(error.cause("no document was written"));
            }
        };
        // A job that already exists fails alone. Any other error stops the whole run.
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
            let task = Task::writing(failed.document.kind, mode.changes());
            reporter.tell(DeployEvent::Task(Some(task)));
            return Err(failed.error);
        }
        tell_failed(&account.failed, mode, reporter);
        if !account.not_tried.is_empty() {
            let names: Vec<String> = account.not_tried.iter().map(ToString::to_string).collect();
            reporter.warn(&format!("not tried: {}", names.join(", ")));
        }
        let is_read = heard?;
        let waited = if is_read {
            self.wait(&mut account).await
        } else {
            Ok(())
        };
        // `judging` borrows the connection, which moves into the result.
        drop(judging);
        Ok(WrittenRun {
            connection: self.connection,
            interruption: self.interruption,
            single,
            shared: made,
            jobs: account,
            is_read,
            waited,
        })
    }

    /// Returns the shared documents that may be written, without those that already exist.
    fn fresh(&self, failed: &[FailedDocument]) -> Vec<InputDocument> {
        let fresh = |input: &&InputDocument| !is_among(failed, input);
        self.shared.iter().filter(fresh).cloned().collect()
    }

    /// Names the documents of a rejected run that have no error themselves.
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

    /// Reports what would be written. Returns the shared documents.
    async fn foresee(
        &self,
        judged: &[Decision],
        account: &mut RunSummary,
    ) -> Result<Vec<Created>, Error> {
        let fresh = self.fresh(&account.failed);
        let made = shared::make(&fresh, self.how, false, self.context, self.reporter).await?;
        let foreseen = judged.iter().map(|one| foreseen(one, self.how.mode));
        account.done.extend(foreseen);
        for created in &account.done {
            self.reporter.done(Done::Foreseen(created))?;
        }
        Ok(made.created())
    }

    /// Writes the shared documents, then the jobs. Returns the shared documents, and whether the
    /// output still has a reader.
    async fn write_all(
        &self,
        judging: &Judging<'_>,
        judged: Vec<Decision>,
        account: &mut RunSummary,
    ) -> Result<(Vec<Created>, Result<bool, Error>), Error> {
        let (how, reporter) = (self.how, self.reporter);
        let fresh = self.fresh(&account.failed);
        let before = tokio::select! {
            made = shared::make(&fresh, how, false, self.context, reporter) => made?,
            () = self.interruption.times(1) => {
                let message = "interrupted while writing pools, quotas and defaults";
                return Err(Error::new(ErrorName::Interrupted, message)
                    .cause("one of them may be incomplete")
                    .hint("run it again, or `gpuctl delete -f`"));
            }
        };
        let made = before.created();
        // Pods of a job in a pool that could not be created would wait without an explanation.
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
        let writing = Writing::new(judging, how.keep_partial, reporter, interruption);
        let heard = writing.all(judged, account).await;
        Ok((made, heard))
    }

    /// Waits for the jobs if requested.
    async fn wait(&self, account: &mut RunSummary) -> Result<(), Error> {
        let task = account
            .done
            .first()
            .map(|created| Task::writing(created.kind, self.how.mode.changes()));
        self.reporter.tell(DeployEvent::Task(task));
        let goal = if self.how.follow {
            Some(WaitGoal::Started)
        } else {
            self.how.wait
        };
        match goal {
            Some(goal) if account.kind() != Some(ErrorKind::Interrupted) => {
                wait(
                    &self.connection,
                    &mut account.done,
                    goal,
                    self.how.timeout,
                    &self.interruption,
                    self.context,
                    self.reporter,
                )
                .await
            }
            _ => Ok(()),
        }
    }
}

/// Decides about every job concurrently. Appends those that must not be written to `failed`. Also
/// returns the documents without an answer.
async fn judge_all(
    plans: Vec<Plan>,
    judging: &Judging<'_>,
    reporter: &dyn Reporter,
    failed: &mut Vec<FailedDocument>,
) -> (Vec<Decision>, Vec<DocumentName>) {
    let namesakes = Namesakes::of(judging.connection, &plans).await;
    let (documents, mut warned) = (plans.len(), Warned::default());
    let mut rest: VecDeque<DocumentName> = plans.iter().map(|plan| plan.input.name()).collect();
    let mut of_pools = BTreeMap::<String, usize>::new();
    let asked = plans.into_iter().map(|plan| {
        // Jobs of one run count against the quota of a pool in their order.
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
                    .for_each(|note| reporter.tell(DeployEvent::Report(note)));
                // An unchanged job is not written, so its warnings are not repeated.
                if !matches!(one.step, Action::Nothing) {
                    warned.add(one.plan.job_name(), &one.warnings);
                }
                judged.push(one);
            }
            Err(error) => {
                // Without the cluster, nothing more can be checked.
                let over = error.kind == ErrorKind::Unreachable;
                failed.push(FailedDocument { document, error });
                if over {
                    break;
                }
            }
        }
    }
    warned.tell(documents, reporter);
    (judged, rest.into())
}

/// Reports each failure, with the rights that its command needs.
pub(crate) fn tell_failed(failed: &[FailedDocument], mode: Mode, reporter: &dyn Reporter) {
    for FailedDocument { document, error } in failed {
        let task = Task::writing(document.kind, mode.changes());
        reporter.tell(DeployEvent::Task(Some(task)));
        let error = error.clone().during(format!("{document} failed"));
        reporter.tell(DeployEvent::Failed(&error));
    }
}

pub(crate) fn is_among(failed: &[FailedDocument], input: &InputDocument) -> bool {
    failed.iter().any(|failed| failed.document == input.name())
}

/// Describes what would happen to a document.
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

/// Returns the job's pool if that could not be created: the pods would wait without an explanation.
fn lost_pool<'p>(plan: &'p Plan, lost: &[String]) -> Option<&'p str> {
    job(&plan.input)?
        .resources
        .pool
        .as_ref()
        .map(|pool| pool.value.as_str())
        .filter(|pool| lost.iter().any(|lost| lost == pool))
}
