//! Writes documents concurrently, after all decisions. Records which documents were created,
//! failed, or were not tried. After an interruption, removes what the unfinished documents have
//! created.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Mutex;

use crate::concurrent::OrderedConcurrent;
use crate::deploy::MAX_CONCURRENT;
use crate::deploy::decide::{Decider, Decision};
use crate::deploy::delete;
use crate::deploy::errors::{submit_error, update_error, with_leftovers};
use crate::deploy::events::{Done, Reporter};
use crate::deploy::existing_jobs::ExistingJobs;
use crate::deploy::interrupt::Interruption;
use crate::deploy::names::suffix;
use crate::deploy::plan::{Plan, job};
use crate::deploy::reapply::{Action, replacement_loss};
use crate::deploy::report::{changed_fields, outcome};
use crate::deploy::run_summary::RunSummary;
use gpuctl_cluster::{Connection, Effects, Progress};
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_core::model::Job;
use gpuctl_core::model::contract::submission::{Created, FailedDocument};

/// State that all documents of a run share while they are written.
pub(crate) struct Writer<'w> {
    pub decider: &'w Decider<'w>,
    pub keep_partial: bool,
    pub connection: &'w Connection,
    pub reporter: &'w dyn Reporter,
    interruption: Interruption,
    /// Value of the annotation that marks the objects of this run.
    run: String,
    /// Set when no further documents may be started.
    is_stopped: Cell<bool>,
    /// Held while a job is being replaced, so that an interrupted run loses at most one job.
    replacing: Mutex<()>,
}

/// Progress of a document that is being written.
#[derive(Default)]
struct DocumentState {
    progress: RefCell<Progress>,
    phase: Cell<Phase>,
    /// Warnings that are reported with the result of the document.
    warnings: RefCell<Vec<String>>,
}

/// The step that a document has reached.
#[derive(Clone, Copy, Default)]
enum Phase {
    #[default]
    Creating,
    /// Waiting for the replacement of another job. Nothing has been written yet.
    Waiting,
    Changing,
    /// The previous job is being deleted.
    Deleting,
    Deleted,
}

const DELETED_MESSAGE: &str = "the previous job was deleted";

/// Time that an interrupted run waits for the response to a pending request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Time that the pods of a replaced job may take to end, in addition to their grace period.
const POD_END_TIMEOUT: Duration = Duration::from_secs(300);

impl<'w> Writer<'w> {
    pub(crate) fn new(
        decider: &'w Decider<'w>,
        keep_partial: bool,
        reporter: &'w dyn Reporter,
        interruption: Interruption,
    ) -> Self {
        // Use two suffixes, so that concurrent runs are very unlikely to have the same mark.
        let run = format!("{}{}", suffix(), suffix());
        let (is_stopped, replacing) = (Cell::default(), Mutex::default());
        Self {
            decider,
            keep_partial,
            connection: decider.connection,
            reporter,
            interruption,
            run,
            is_stopped,
            replacing,
        }
    }

    /// Writes the documents concurrently, but starts and reports them in order. Starts no further
    /// document after an outage or an interruption. Returns false if the reader has closed the
    /// output.
    pub(crate) async fn write_all(
        &self,
        decisions: Vec<Decision>,
        summary: &mut RunSummary,
    ) -> Result<bool, Error> {
        let written = decisions.into_iter().map(|decision| {
            let document = decision.plan.input.name();
            async {
                let state = DocumentState::default();
                if self.is_stopped.get() {
                    return (document, state, Ok(None));
                }
                let outcome = self.write_until_interrupted(decision, &state).await;
                if outcome
                    .as_ref()
                    .is_err_and(|error| error.kind == ErrorKind::Unreachable)
                {
                    self.is_stopped.set(true);
                }
                (document, state, outcome)
            }
        });
        // Results arrive in the order of the documents, so a slow document delays the reports of
        // later ones.
        let mut written = OrderedConcurrent::new(written, MAX_CONCURRENT);
        let mut output_result = Ok(true);
        while let Some((document, state, outcome)) = written.next().await {
            state
                .warnings
                .take()
                .iter()
                .for_each(|warning| self.reporter.warn(warning));
            match outcome {
                Ok(Some(created)) => {
                    // Continue to write if the reader has closed the output, as with `-o json`.
                    if matches!(output_result, Ok(true)) {
                        output_result = self.reporter.done(Done::Written(&created));
                    }
                    summary.done.push(created);
                }
                Ok(None) => summary.not_tried.push(document),
                Err(error) => summary.failed.push(FailedDocument { document, error }),
            }
        }
        summary.interruption = self.interruption.received().map(|name| name.kind());
        output_result
    }

