//! Writes decided documents, several at once, and keeps count of what was created, what failed and
//! what was not tried. An interruption removes what the documents in hand have created so far.

use std::cell::{Cell, RefCell};
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::Mutex;

use crate::concurrent::SideBySide;
use crate::context::Context;
use crate::deploy::AT_ONCE;
use crate::deploy::decide::{Action, Decision, Judging, lost, masks};
use crate::deploy::delete;
use crate::deploy::errors::{broken, half_changed, with_left};
use crate::deploy::interrupt::Interruption;
use crate::deploy::namesakes::Namesakes;
use crate::deploy::plan::{Plan, job};
use gpuctl_cluster::{Connection, Effect, Progress, label};
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_core::model::GpuCount;
use gpuctl_manifest::render::pods_in_all;
use gpuctl_view::files::changes;
use gpuctl_view::jobs::created::{Created, DocumentName, FailedDocument};

/// What became of the documents of a run.
#[derive(Default)]
pub(crate) struct RunSummary {
    pub done: Vec<Created>,
    pub failed: Vec<FailedDocument>,
    pub not_tried: Vec<DocumentName>,
}

impl RunSummary {
    /// Returns how the run ends, if not well: an interruption is told from a failure.
    pub(crate) fn kind(&self) -> Option<ErrorKind> {
        let worst = |failed: &FailedDocument| match failed.error.kind {
            ErrorKind::Interrupted => ErrorKind::Interrupted,
            _ => ErrorKind::Request,
        };
        let worst = self
            .failed
            .iter()
            .map(worst)
            .max_by_key(|kind| kind.exit_code());
        // Documents that were not tried although none failed were stopped by an interruption.
        worst.or_else(|| (!self.not_tried.is_empty()).then_some(ErrorKind::Interrupted))
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        self.kind()
            .map_or(ExitCode::SUCCESS, |kind| ExitCode::from(kind.exit_code()))
    }
}

/// How documents are written.
pub(crate) struct Writing<'w> {
    pub judging: &'w Judging<'w>,
    pub keep_partial: bool,
    pub connection: &'w Connection,
    pub context: &'w Context,
    interruption: Interruption,
    /// Marks what this run makes.
    run: String,
    /// No further document is begun.
    over: Cell<bool>,
    /// Held while a job is replaced: whoever interrupts the run loses one at most.
    replacing: Mutex<()>,
}

/// A document that is being written.
#[derive(Default)]
struct InHand {
    progress: RefCell<Progress>,
    phase: Cell<Phase>,
    /// Told together with how the document ended.
    warnings: RefCell<Vec<String>>,
}

/// What is being done to a document in hand.
#[derive(Clone, Copy, Default)]
enum Phase {
    #[default]
    Creating,
    /// Nothing was done yet: another job is being replaced.
    Waiting,
    Changing,
    /// What it replaces.
    Deleting,
    Deleted,
}

const GONE: &str = "the previous job was deleted";

/// Longest time that the pods of a job that is replaced may take to end.
const ENDING: Duration = Duration::from_secs(300);

impl<'w> Writing<'w> {
    pub(crate) fn new(
        judging: &'w Judging<'w>,
        keep_partial: bool,
        context: &'w Context,
        interruption: Interruption,
    ) -> Self {
        let run = format!(
            "{}{}",
            crate::deploy::names::suffix(),
            crate::deploy::names::suffix()
        );
        let (over, replacing) = (Cell::default(), Mutex::default());
        Self {
            judging,
            keep_partial,
            connection: judging.connection,
            context,
            interruption,
            run,
            over,
            replacing,
        }
    }

