//! Decides how applying a document affects the existing job of the same name.

use serde_json::Value;

use crate::deploy::comparison::{Comparison, check_verdict, compare_adopted, masks};
use crate::deploy::errors::{conflict_error, ended_error, supervisor_error};
use crate::deploy::plan::Plan;
use gpuctl_cluster::{Connection, Effect, Effects, SITE_DEFAULTS_WAIT};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::values::text::count;
use gpuctl_core::model::{GpuCount, Job, JobKind, State};
use gpuctl_manifest::compare::{Masks, requested_changes};
use gpuctl_manifest::render::{Object, files_name};

/// How a run handles a document.
#[derive(Debug)]
pub(crate) enum Action {
    Create,
    Change(Effects),
    Nothing,
    /// Deletes the existing job, then creates the new one.
    Replace(Box<Job>),
    /// The run first creates the namespace, and then decides again.
    Later,
}

/// How `apply` treats an existing job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ApplyOptions {
    /// Whether to take over fields that other managers own.
    pub force: bool,
    /// Whether to delete and resubmit a job if its pods cannot be changed.
    pub replace: bool,
    pub dry_run: bool,
}

/// Decides what applying a document does to the job, and returns the job's live owner. Returns
/// `None` if the job does not exist.
pub(crate) async fn reapply(
    plan: &mut Plan,
    job: Option<Job>,
    options: ApplyOptions,
    warnings: &mut Vec<String>,
    connection: &Connection,
) -> Result<Option<(Action, Value)>, Error> {
    let Some(job) = job else { return Ok(None) };
    let status = State::from_job(&job).status;
    plan.existing_status = Some(status);
    if job.deleting {
        return Err(Error::new(
            ErrorName::Terminating,
            format!("job `{}` is still being deleted", job.name),
        )
        .hint("try again in a moment"));
    }
    // The job exists, but its owner is of another kind than the document's.
    let Some(live) = connection.writes().live_owner(&plan.rendered).await? else {
        if !options.replace {
            return Err(kind_conflict(plan, &job));
        }
        // An owner of another kind is a new object, so the API server has to check it and its pods.
        let verdict = connection
            .writes()
            .judge_pod(&plan.rendered, options.dry_run)
            .await;
        check_verdict(verdict, plan, warnings)?;
        check_verdict(
            connection.writes().judge_all(&plan.rendered).await,
            plan,
            warnings,
        )?;
        return Ok(Some((Action::Replace(Box::new(job)), Value::Null)));
    };
    let comparison = Comparison {
        force: options.force,
        renew: options.replace,
        dry_run: options.dry_run,
    };
    let effects = compare_adopted(plan, &live, comparison, warnings, connection).await?;
    report_waiting(&effects, &job, plan, warnings);
    let masks = masks(&plan.rendered, &live);
    if let Some(error) = conflict_error(&effects) {
        return Err(error);
    }
    let fixed_fields: Vec<FixedFields> = effects.objects.iter().filter_map(fixed_fields).collect();
    // A kept claim contains data, so not even `--replace` deletes it.
    if let Some(claim) = fixed_fields.iter().find(|field| field.object.kept) {
        return Err(claim_conflict(claim, &masks));
    }
    let keeps_files = keeps_files(&effects, plan, &job, connection).await?;
    if options.replace && (status.is_final() || keeps_files) {
        return Ok(Some((
            replacement(job, plan, warnings, connection).await?,
            live,
        )));
    }
    if status.is_final() {
        return Err(ended_error(&job));
    }
    if keeps_files {
        plan.old_files = Some(format!(
            "the pods of `{}` keep the old files until they restart: gpuctl restart {}/{}",
            job.name, job.namespace, job.name
        ));
    }
    if fixed_fields.is_empty() || effects.same_source {
        if let Some(error) = supervisor_error(&effects, plan) {
            return Err(error);
        }
        return Ok(Some((action_in_place(effects), live)));
    }
    if options.replace {
        return Ok(Some((
            replacement(job, plan, warnings, connection).await?,
            live,
        )));
    }
    Err(immutable_error(&job, &fixed_fields, &masks))
}

/// Replaces the job if the API server would accept the new owner.
async fn replacement(
    job: Job,
    plan: &mut Plan,
    warnings: &mut Vec<String>,
    connection: &Connection,
) -> Result<Action, Error> {
    let verdict = connection.writes().judge_owner(&plan.rendered).await;
    check_verdict(verdict, plan, warnings)?;
    Ok(Action::Replace(Box::new(job)))
}

/// Returns true if the content of `files:` differs, which pods mount from a ConfigMap. Ignores the
/// ConfigMap of the supervisor, whose content depends on gpuctl's version.
fn changes_files(effects: &Effects, job: &str) -> bool {
    let files = files_name(job);
    effects.objects.iter().any(|(object, effect)| {
        object.kind() == "ConfigMap"
            && object.name() == files
            && matches!(effect, Effect::Changed { .. } | Effect::Created)
    })
}