    /// Writes one document until the user interrupts the run.
    async fn write_until_interrupted(
        &self,
        decision: Decision,
        state: &DocumentState,
    ) -> Result<Option<Created>, Error> {
        let mut writing = pin!(self.write_document(decision, state));
        tokio::select! {
            outcome = &mut writing => return outcome,
            _ = self.interruption.times(1) => self.is_stopped.set(true),
        }
        if matches!(state.phase.get(), Phase::Waiting) {
            return Ok(None);
        }
        state.progress.borrow_mut().stop();
        tokio::select! {
            outcome = answer_in_flight(writing, state) => if let Some(outcome) = outcome {
                return outcome;
            },
            _ = self.interruption.times(2) => {}
            () = tokio::time::sleep(ANSWER_TIMEOUT) => {}
        }
        Err(self.interruption_error(state).await)
    }

    /// Writes one document. Returns `None` if the run ended before the document was started.
    async fn write_document(
        &self,
        decision: Decision,
        state: &DocumentState,
    ) -> Result<Option<Created>, Error> {
        let Decision {
            plan, step, live, ..
        } = decision;
        let (action, changes, live) = match step {
            Action::Later => return self.decide_again(plan, state).await,
            Action::Nothing => {
                // A pod of an earlier version may still block a change that a previous run wrote.
                let replaced = self.replace_stuck_pod(&plan, state).await;
                let action = if replaced.is_none() {
                    "unchanged"
                } else {
                    "updated"
                };
                (action, replaced.into_iter().collect(), live)
            }
            Action::Create => match self.create(&plan, state).await {
                // Another run has created the job in the meantime.
                Err(error)
                    if error.name == ErrorName::AlreadyExists && self.decider.mode.changes() =>
                {
                    return self.decide_again(plan, state).await;
                }
                live => ("created", Vec::new(), live?),
            },
            Action::Replace(job) => match self.replace(&plan, &job, state).await? {
                Some(live) => ("replaced", Vec::new(), live),
                None => return Ok(None),
            },
            Action::Change(effects) => {
                let (changes, live) = self.change(&plan, live, &effects, state).await?;
                ("updated", changes, live)
            }
        };
        Ok(Some(Created {
            action: self.action(action),
            changes,
            ..outcome(&plan, &live, false, action)
        }))
    }

    /// Decides again about a document and writes it, because this run has created its namespace or
    /// another run has created its job.
    async fn decide_again(
        &self,
        plan: Plan,
        state: &DocumentState,
    ) -> Result<Option<Created>, Error> {
        let existing_jobs = ExistingJobs::read(self.connection, [&plan]).await;
        let decision = self.decider.decide(plan, 0, &existing_jobs).await?;
        state
            .warnings
            .borrow_mut()
            .extend(decision.plan.old_files.clone());
        // An unchanged job is not written, so its other warnings are not reported.
        if !matches!(decision.step, Action::Nothing) {
            let warnings = decision.warnings.clone();
            state.warnings.borrow_mut().extend(warnings);
        }
        if matches!(decision.step, Action::Later) {
            let message = format!(
                "its namespace `{}` could not be created",
                decision.plan.target.namespace
            );
            return Err(Error::new(ErrorName::NamespaceNotMade, message));
        }
        // `write_document` and `decide_again` call each other, and a recursive future must be
        // boxed.
        Box::pin(self.write_document(decision, state)).await
    }

    /// Deletes the job, then creates the new one. Returns `None` if the run ends before the
    /// replacement starts.
    async fn replace(
        &self,
        plan: &Plan,
        previous: &Job,
        state: &DocumentState,
    ) -> Result<Option<Value>, Error> {
        state.phase.set(Phase::Waiting);
        let _guard = self.replacing.lock().await;
        // Check again, because the run may have ended while this job waited for the lock.
        if self.is_stopped.get() {
            return Ok(None);
        }
        self.reporter.note(&format!(
            "{}: {}",
            previous.name,
            replacement_loss(previous)
        ));
        state.phase.set(Phase::Deleting);
        let grace = job(&plan.input)
            .and_then(|job| job.grace_period)
            .unwrap_or_default();
        delete::delete_and_wait(
            self.connection,
            previous,
            POD_END_TIMEOUT + grace,
            self.reporter,
        )
        .await?;
        state.phase.set(Phase::Deleted);
        let created = self.create(plan, state).await;
        created
            .map(Some)
            .map_err(|error| error.note(DELETED_MESSAGE))
    }

