//! Decides for every job of a run, before the first is written, whether it is created, changed,
//! replaced or left alone. The API server's dry run is asked for each.

use serde_json::Value;

use crate::deploy::defaults::replaced;
use crate::deploy::errors::{as_warning, combined, conflicting, in_the_way, lost_companion};
use crate::deploy::feasibility::Surroundings;
use crate::deploy::namesakes::Namesakes;
use crate::deploy::options::{Mode, SubmitOptions};
use crate::deploy::plan::{Plan, PlanningFacts};
use crate::deploy::pool_rules::{self, JobsOfPools};
use gpuctl_cluster::{
    Connection, Effect, Effects, Failure, Obstacle, SITE_DEFAULTS_WAIT, with_warnings,
};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::contract::labels::{SOURCE, USER};
use gpuctl_core::model::{GpuCount, Job, JobKind, State};
use gpuctl_manifest::render::{Refusal, Rendered, namespace, render};
use gpuctl_view::files::changes;
use gpuctl_view::files::changes::Masks;
use gpuctl_view::format::text::count;

/// How a document is compared with what is there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Comparison {
    /// Fields that others own are taken over.
    pub force: bool,
    /// Defaults that are newer than the job are given to it, though its file says the same.
    pub renew: bool,
    pub dry_run: bool,
}

/// What is to be done for a document.
#[derive(Debug)]
pub(crate) enum Action {
    Create,
    Change(Effects),
    Nothing,
    /// What is there goes first.
    Replace(Box<Job>),
    /// Its namespace comes with this run: it can only be judged when that is there.
    Later,
}

/// A document that may be written.
pub(crate) struct Decision {
    pub plan: Plan,
    pub step: Action,
    /// What the server answered about what is there.
    pub live: Value,
    /// To be told before it is written.
    pub warnings: Vec<String>,
}

/// What the documents of a run are judged by.
pub(crate) struct Judging<'r> {
    pub mode: Mode,
    pub facts: &'r PlanningFacts,
    pub connection: &'r Connection,
    pub dry_run: bool,
    /// Submits what can never run here, with a warning.
    pub allow_pending: bool,
    around: Surroundings<'r>,
    jobs_of_pools: JobsOfPools,
}

impl<'r> Judging<'r> {
    pub(crate) fn new(
        how: &SubmitOptions,
        facts: &'r PlanningFacts,
        connection: &'r Connection,
    ) -> Self {
        let around = Surroundings::new(connection);
        let (mode, dry_run, allow_pending) = (how.mode, how.dry_run.is_some(), how.allow_pending);
        Self {
            mode,
            facts,
            connection,
            dry_run,
            allow_pending,
            around,
            jobs_of_pools: JobsOfPools::default(),
        }
    }

    /// Counts what a document of the run brings as existing.
    pub(crate) fn foresee(&mut self, plan: &Plan) {
        self.around.add(plan);
    }

    /// Judges one document. `beside` jobs of the same pool come with the run.
    pub(crate) async fn judge(
        &self,
        plan: Plan,
        beside: usize,
        there: &Namesakes,
    ) -> Result<Decision, Error> {
        let (judged, said) = with_warnings(self.decide(plan, beside, there)).await;
        judged.map(|mut judged| {
            judged.warnings.extend(said);
            judged
        })
    }