    /// Writes the documents, begun and told in their order. After an outage or an interruption no
    /// further one is tried: it would fail as well, or is not wanted. `tell` is given each that is
    /// done, and returns false when nobody reads any more; so does this.
    pub(crate) async fn all(
        &self,
        judged: Vec<Decision>,
        account: &mut RunSummary,
        tell: impl Fn(&Created) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        let written = judged.into_iter().map(|one| {
            let document = one.plan.input.name();
            async {
                let hand = InHand::default();
                if self.over.get() {
                    return (document, hand, Ok(None));
                }
                let outcome = tokio::select! {
                    outcome = self.one(one, &hand) => outcome,
                    () = self.interruption.times(1) => {
                        self.over.set(true);
                        match hand.phase.get() {
                            Phase::Waiting => Ok(None),
                            _ => Err(self.stopped(&hand).await),
                        }
                    }
                };
                if outcome
                    .as_ref()
                    .is_err_and(|error| error.kind == ErrorKind::Unreachable)
                {
                    self.over.set(true);
                }
                (document, hand, outcome)
            }
        });
        let mut written = SideBySide::new(written, AT_ONCE);
        let mut heard = Ok(true);
        while let Some((document, hand, outcome)) = written.next().await {
            hand.warnings
                .take()
                .iter()
                .for_each(|warning| self.context.terminal.warn(warning));
            match outcome {
                Ok(Some(created)) => {
                    // Documents are written although nobody reads of them, as with `-o json`.
                    if matches!(heard, Ok(true)) {
                        heard = tell(&created);
                    }
                    account.done.push(created);
                }
                Ok(None) => account.not_tried.push(document),
                Err(error) => account.failed.push(FailedDocument { document, error }),
            }
        }
        heard
    }

    /// Writes one document; `None` when the run is over before its turn has come.
    async fn one(&self, judged: Decision, hand: &InHand) -> Result<Option<Created>, Error> {
        let Decision {
            plan, step, live, ..
        } = judged;
        let (connection, context) = (self.connection, self.context);
        let created = match step {
            Action::Later => {
                let there = Namesakes::of(connection, [&plan]).await;
                let again = self.judging.judge(plan, 0, &there).await?;
                hand.warnings.borrow_mut().extend(again.warnings.clone());
                if matches!(again.step, Action::Later) {
                    let message = format!(
                        "its namespace `{}` of the same run could not be made",
                        again.plan.target.namespace
                    );
                    return Err(Error::new(ErrorName::NamespaceNotMade, message));
                }
                return Box::pin(self.one(again, hand)).await;
            }
            Action::Nothing => {
                let changes: Vec<String> = self
                    .replace_stuck_pod(&plan, hand)
                    .await
                    .into_iter()
                    .collect();
                let action = if changes.is_empty() {
                    "unchanged"
                } else {
                    "updated"
                };
                Created {
                    action: self.action(action),
                    changes,
                    ..outcome(&plan, &live, false)
                }
            }
            Action::Create => {
                let live = self.create(&plan, hand).await?;
                Created {
                    action: self.action("created"),
                    ..outcome(&plan, &live, false)
                }
            }
            Action::Replace(job) => {
                hand.phase.set(Phase::Waiting);
                let _alone = self.replacing.lock().await;
                if self.over.get() {
                    return Ok(None);
                }
                context
                    .terminal
                    .note(&format!("{}: {}", job.name, lost(&job)));
                hand.phase.set(Phase::Deleting);
                let grace = crate::deploy::plan::job(&plan.input)
                    .and_then(|job| job.grace_period)
                    .unwrap_or_default();
                delete::away(
                    connection,
                    &job,
                    ENDING + grace,
                    context.terminal.spinner(),
                    context,
                )
                .await?;
                hand.phase.set(Phase::Deleted);
                let live = self
                    .create(&plan, hand)
                    .await
                    .map_err(|error| error.cause(GONE))?;
                Created {
                    action: self.action("replaced"),
                    ..outcome(&plan, &live, false)
                }
            }
            Action::Change(effects) => {
                let mut changes = told(&plan, &live, &effects);
                hand.phase.set(Phase::Changing);
                let live = connection
                    .change(&effects)
                    .await
                    .map_err(half_changed)?
                    .unwrap_or(live);
                changes.extend(self.replace_stuck_pod(&plan, hand).await);
                Created {
                    action: self.action("updated"),
                    changes,
                    ..outcome(&plan, &live, false)
                }
            }
        };
        Ok(Some(created))
    }

    /// Replaces the pod of a notebook that its controller leaves as it is. Returns what was done,
    /// to be told.
    async fn replace_stuck_pod(&self, plan: &Plan, hand: &InHand) -> Option<String> {
        let root = plan
            .rendered
            .objects
            .last()
            .filter(|root| root.kind() == "StatefulSet")?;
        match self.connection.replace_stuck_pod(root).await {
            Ok(pod) => pod
                .map(|pod| format!("pod/{pod} of the old version was never ready and is replaced")),
            Err(failure) => {
                let message = format!(
                    "whether a pod of the old version is in the way is not known: {failure}"
                );
                hand.warnings.borrow_mut().push(message);
                None
            }
        }
    }

