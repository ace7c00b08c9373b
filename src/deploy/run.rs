//! Decides about every job of a run, then writes the jobs and waits for them.

use std::collections::{BTreeMap, VecDeque};

use crate::concurrent::OrderedConcurrent;
use crate::context::Context;
use crate::deploy::MAX_CONCURRENT;
use crate::deploy::decide::{Decider, Decision};
use crate::deploy::events::{DeployEvent, Done, Reporter};
use crate::deploy::execute::Writer;
use crate::deploy::existing_jobs::ExistingJobs;
use crate::deploy::inputs::InputDocument;
use crate::deploy::interrupt::Interruption;
use crate::deploy::options::{Mode, SubmitOptions, WaitGoal};
use crate::deploy::plan::{Plan, PlanningFacts, job};
use crate::deploy::reapply::Action;
use crate::deploy::report::{changed_fields, outcome};
use crate::deploy::run_summary::RunSummary;
use crate::deploy::shared;
use crate::deploy::wait::wait;
use crate::deploy::warnings::DeduplicatedWarnings;
use gpuctl_cluster::Connection;
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_core::model::contract::rights::Task;
use gpuctl_core::model::contract::submission::{Created, DocumentName, FailedDocument};

/// A run of `create` or `apply` with jobs.
pub(crate) struct Run<'r> {
    pub options: &'r SubmitOptions,
    /// Pools, quotas and defaults, which are written before the jobs.
    pub shared: &'r [InputDocument],
    pub connection: Connection,
    pub context: &'r Context,
    pub reporter: &'r dyn Reporter,
    pub interruption: Interruption,
}

/// Result of a run of `create` or `apply`.
pub(crate) struct WrittenRun {
    pub connection: Connection,
    pub interruption: Interruption,
    /// Whether the run had a single document, whose result is the result of the command.
    pub single: bool,
    /// Results of pools, quotas and defaults.
    pub shared: Vec<Created>,
    pub jobs: RunSummary,
    /// False if the reader has closed the output. The run has not waited then.
    pub has_reader: bool,
    pub waited: Result<(), Error>,
}