    /// Returns the same without the API server's warnings.
    async fn decide(
        &self,
        mut plan: Plan,
        beside: usize,
        there: &Namesakes,
    ) -> Result<Decision, Error> {
        let connection = self.connection;
        let pools = self.facts.pools.as_deref();
        let mut warnings =
            pool_rules::check(connection, &plan, pools, beside, &self.jobs_of_pools).await?;
        let space = &plan.target.namespace;
        if self.facts.coming.contains(space) && connection.live(&namespace(space)).await?.is_none()
        {
            if self.dry_run {
                warnings
                    .push(format!("namespace `{space}` comes with this run, so the server could not check what goes into it"));
            }
            return Ok(Decision {
                plan,
                step: Action::Later,
                live: Value::Null,
                warnings,
            });
        }
        let mut quota = None;
        let mut judged = match self.mode {
            Mode::Create => None,
            Mode::Apply {
                force_conflicts,
                replace,
            } => {
                let job = there.get(&plan)?.cloned();
                again(
                    &mut plan,
                    job,
                    (force_conflicts, replace, self.dry_run),
                    &mut warnings,
                    connection,
                )
                .await?
            }
        };
        let exists = judged.is_some();
        if !exists {
            let (told, over_quota) = preflight(&mut plan, there, connection, self.dry_run).await?;
            warnings.extend(told);
            quota = over_quota;
            warnings.extend(class_warning(&plan, connection).await);
            judged = Some((Action::Create, Value::Null));
        }
        let (step, live) = judged.expect("it was just filled");
        if !matches!(step, Action::Nothing) {
            // A replacement ends what runs, so it is judged like a new job.
            let changes = exists && !matches!(step, Action::Replace(_));
            self.possible(&mut plan, changes, quota, &mut warnings)
                .await?;
        }
        warnings.extend(plan.rendered.warnings.clone());
        Ok(Decision {
            plan,
            step,
            live,
            warnings,
        })
    }

    /// Refuses what can never run here. A job that is changed in place is only warned of, for it
    /// may be about to change for the better. The API server's refusal for a quota is passed on
    /// where the quotas' own numbers do not show it.
    async fn possible(
        &self,
        plan: &mut Plan,
        changes: bool,
        quota: Option<Failure>,
        warnings: &mut Vec<String>,
    ) -> Result<(), Error> {
        let found = self.around.check(plan).await;
        warnings.extend(found.warnings);
        if let Some(failure) = quota.filter(|_| found.errors.is_empty() && found.now.is_none()) {
            let told = failure.to_string();
            let told = told
                .split_once("exceeded quota")
                .map_or(told.as_str(), |(_, rest)| {
                    rest.trim_start_matches(':').trim_start()
                });
            warnings.push(format!(
                "a quota does not allow its pods now, and they wait until it does: {told}"
            ));
        }
        if changes || self.allow_pending {
            warnings.extend(found.errors.iter().map(as_warning));
            return Ok(());
        }
        if let Some(error) = combined(found.errors) {
            return Err(error);
        }
        plan.notes.extend(found.now);
        Ok(())
    }
}

/// Requires that nothing is in the way, and that the API server accepts the objects and a pod.
async fn preflight(
    plan: &mut Plan,
    there: &Namesakes,
    connection: &Connection,
    dry_run: bool,
) -> Result<(Vec<String>, Option<Failure>), Error> {
    let namesake = match there.get(plan) {
        // Whoever may not read jobs learns of a namesake from the server's own judgement.
        Err(failure) if failure.is_forbidden() => None,
        other => other?,
    };
    match connection
        .preflight(&plan.rendered, namesake, dry_run)
        .await
    {
        Err(Obstacle::NoPriorityClass) => {
            plan.target.without_priority = true;
            render_again(plan)?;
            let found = connection.preflight(&plan.rendered, None, dry_run).await;
            let (mut warnings, quota) = match found {
                Err(Obstacle::PodQuota(failure)) => (Vec::new(), Some(failure)),
                other => (other.map_err(|obstacle| in_the_way(obstacle, plan))?, None),
            };
            warnings.push("`job.priority` has no effect: its priority class is not there and you may not create it".to_owned());
            Ok((warnings, quota))
        }
        Err(Obstacle::PodQuota(failure)) => Ok((Vec::new(), Some(failure))),
        other => Ok((other.map_err(|obstacle| in_the_way(obstacle, plan))?, None)),
    }
}

fn render_again(plan: &mut Plan) -> Result<(), Error> {
    let refused = |refusal: Refusal| refusal.in_file(&plan.input.file, &plan.input.text);
    plan.rendered = render(&plan.input.document, &plan.target).map_err(refused)?;
    plan.rendered.warnings.extend(replaced(&plan.input));
    Ok(())
}