    /// Changes a job in place. Returns the changed fields and the new owner object.
    async fn change(
        &self,
        plan: &Plan,
        live: Value,
        effects: &Effects,
        state: &DocumentState,
    ) -> Result<(Vec<String>, Value), Error> {
        let mut changes = changed_fields(plan, &live, effects);
        state.phase.set(Phase::Changing);
        let live = self
            .connection
            .writes()
            .change(effects)
            .await
            .map_err(update_error)?
            .unwrap_or(live);
        changes.extend(self.replace_stuck_pod(plan, state).await);
        Ok((changes, live))
    }

    /// Replaces a notebook's pod if its controller does not update it. Returns a message about the
    /// replacement, or `None`.
    async fn replace_stuck_pod(&self, plan: &Plan, state: &DocumentState) -> Option<String> {
        let root = plan
            .rendered
            .objects
            .last()
            .filter(|root| root.kind() == "StatefulSet")?;
        // A StatefulSet's controller replaces a pod of an older revision only when the pod is
        // ready, which a broken pod never is (kubernetes#67250).
        match self.connection.jobs().replace_stuck_pod(root).await {
            Ok(pod) => pod.map(|pod| {
                format!("pod/{pod} of the old version was never ready and is being replaced")
            }),
            Err(failure) => {
                let message = format!(
                    "cannot check whether a pod of the old version blocks the update: {failure}"
                );
                state.warnings.borrow_mut().push(message);
                None
            }
        }
    }

    /// Returns no action for `create`, whose name already states it.
    fn action(&self, word: &'static str) -> Option<&'static str> {
        self.decider.mode.changes().then_some(word)
    }

    async fn create(&self, plan: &Plan, state: &DocumentState) -> Result<Value, Error> {
        let connection = self.connection;
        // After a replacement, the API server keeps the pod group until the old job's last pod has
        // ended.
        connection.queues().without_group(&plan.rendered).await?;
        let submitted = connection
            .writes()
            .submit(
                &plan.rendered,
                &self.run,
                self.keep_partial,
                &state.progress,
            )
            .await
            .map_err(submit_error)?;
        state.warnings.borrow_mut().extend(submitted.warnings);
        Ok(submitted.owner)
    }

    /// Removes the objects of an unfinished document after an interruption, and describes those
    /// that still exist. A second interruption ends the cleanup.
    async fn interruption_error(&self, state: &DocumentState) -> Error {
        let name = self.interruption.times(1).await;
        let mut error = Error::new(name, "interrupted while writing");
        match state.phase.get() {
            Phase::Creating | Phase::Waiting => {}
            Phase::Changing => {
                return error
                    .note("some changes may have been written")
                    .hint("run `gpuctl apply` again to continue");
            }
            Phase::Deleting => {
                return error
                    .note("the previous job is being deleted")
                    .hint("run `gpuctl apply` again to submit the new one");
            }
            Phase::Deleted => error = error.note(DELETED_MESSAGE),
        }
        tokio::select! {
            leftovers = self.connection.writes().roll_back(&self.run, self.keep_partial, &state.progress) => with_leftovers(error, &leftovers),
            _ = self.interruption.times(2) => error.note("objects that were already created still exist").hint("remove them with `gpuctl delete -f`"),
        }
    }
}

/// Polls `writing` until the response to a pending create request arrives. Otherwise the request
/// could reach the API server after the cleanup, and its object would remain. Returns the outcome
/// if the response completes the document.
async fn answer_in_flight<O>(
    mut writing: Pin<&mut impl Future<Output = O>>,
    state: &DocumentState,
) -> Option<O> {
    poll_fn(|context| match writing.as_mut().poll(context) {
        Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
        Poll::Pending if state.progress.borrow().is_in_flight() => Poll::Pending,
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