impl Run<'_> {
    /// Decides about all documents, then writes them. An error in one document stops the whole run
    /// before the first write, unless the error is only that a job already exists.
    pub(crate) async fn write(
        self,
        plans: Vec<Plan>,
        facts: &PlanningFacts,
    ) -> Result<WrittenRun, Error> {
        let (options, mode, reporter) = (self.options, self.options.mode, self.reporter);
        let single = plans.len() == 1 && self.shared.is_empty();
        let mut decider = Decider::new(options, facts, &self.connection);
        // A document can refer to objects of later documents in the run, so record all objects
        // first.
        plans.iter().for_each(|plan| decider.add_planned(plan));
        let checks = async {
            let mut failed = shared::check(self.shared, options, self.context, reporter).await?;
            let (decisions, undecided) = decide_all(plans, &decider, reporter, &mut failed).await;
            Ok::<_, Error>((decisions, undecided, failed))
        };
        // Without writes, an interruption needs no cleanup.
        let (decisions, undecided, failed) = tokio::select! {
            result = checks => result?,
            name = self.interruption.times(1) => {
                let error = Error::new(name, "interrupted");
                return Err(error.note("nothing was written"));
            }
        };
        // A job that already exists or has ended fails alone. Any other error stops the whole run.
        let fails_alone =
            |error: &Error| matches!(error.name, ErrorName::AlreadyExists | ErrorName::JobEnded);
        let is_refused = failed.iter().any(|failed| !fails_alone(&failed.error));
        let mut summary = RunSummary {
            failed,
            ..RunSummary::default()
        };
        let (shared_documents, output_result) = if is_refused {
            summary.not_tried = self.untried(undecided, &decisions, &summary.failed);
            (Vec::new(), Ok(true))
        } else if options.dry_run.is_some() {
            (self.preview(&decisions, &mut summary).await?, Ok(true))
        } else {
            self.write_all(&decider, decisions, &mut summary).await?
        };
        if single && let Some(failed) = summary.failed.pop() {
            let task = Task::writing(failed.document.kind, mode.changes());
            reporter.report(DeployEvent::Task(Some(task)));
            return Err(failed.error);
        }
        report_failures(&summary.failed, mode, reporter);
        if !summary.not_tried.is_empty() {
            let not_tried: Vec<String> =
                summary.not_tried.iter().map(ToString::to_string).collect();
            reporter.warn(&format!("not tried: {}", not_tried.join(", ")));
        }
        let has_reader = output_result?;
        let waited = if has_reader {
            self.wait(&mut summary).await
        } else {
            Ok(())
        };
        // End the borrow of the connection, which moves into the result.
        drop(decider);
        Ok(WrittenRun {
            connection: self.connection,
            interruption: self.interruption,
            single,
            shared: shared_documents,
            jobs: summary,
            has_reader,
            waited,
        })
    }

    /// Returns the shared documents to write, without those that already exist.
    fn new_documents(&self, failed: &[FailedDocument]) -> Vec<InputDocument> {
        let is_new = |input: &&InputDocument| !is_among(failed, input);
        self.shared.iter().filter(is_new).cloned().collect()
    }

    /// Returns the documents without errors in a run that was refused.
    fn untried(
        &self,
        undecided: Vec<DocumentName>,
        decisions: &[Decision],
        failed: &[FailedDocument],
    ) -> Vec<DocumentName> {
        let mut names = undecided;
        names.extend(self.shared.iter().map(InputDocument::name));
        names.extend(decisions.iter().map(|decision| decision.plan.input.name()));
        names.retain(|document| !failed.iter().any(|failed| failed.document == *document));
        names
    }

    /// Reports what would be written, and returns the shared documents.
    async fn preview(
        &self,
        decisions: &[Decision],
        summary: &mut RunSummary,
    ) -> Result<Vec<Created>, Error> {
        let new_documents = self.new_documents(&summary.failed);
        let outcome = shared::write(
            &new_documents,
            self.options,
            false,
            self.context,
            self.reporter,
        )
        .await?;
        let previews = decisions
            .iter()
            .map(|decision| preview(decision, self.options.mode));
        summary.done.extend(previews);
        for created in &summary.done {
            self.reporter.done(Done::DryRun(created))?;
        }
        Ok(outcome.created())
    }

    /// Writes the shared documents, then the jobs. Returns the shared documents, and whether the
    /// output still has a reader.
    async fn write_all(
        &self,
        decider: &Decider<'_>,
        decisions: Vec<Decision>,
        summary: &mut RunSummary,
    ) -> Result<(Vec<Created>, Result<bool, Error>), Error> {
        let (options, reporter) = (self.options, self.reporter);
        let new_documents = self.new_documents(&summary.failed);
        let shared_outcome = tokio::select! {
            outcome = shared::write(&new_documents, options, false, self.context, reporter) => outcome?,
            name = self.interruption.times(1) => {
                let message = "interrupted while writing pools, quotas and defaults";
                return Err(Error::new(name, message)
                    .note("one of them may be incomplete")
                    .hint("run the command again"));
            }
        };
        let shared_documents = shared_outcome.created();
        // Without its pool, the pods of a job would wait without an explanation.
        let failed_pools: Vec<String> = shared_outcome
            .failed
            .iter()
            .map(|failed| &failed.document)
            .filter(|document| document.kind == "pool")
            .map(|document| document.name.clone())
            .collect();
        summary.failed.extend(shared_outcome.failed);
        let (without_pool, decisions): (Vec<Decision>, Vec<Decision>) = decisions
            .into_iter()
            .partition(|decision| failed_pool(&decision.plan, &failed_pools).is_some());
        summary.not_tried.extend(
            without_pool
                .iter()
                .map(|decision| decision.plan.input.name()),
        );
        let interruption = self.interruption.clone();
        let writer = Writer::new(decider, options.keep_partial, reporter, interruption);
        let output_result = writer.write_all(decisions, summary).await;
        Ok((shared_documents, output_result))
    }

    /// Waits for the jobs if requested.
    async fn wait(&self, summary: &mut RunSummary) -> Result<(), Error> {
        let task = summary
            .done
            .first()
            .map(|created| Task::writing(created.kind, self.options.mode.changes()));
        self.reporter.report(DeployEvent::Task(task));
        let goal = if self.options.follow {
            Some(WaitGoal::Started)
        } else {
            self.options.wait
        };
        match goal {
            Some(goal)
                if !matches!(
                    summary.kind(),
                    Some(ErrorKind::Interrupted | ErrorKind::Terminated)
                ) =>
            {
                wait(
                    &self.connection,
                    &mut summary.done,
                    goal,
                    self.options.timeout,
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

/// Decides about all jobs concurrently. Adds documents that must not be written to `failed`. Also
/// returns the documents without a decision.
async fn decide_all(
    plans: Vec<Plan>,
    decider: &Decider<'_>,
    reporter: &dyn Reporter,
    failed: &mut Vec<FailedDocument>,
) -> (Vec<Decision>, Vec<DocumentName>) {
    let existing_jobs = ExistingJobs::read(decider.connection, &plans).await;
    let (documents, mut warnings) = (plans.len(), DeduplicatedWarnings::default());
    let mut undecided: VecDeque<DocumentName> =
        plans.iter().map(|plan| plan.input.name()).collect();
    let mut jobs_by_pool = BTreeMap::<String, usize>::new();
    let decisions_in_order = plans.into_iter().map(|plan| {
        // Count the earlier jobs of the run, which use a pool's quota in the order of the
        // documents.
        let pool = job(&plan.input).and_then(|job| job.resources.pool.as_ref());
        let other_jobs = pool.map_or(0, |pool| {
            jobs_by_pool.get(&pool.value).copied().unwrap_or(0)
        });
        if let Some(pool) = pool.filter(|_| !matches!(existing_jobs.get(&plan), Ok(Some(_)))) {
            *jobs_by_pool.entry(pool.value.clone()).or_default() += 1;
        }
        decider.decide(plan, other_jobs, &existing_jobs)
    });
    let mut results = OrderedConcurrent::new(decisions_in_order, MAX_CONCURRENT);
    let mut decisions: Vec<Decision> = Vec::new();
    while let Some(result) = results.next().await {
        let document = undecided
            .pop_front()
            .expect("every document has one answer");
        match result {
            Ok(decision) => {
                decision
                    .plan
                    .notes
                    .iter()
                    .for_each(|note| reporter.report(DeployEvent::Report(note)));
                let old_files = decision.plan.old_files.clone();
                warnings.add(decision.plan.job_name(), &Vec::from_iter(old_files));
                // An unchanged job is not written, so do not repeat its other warnings.
                if !matches!(decision.step, Action::Nothing) {
                    warnings.add(decision.plan.job_name(), &decision.warnings);
                }
                decisions.push(decision);
            }
            Err(error) => {
                // Without the API server, nothing else can be checked.
                let is_unreachable = error.kind == ErrorKind::Unreachable;
                failed.push(FailedDocument { document, error });
                if is_unreachable {
                    break;
                }
            }
        }
    }
    warnings.report(documents, reporter);
    (decisions, undecided.into())
}

/// Reports each failure, with the permissions that the command needs.
pub(crate) fn report_failures(failed: &[FailedDocument], mode: Mode, reporter: &dyn Reporter) {
    for FailedDocument { document, error } in failed {
        let task = Task::writing(document.kind, mode.changes());
        reporter.report(DeployEvent::Task(Some(task)));
        let error = error.clone().during(format!("{document} failed"));
        reporter.report(DeployEvent::Failed(&error));
    }
}

pub(crate) fn is_among(failed: &[FailedDocument], input: &InputDocument) -> bool {
    failed.iter().any(|failed| failed.document == input.name())
}

/// Describes what would happen to a document.
fn preview(decision: &Decision, mode: Mode) -> Created {
    let (action, changes) = match &decision.step {
        Action::Create | Action::Later => ("created", Vec::new()),
        Action::Nothing => ("unchanged", Vec::new()),
        Action::Replace(_) => ("replaced", Vec::new()),
        Action::Change(effects) => (
            "updated",
            changed_fields(&decision.plan, &decision.live, effects),
        ),
    };
    Created {
        action: mode.changes().then_some(action),
        changes,
        ..outcome(&decision.plan, &decision.live, true, action)
    }
}

/// Returns the job's pool if the pool could not be created. Without it, the job's pods would wait
/// without an explanation.
fn failed_pool<'p>(plan: &'p Plan, failed_pools: &[String]) -> Option<&'p str> {
    job(&plan.input)?
        .resources
        .pool
        .as_ref()
        .map(|pool| pool.value.as_str())
        .filter(|pool| failed_pools.iter().any(|failed_pools| failed_pools == pool))
}