/// Returns what applying a document does to the job that is there; `None` when there is none.
async fn again(
    plan: &mut Plan,
    job: Option<Job>,
    (force, replace, dry_run): (bool, bool, bool),
    warnings: &mut Vec<String>,
    connection: &Connection,
) -> Result<Option<(Action, Value)>, Error> {
    let Some(job) = job else { return Ok(None) };
    let full = format!("{}/{}", job.namespace, job.name);
    if job.deleting {
        return Err(Error::new(
            ErrorName::Terminating,
            format!("job `{}` is still being deleted", job.name),
        )
        .hint("try again in a moment"));
    }
    let Some(live) = connection.live_owner(&plan.rendered).await? else {
        if replace {
            let judged = connection.judge_pod(&plan.rendered, dry_run).await;
            is_well(judged, plan, warnings)?;
            is_well(connection.judge_all(&plan.rendered).await, plan, warnings)?;
            return Ok(Some((Action::Replace(Box::new(job)), Value::Null)));
        }
        let kind = plan.input.document.kind();
        let message = if job.kind.word() == kind {
            let asked = plan.input.document.kind();
            let nodes = count(job.group_size.max(1).into(), "node");
            format!(
                "`{}` is there with {nodes} for each replica, and this {asked} asks for another number",
                job.name
            )
        } else {
            format!(
                "`{}` is there as {}, and the file says {kind}",
                job.name,
                job.kind.word()
            )
        };
        let error = Error::new(ErrorName::KindConflict, message);
        return Err(error.cause(lost(&job)).hint(format!(
            "`--replace` takes it away first, or `gpuctl delete job {full}`"
        )));
    };
    let effects = compare(
        plan,
        &live,
        Comparison {
            force,
            renew: replace,
            dry_run,
        },
        warnings,
        connection,
    )
    .await?;
    if !effects.waiting.is_empty() && job.kind != JobKind::Training {
        let told = format!(
            "`{}` stays as it is: {} come with the next change of its file, or with `--replace`",
            job.name,
            effects.waiting.join(" and ")
        );
        let of_site = effects.waiting == [SITE_DEFAULTS_WAIT];
        if of_site {
            plan.notes.push(told);
        } else {
            warnings.push(told);
        }
    }
    let masks = masks(&plan.rendered, &live);
    if let Some(error) = conflicting(&effects) {
        return Err(error);
    }
    let fixed: Vec<_> = effects
        .objects
        .iter()
        .filter(|(_, effect)| matches!(effect, Effect::Fixed { .. }))
        .collect();
    if let Some((claim, Effect::Fixed { live, wanted })) =
        fixed.iter().find(|(object, _)| object.kept)
    {
        let message = format!(
            "claim `{}` cannot be changed: this field is immutable or cannot shrink",
            claim.name()
        );
        let error = Error::new(ErrorName::ClaimConflict, message)
            .cause(changes::of_wanted(live, wanted, &masks).join("; "));
        return Err(error.hint(format!(
            "ask for what it is, or `gpuctl delete job {full} --purge` to lose its files"
        )));
    }
    if fixed.is_empty() || effects.same_source {
        if let Some(error) = lost_companion(&effects, plan) {
            return Err(error);
        }
        // What the cluster tells of its nodes may have changed since; what the user says has not.
        let idle =
            |(_, effect): &(_, Effect)| matches!(effect, Effect::Nothing | Effect::Fixed { .. });
        let nothing = effects.stale.is_empty() && effects.objects.iter().all(idle);
        return Ok(Some((
            if nothing {
                Action::Nothing
            } else {
                Action::Change(effects)
            },
            live,
        )));
    }
    if replace {
        is_well(connection.judge_owner(&plan.rendered).await, plan, warnings)?;
        return Ok(Some((Action::Replace(Box::new(job)), live)));
    }
    let differences = fixed.iter().flat_map(|(_, effect)| match effect {
        Effect::Fixed { live, wanted } => changes::of_wanted(live, wanted, &masks),
        _ => Vec::new(),
    });
    let state = if State::of(&job).status.is_final() {
        "has ended"
    } else {
        "exists"
    };
    let message = format!(
        "{} `{}` {state}, and its pods cannot be changed",
        job.kind.word(),
        job.name
    );
    let error = differences.fold(Error::new(ErrorName::Immutable, message), Error::cause);
    let now = if job.suspended {
        ""
    } else {
        "; a paused training takes other resources"
    };
    Err(error
        .cause(lost(&job))
        .hint(format!("`--replace` deletes and resubmits it{now}")))
}