    /// `create` says it by its name.
    fn action(&self, word: &'static str) -> Option<&'static str> {
        self.judging.mode.changes().then_some(word)
    }

    async fn create(&self, plan: &Plan, hand: &InHand) -> Result<Value, Error> {
        let connection = self.connection;
        connection.without_group(&plan.rendered).await?;
        let submitted = connection
            .submit(&plan.rendered, &self.run, self.keep_partial, &hand.progress)
            .await
            .map_err(broken)?;
        hand.warnings.borrow_mut().extend(submitted.warnings);
        Ok(submitted.owner)
    }

    /// Returns what is there of a document in hand after an interruption. A second one ends the
    /// program at once.
    async fn stopped(&self, hand: &InHand) -> Error {
        let mut error = Error::new(ErrorName::Interrupted, "interrupted while writing");
        match hand.phase.get() {
            Phase::Creating | Phase::Waiting => {}
            Phase::Changing => {
                return error
                    .cause("some changes may have been written")
                    .hint("`gpuctl apply` again goes on");
            }
            Phase::Deleting => {
                return error
                    .cause("the previous job is being deleted")
                    .hint("`gpuctl apply` again submits the new one");
            }
            Phase::Deleted => error = error.cause(GONE),
        }
        tokio::select! {
            left = self.connection.take_back(&self.run, self.keep_partial, &hand.progress) => with_left(error, &left),
            () = self.interruption.times(2) => error.cause("objects that were already created still exist").hint("`gpuctl delete -f` takes it away"),
        }
    }
}

/// Fields that change, by object.
pub(crate) fn told(plan: &Plan, live: &Value, effects: &gpuctl_cluster::Effects) -> Vec<String> {
    let masks = masks(&plan.rendered, live);
    let mut found = Vec::new();
    for (object, effect) in &effects.objects {
        match effect {
            Effect::Made => found.push(format!("{} is new", label(object))),
            Effect::Changed { live, wanted } => {
                found.extend(
                    changes::of(live, wanted, &masks)
                        .into_iter()
                        .map(|line| format!("{} {line}", label(object))),
                );
            }
            Effect::Repaired(repair) => found.extend(
                repair
                    .changes
                    .iter()
                    .map(|change| format!("{} {change}", label(object))),
            ),
            Effect::Nothing | Effect::Fixed { .. } | Effect::Conflict(_) => {}
        }
    }
    found.extend(
        effects
            .stale
            .iter()
            .map(|one| format!("{} goes", one.label())),
    );
    found
}

/// Returns a document as it is reported.
pub(crate) fn outcome(plan: &Plan, live: &Value, dry_run: bool) -> Created {
    let job = job(&plan.input).expect("only jobs are rendered");
    let pool = job.resources.pool.as_ref().map(|pool| pool.value.clone());
    let place = pool
        .clone()
        .unwrap_or_else(|| plan.target.namespace.clone());
    let made_at = live
        .pointer("/metadata/creationTimestamp")
        .and_then(Value::as_str);
    Created {
        job_id: job.id().to_owned(),
        name: job.name.value.clone(),
        kind: job.kind.word(),
        status: "pending".to_owned(),
        created_at: made_at.and_then(|text| text.parse::<Timestamp>().ok()),
        message: if dry_run {
            format!("would be submitted to {place}")
        } else {
            format!("submitted to {place}")
        },
        namespace: plan.target.namespace.clone(),
        pods: pods_in_all(job).into(),
        group_size: if job.kind.serves() {
            job.resources.node_count.into()
        } else {
            1
        },
        gpus_per_pod: GpuCount(job.resources.gpu.into()),
        gpu_type: plan
            .rendered
            .choice
            .gpu_type
            .as_ref()
            .map(ToString::to_string),
        pool,
        objects: plan.rendered.objects.iter().map(label).collect(),
        defaults: crate::deploy::defaults::of_job(job),
        local_files: plan.input.attached.files.clone(),
        dry_run,
        action: None,
        changes: Vec::new(),
    }
}