/// Returns true if the API server will replace the pods anyway, because their template changes.
fn restarts_pods(effects: &Effects) -> bool {
    effects.objects.iter().any(|(_, effect)| {
        matches!(effect, Effect::Changed { live, desired }
            if live.pointer("/spec/template") != desired.pointer("/spec/template"))
    })
}

/// Returns true if running pods have other files than the document, because this run or an earlier
/// one changes them. Pods mount them by `subPath`, which the kubelet does not update.
async fn keeps_files(
    effects: &Effects,
    plan: &Plan,
    job: &Job,
    connection: &Connection,
) -> Result<bool, Error> {
    // A pod without a node has not mounted its files yet.
    let mut running = job.current_pods();
    running.retain(|pod| pod.node.is_some() && !pod.ended());
    if running.is_empty() || restarts_pods(effects) {
        return Ok(false);
    }
    if changes_files(effects, plan.job_name()) {
        return Ok(true);
    }
    let changed_at = connection.writes().files_changed_at(&plan.rendered).await?;
    // Both times are whole seconds. A pod of the same second may have either content.
    Ok(changed_at.is_some_and(|at| running.iter().any(|pod| pod.created_at <= Some(at))))
}

/// An object with changes to immutable fields.
struct FixedFields<'e> {
    object: &'e Object,
    live: &'e Value,
    desired: &'e Value,
}

fn fixed_fields((object, effect): &(Object, Effect)) -> Option<FixedFields<'_>> {
    match effect {
        Effect::Immutable { live, desired } => Some(FixedFields {
            object,
            live,
            desired,
        }),
        _ => None,
    }
}

/// Decides whether a job that is not replaced must be changed. Differences in immutable fields
/// alone do not count, because they may only result from changes to the nodes since the submission.
fn action_in_place(effects: Effects) -> Action {
    let is_unchanged =
        |(_, effect): &(_, Effect)| matches!(effect, Effect::Unchanged | Effect::Immutable { .. });
    if effects.stale.is_empty() && effects.objects.iter().all(is_unchanged) {
        Action::Nothing
    } else {
        Action::Change(effects)
    }
}

/// Reports updates that a running job gets only with its next change.
fn report_waiting(effects: &Effects, job: &Job, plan: &mut Plan, warnings: &mut Vec<String>) {
    // The pods of a training are immutable, so no later change can bring these updates.
    if effects.waiting.is_empty() || job.kind == JobKind::Training {
        return;
    }
    let message = format!(
        "`{}` is unchanged: {} apply with the next change to its file, or with `--replace`",
        job.name,
        effects.waiting.join(" and ")
    );
    if effects.waiting == [SITE_DEFAULTS_WAIT] {
        plan.notes.push(message);
    } else {
        warnings.push(message);
    }
}

/// Builds the error for a job whose owner is of another kind than the document's.
fn kind_conflict(plan: &Plan, job: &Job) -> Error {
    let kind = plan.input.document.kind();
    let message = if job.kind.word() == kind {
        let nodes = count(job.group_size.max(1).into(), "node");
        format!(
            "`{}` exists with {nodes} per replica, but this {kind} requests a different number",
            job.name
        )
    } else {
        format!(
            "`{}` exists with kind {}, but the file declares kind {kind}",
            job.name,
            job.kind.word()
        )
    };
    let error = Error::new(ErrorName::KindConflict, message);
    error.note(replacement_loss(job)).hint(format!(
        "choose another `job.name`, or use `--replace` to delete {}/{} first",
        job.namespace, job.name
    ))
}

/// Builds the error for a volume claim with changes to immutable fields.
fn claim_conflict(claim: &FixedFields<'_>, masks: &Masks) -> Error {
    let message = format!(
        "claim `{}` cannot be changed: this field is immutable or cannot shrink",
        claim.object.name()
    );
    Error::new(ErrorName::ClaimConflict, message)
        .cause(requested_changes(claim.live, claim.desired, masks).join("; "))
        .hint("keep its current value, or choose another `job.name` for a new claim")
}

/// Builds the error for a job whose pods cannot be changed.
fn immutable_error(job: &Job, fixed_fields: &[FixedFields<'_>], masks: &Masks) -> Error {
    let differences = fixed_fields
        .iter()
        .flat_map(|field| requested_changes(field.live, field.desired, masks));
    let state = if State::from_job(job).status.is_final() {
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
    let alternative = if job.suspended {
        ""
    } else {
        "; while it is paused, its resources can also be changed in place"
    };
    error.note(replacement_loss(job)).hint(format!(
        "use `--replace` to delete and resubmit it{alternative}"
    ))
}

/// Describes what a replacement of the job would lose.
pub(crate) fn replacement_loss(job: &Job) -> String {
    let pods = job.current_pods().len() as u64;
    match (pods, job.gpus_held()) {
        (0, _) => "replacing it loses its events".to_owned(),
        (_, GpuCount::ZERO) => {
            format!(
                "replacing it stops {}; logs and unsaved data are lost",
                count(pods, "pod")
            )
        }
        (_, gpus) => format!(
            "replacing it stops {} on {}; logs and unsaved data are lost",
            count(pods, "pod"),
            count(gpus.0, "GPU")
        ),
    }
}
