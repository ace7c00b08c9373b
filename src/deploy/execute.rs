//! Writes decided documents concurrently, and records which were created, which failed and which
//! were not tried. After an interruption it removes what the unfinished documents have created.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Mutex;

use crate::concurrent::SideBySide;
use crate::deploy::AT_ONCE;
use crate::deploy::decide::{Decision, Judging};
use crate::deploy::delete;
use crate::deploy::errors::{broken, half_changed, with_left};
use crate::deploy::events::{Done, Reporter};
use crate::deploy::interrupt::Interruption;
use crate::deploy::names::suffix;
use crate::deploy::namesakes::Namesakes;
use crate::deploy::plan::{Plan, job};
use crate::deploy::reapply::{Action, lost};
use crate::deploy::report::{changed_fields, outcome};
use crate::deploy::run_summary::RunSummary;
use gpuctl_cluster::{Connection, Effects, Progress};
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_core::model::Job;
use gpuctl_core::model::contract::submission::{Created, FailedDocument};

/// How documents are written.
pub(crate) struct Writing<'w> {
    pub judging: &'w Judging<'w>,
    pub keep_partial: bool,
    pub connection: &'w Connection,
    pub reporter: &'w dyn Reporter,
    interruption: Interruption,
    /// Marks the objects that this run creates.
    run: String,
    /// True if no further document may be started.
    over: Cell<bool>,
    /// Held while a job is being replaced, so that an interrupted run loses at most one job.
    replacing: Mutex<()>,
}

/// A document that is being written.
#[derive(Default)]
struct InHand {
    progress: RefCell<Progress>,
    phase: Cell<Phase>,
    /// Reported together with the result of the document.
    warnings: RefCell<Vec<String>>,
}

/// The current step of a document.
#[derive(Clone, Copy, Default)]
enum Phase {
    #[default]
    Creating,
    /// Nothing has been done yet, because another job is being replaced.
    Waiting,
    Changing,
    /// Deleting the previous job.
    Deleting,
    Deleted,
}

const GONE: &str = "the previous job was deleted";

/// How long an interrupted run waits for the answer to a request that was already sent.
const ANSWER: Duration = Duration::from_secs(10);

/// Longest time that the pods of a replaced job may take to end, in addition to their grace period.
const ENDING: Duration = Duration::from_secs(300);

impl<'w> Writing<'w> {
    pub(crate) fn new(
        judging: &'w Judging<'w>,
        keep_partial: bool,
        reporter: &'w dyn Reporter,
        interruption: Interruption,
    ) -> Self {
        // Two suffixes make it very unlikely that concurrent runs share a mark.
        let run = format!("{}{}", suffix(), suffix());
        let (over, replacing) = (Cell::default(), Mutex::default());
        Self {
            judging,
            keep_partial,
            connection: judging.connection,
            reporter,
            interruption,
            run,
            over,
            replacing,
        }
    }

    /// Writes the documents concurrently, and starts and reports them in order. After an outage or
    /// an interruption it starts no further document. Returns false if the output has no reader
    /// anymore.
    pub(crate) async fn all(
        &self,
        judged: Vec<Decision>,
        account: &mut RunSummary,
    ) -> Result<bool, Error> {
        let written = judged.into_iter().map(|one| {
            let document = one.plan.input.name();
            async {
                let hand = InHand::default();
                if self.over.get() {
                    return (document, hand, Ok(None));
                }
                let outcome = self.one_unless_interrupted(one, &hand).await;
                if outcome
                    .as_ref()
                    .is_err_and(|error| error.kind == ErrorKind::Unreachable)
                {
                    self.over.set(true);
                }
                (document, hand, outcome)
            }
        });
        // Results arrive in the order of the documents, so a slow one delays the reports of later
        // ones.
        let mut written = SideBySide::new(written, AT_ONCE);
        let mut heard = Ok(true);
        while let Some((document, hand, outcome)) = written.next().await {
            hand.warnings
                .take()
                .iter()
                .for_each(|warning| self.reporter.warn(warning));
            match outcome {
                Ok(Some(created)) => {
                    // A closed output does not stop the writes, as with `-o json`.
                    if matches!(heard, Ok(true)) {
                        heard = self.reporter.done(Done::Written(&created));
                    }
                    account.done.push(created);
                }
                Ok(None) => account.not_tried.push(document),
                Err(error) => account.failed.push(FailedDocument { document, error }),
            }
        }
        heard
    }