/// Returns what applying a document again would change in the job that is there. Whoever submitted
/// it stays its user, whoever applies it; a priority class that may not be made is left out, as it
/// was when it was created.
pub(crate) async fn compare(
    plan: &mut Plan,
    live: &Value,
    how: Comparison,
    warnings: &mut Vec<String>,
    connection: &Connection,
) -> Result<Effects, Error> {
    let user = live
        .pointer("/metadata/annotations")
        .and_then(|all| all.get(USER))
        .and_then(Value::as_str);
    if plan.target.user.as_deref() != user {
        plan.target.user = user.map(ToOwned::to_owned);
        render_again(plan)?;
    }
    let effects = connection
        .effects(&plan.rendered, live, how.force, how.renew)
        .await?;
    warnings.extend(effects.warnings.iter().cloned());
    if effects.is_nothing() {
        return Ok(effects);
    }
    match connection.judge_pod(&plan.rendered, how.dry_run).await {
        Err(Obstacle::NoPriorityClass) if !plan.target.without_priority => {
            plan.target.without_priority = true;
            render_again(plan)?;
            Box::pin(compare(plan, live, how, warnings, connection)).await
        }
        judged => is_well(judged, plan, warnings).map(|()| effects),
    }
}

/// Refuses a change when the API server refuses its pods or their owner. An exceeded quota is only
/// a warning: the pods that the change replaces still count against it.
fn is_well(
    judged: Result<Vec<String>, Obstacle>,
    plan: &Plan,
    warnings: &mut Vec<String>,
) -> Result<(), Error> {
    match judged {
        Ok(found) => warnings.extend(found),
        Err(Obstacle::PodQuota(failure)) => {
            warnings.push(format!("beside what runs now it would not fit: {failure}"));
        }
        Err(obstacle) => return Err(in_the_way(obstacle, plan)),
    }
    Ok(())
}

/// Secrets of the job that is there and of the one that is wanted.
pub(crate) fn masks(rendered: &Rendered, live: &Value) -> Masks {
    let (before, after) = sources(rendered, live);
    Masks::of(&before, &after)
}

/// Returns the YAML that was submitted and the one at hand; empty where none is kept.
pub(crate) fn sources(rendered: &Rendered, live: &Value) -> (String, String) {
    let source = |body: &Value| {
        let found = body
            .pointer("/metadata/annotations")
            .and_then(|all| all.get(SOURCE))
            .and_then(Value::as_str);
        found.unwrap_or_default().to_owned()
    };
    let root = rendered.objects.last().expect("a document has an owner");
    (source(live), source(&root.body))
}

/// Returns what goes with a job that is replaced.
pub(crate) fn lost(job: &Job) -> String {
    let pods = job.current_pods().len() as u64;
    match (pods, job.gpus_held()) {
        (0, _) => "replacing it loses its events".to_owned(),
        (_, GpuCount::ZERO) => {
            format!(
                "replacing it ends {}: their logs, and what they have not saved, are lost",
                count(pods, "pod")
            )
        }
        (_, gpus) => format!(
            "replacing it ends {} on {}: their logs, and what they have not saved, are lost",
            count(pods, "pod"),
            count(gpus.0, "GPU")
        ),
    }
}

/// Warns where a claim names a class of devices that is not there: its pods never start.
async fn class_warning(plan: &Plan, connection: &Connection) -> Option<String> {
    let claim = plan.rendered.choice.claim.as_ref()?;
    let known = connection.has_device_class(&claim.api, &claim.class).await;
    (!known).then(|| {
        format!(
            "the nodes give out their GPUs by dynamic resource allocation, and there is no DeviceClass `{}`: pods wait until an administrator makes it",
            claim.class
        )
    })
}