    /// Writes one document until the user interrupts the run.
    async fn one_unless_interrupted(
        &self,
        judged: Decision,
        hand: &InHand,
    ) -> Result<Option<Created>, Error> {
        let mut writing = pin!(self.one(judged, hand));
        tokio::select! {
            outcome = &mut writing => return outcome,
            () = self.interruption.times(1) => self.over.set(true),
        }
        if matches!(hand.phase.get(), Phase::Waiting) {
            return Ok(None);
        }
        hand.progress.borrow_mut().stop();
        tokio::select! {
            outcome = answered(writing, hand) => if let Some(outcome) = outcome {
                return outcome;
            },
            () = self.interruption.times(2) => {}
            () = tokio::time::sleep(ANSWER) => {}
        }
        Err(self.stopped(hand).await)
    }

    /// Writes one document. `None` if the run ended before its turn.
    async fn one(&self, judged: Decision, hand: &InHand) -> Result<Option<Created>, Error> {
        let Decision {
            plan, step, live, ..
        } = judged;
        let (action, changes, live) = match step {
            Action::Later => return self.judge_again(plan, hand).await,
            Action::Nothing => {
                // A pod of an earlier version can still block a change that was written before this
                // run.
                let replaced = self.replace_stuck_pod(&plan, hand).await;
                let action = if replaced.is_none() {
                    "unchanged"
                } else {
                    "updated"
                };
                (action, replaced.into_iter().collect(), live)
            }
            Action::Create => ("created", Vec::new(), self.create(&plan, hand).await?),
            Action::Replace(job) => match self.replace(&plan, &job, hand).await? {
                Some(live) => ("replaced", Vec::new(), live),
                None => return Ok(None),
            },
            Action::Change(effects) => {
                let (changes, live) = self.change(&plan, live, &effects, hand).await?;
                ("updated", changes, live)
            }
        };
        Ok(Some(Created {
            action: self.action(action),
            changes,
            ..outcome(&plan, &live, false)
        }))
    }

    /// Decides about and writes a document whose namespace was created by this run.
    async fn judge_again(&self, plan: Plan, hand: &InHand) -> Result<Option<Created>, Error> {
        let namesakes = Namesakes::of(self.connection, [&plan]).await;
        let again = self.judging.judge(plan, 0, &namesakes).await?;
        hand.warnings.borrow_mut().extend(again.warnings.clone());
        if matches!(again.step, Action::Later) {
            let message = format!(
                "its namespace `{}` could not be created by this run",
                again.plan.target.namespace
            );
            return Err(Error::new(ErrorName::NamespaceNotMade, message));
        }
        // `one` and `judge_again` call each other, and a recursive future must be boxed.
        Box::pin(self.one(again, hand)).await
    }

    /// Deletes the job, then creates the new one. Returns `None` if the run ends before its turn.
    async fn replace(
        &self,
        plan: &Plan,
        previous: &Job,
        hand: &InHand,
    ) -> Result<Option<Value>, Error> {
        hand.phase.set(Phase::Waiting);
        let _alone = self.replacing.lock().await;
        // The run may have ended while this job waited for the lock.
        if self.over.get() {
            return Ok(None);
        }
        self.reporter
            .note(&format!("{}: {}", previous.name, lost(previous)));
        hand.phase.set(Phase::Deleting);
        let grace = job(&plan.input)
            .and_then(|job| job.grace_period)
            .unwrap_or_default();
        delete::away(self.connection, previous, ENDING + grace, self.reporter).await?;
        hand.phase.set(Phase::Deleted);
        let created = self.create(plan, hand).await;
        created.map(Some).map_err(|error| error.cause(GONE))
    }

    /// Changes a job in place. Returns the changed fields, and the owner after the change.
    async fn change(
        &self,
        plan: &Plan,
        live: Value,
        effects: &Effects,
        hand: &InHand,
    ) -> Result<(Vec<String>, Value), Error> {
        let mut changes = changed_fields(plan, &live, effects);
        hand.phase.set(Phase::Changing);
        let live = self
            .connection
            .writes()
            .change(effects)
            .await
            .map_err(half_changed)?
            .unwrap_or(live);
        changes.extend(self.replace_stuck_pod(plan, hand).await);
        Ok((changes, live))
    }

    /// Replaces a notebook's pod that its controller does not update. Returns a message if it did.
    async fn replace_stuck_pod(&self, plan: &Plan, hand: &InHand) -> Option<String> {
        let root = plan
            .rendered
            .objects
            .last()
            .filter(|root| root.kind() == "StatefulSet")?;
        // The controller waits until a pod of an older revision is ready before it replaces the
        // pod, which a broken pod never is (kubernetes#67250).
        match self.connection.jobs().replace_stuck_pod(root).await {
            Ok(pod) => pod
                .map(|pod| format!("pod/{pod} of the old version was never ready and is replaced")),
            Err(failure) => {
                let message = format!(
                    "cannot check whether a pod of the old version blocks the update: {failure}"
                );
                hand.warnings.borrow_mut().push(message);
                None
            }
        }
    }

    /// Omitted for `create`: its name already says it.
    fn action(&self, word: &'static str) -> Option<&'static str> {
        self.judging.mode.changes().then_some(word)
    }

    async fn create(&self, plan: &Plan, hand: &InHand) -> Result<Value, Error> {
        let connection = self.connection;
        // The API server keeps the pod group of a replaced job until its last pod has ended.
        connection.queues().without_group(&plan.rendered).await?;
        let submitted = connection
            .writes()
            .submit(&plan.rendered, &self.run, self.keep_partial, &hand.progress)
            .await
            .map_err(broken)?;
        hand.warnings.borrow_mut().extend(submitted.warnings);
        Ok(submitted.owner)
    }

    /// Describes what still exists of an unfinished document after an interruption. A second
    /// interruption ends the cleanup.
    async fn stopped(&self, hand: &InHand) -> Error {
        let mut error = Error::new(ErrorName::Interrupted, "interrupted while writing");
        match hand.phase.get() {
            Phase::Creating | Phase::Waiting => {}
            Phase::Changing => {
                return error
                    .cause("some changes may have been written")
                    .hint("run `gpuctl apply` again to continue");
            }
            Phase::Deleting => {
                return error
                    .cause("the previous job is being deleted")
                    .hint("run `gpuctl apply` again to submit the new one");
            }
            Phase::Deleted => error = error.cause(GONE),
        }
        tokio::select! {
            left = self.connection.writes().roll_back(&self.run, self.keep_partial, &hand.progress) => with_left(error, &left),
            () = self.interruption.times(2) => error.cause("objects that were already created still exist").hint("`gpuctl delete -f` removes them"),
        }
    }
}

/// Polls `writing` until the create request in flight is answered. A request dropped earlier may
/// still reach the API server after the objects were looked up for removal, and its object would
/// stay. Returns the outcome if the document ended with that answer.
async fn answered<O>(mut writing: Pin<&mut impl Future<Output = O>>, hand: &InHand) -> Option<O> {
    poll_fn(|context| match writing.as_mut().poll(context) {
        Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
        Poll::Pending if hand.progress.borrow().is_in_flight() => Poll::Pending,
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
