//! Converts the reasons for a failed submission into errors with a hint.

use crate::deploy::plan::Plan;
use gpuctl_cluster::{
    Blame, Effect, Effects, Failure, Leftovers, Obstacle, PartialChange, PartialSubmission, label,
};
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_core::model::{Job, State};
use gpuctl_manifest::render::Object;

/// Builds the error for an object that already exists, or that the API server rejected.
pub(crate) fn obstacle_error(obstacle: Obstacle, plan: &Plan) -> Error {
    let namespace = &plan.target.namespace;
    match obstacle {
        Obstacle::Exists {
            kind,
            name,
            job: own_uid,
        } => {
            let error = Error::new(
                ErrorName::AlreadyExists,
                format!("{kind} `{name}` already exists in namespace `{namespace}`"),
            );
            match own_uid {
                Some(job) => error.hint(format!(
                    "use `gpuctl apply` to update it, `gpuctl restart {namespace}/{job}` to run it \
                     again, or `--generate-name` to create another"
                )),
                None => error.hint("it was not created by gpuctl; choose another `job.name`"),
            }
        }
        Obstacle::Terminating { label } => Error::new(
            ErrorName::Terminating,
            format!("{label} is still being deleted"),
        )
        .hint("try again in a moment"),
        Obstacle::KeptClaim { label, difference } => {
            let message =
                format!("{label} was kept from an earlier job with this name: {difference}");
            Error::new(ErrorName::ClaimConflict, message).hint(
                "change `storage.workdirs` to match it, or choose another `job.name` for a new \
                 claim",
            )
        }
        Obstacle::NoPriorityClass => {
            let class = plan.rendered.probe.text("/spec/priorityClassName");
            Error::new(
                ErrorName::PriorityClassNotFound,
                format!("priority class `{class}` does not exist"),
            )
            .hint(
                "`kubectl get priorityclasses` lists them; without `job.priority` the \
                 default class is used",
            )
        }
        Obstacle::PodQuota(failure) | Obstacle::Failure(failure) => {
            rejection_error(failure, namespace)
        }
    }
}

/// Builds the error for a job that another version of gpuctl created with a different supervisor.
pub(crate) fn supervisor_error(effects: &Effects, plan: &Plan) -> Option<Error> {
    let message = effects.lost.first()?;
    let job = format!(
        "{}/{}",
        plan.target.namespace,
        plan.rendered.objects.last()?.name()
    );
    let error = Error::new(
        ErrorName::reported(ErrorKind::Request, "SupervisorChanged"),
        message,
    )
    .cause(
        "another version of gpuctl created the job, and only that version includes its supervisor",
    );
    Some(error.hint(format!(
        "run `gpuctl apply` of that version to repair it, or replace the job with `gpuctl delete \
         job {job}` and `gpuctl create`"
    )))
}

/// Builds the error for a request that the API server rejected, with hints for common reasons.
fn rejection_error(failure: Failure, namespace: &str) -> Error {
    // A missing right has this text, unlike an exceeded quota, which is also a 403.
    let message = failure.to_string();
    let no_secret =
        failure.is_forbidden() && message.starts_with("secrets ") && message.contains(" cannot ");
    let (lacks_namespace, error) = (failure.lacks_namespace(), Error::from(failure));
    if no_secret {
        return error
            .cause("ranks that restart together share a token, which is stored in a Secret")
            .hint(
                "ask for permission to create, get and patch secrets in this namespace, or set \
                 `job.restart: rank`",
            );
    }
    if lacks_namespace {
        return error.hint(format!(
            "create the namespace `{namespace}`, or choose another with `-n`"
        ));
    }
    error
}

/// Builds the error for a submission that failed midway. Names the objects that still exist.
pub(crate) fn submit_error(failed_submission: PartialSubmission) -> Error {
    let error = Error::from(failed_submission.failure)
        .during(format!("{} could not be created", failed_submission.object));
    match failed_submission.taken {
        true => error.note("the objects created so far now belong to that job"),
        false => with_leftovers(error, &failed_submission.left),
    }
}

/// Adds notes about the objects of a partly written document that still exist.
pub(crate) fn with_leftovers(error: Error, leftovers: &Leftovers) -> Error {
    let error = match leftovers.existing.is_empty() {
        true => error.note("everything created so far was removed"),
        false => error.note(format!("not removed: {}", leftovers.existing.join(", "))),
    };
    match &leftovers.unconfirmed {
        Some(object) => error
            .note(format!(
                "may exist, because the server did not confirm the write: {object}"
            ))
            .hint("run the command again"),
        None => error,
    }
}

/// Builds the error for an update that failed midway. Updates are not rolled back, because the
/// previous state is no longer known.
pub(crate) fn update_error(partial_update: PartialChange) -> Error {
    let error = Error::from(partial_update.failure)
        .during(format!("{} could not be changed", partial_update.object));
    match partial_update.written.is_empty() {
        true => error.note("nothing was changed"),
        false => error
            .note(format!(
                "already changed: {}",
                partial_update.written.join(", ")
            ))
            .hint("run `gpuctl apply` again to continue"),
    }
}

/// Builds the error for fields that other managers own and have set to different values.
pub(crate) fn conflict_error(effects: &Effects) -> Option<Error> {
    let object_conflicts = |(object, effect): &(Object, Effect)| match effect {
        Effect::Conflict(fields) => conflict_lines(object, fields),
        _ => Vec::new(),
    };
    let conflicts: Vec<String> = effects.objects.iter().flat_map(object_conflicts).collect();
    (!conflicts.is_empty()).then(|| field_conflict_error(conflicts))
}

/// Like `conflict_error`, but for one object.
pub(crate) fn conflict(object: &Object, fields: &[Blame]) -> Error {
    field_conflict_error(conflict_lines(object, fields))
}

fn conflict_lines(object: &Object, fields: &[Blame]) -> Vec<String> {
    fields
        .iter()
        .map(|blame| format!("{} {}: {}", label(object), blame.field, blame.message))
        .collect()
}

fn field_conflict_error(conflicts: Vec<String>) -> Error {
    let error = Error::new(
        ErrorName::FieldConflict,
        "another manager set these fields to different values",
    );
    let error = conflicts.into_iter().fold(error, Error::cause);
    error.hint("remove them from the file, or take them over with `--force-conflicts`")
}

/// Builds the error for a job that has ended and therefore cannot be changed.
pub(crate) fn ended_error(job: &Job) -> Error {
    let status = State::from_job(job).status;
    let message = format!("job `{}` has already ended: {status}", job.name);
    Error::new(ErrorName::JobEnded, message).hint(format!(
        "use `gpuctl restart {}/{}` to run it again as submitted, or `gpuctl apply -f FILE \
         --replace` to run the current file",
        job.namespace, job.name
    ))
}

/// Builds the error for a quota that is smaller than the job alone.
pub(crate) fn quota_too_small(message: String) -> Error {
    Error::new(
        ErrorName::reported(ErrorKind::Request, "QuotaTooSmall"),
        message,
    )
    .hint("request less, or submit the job anyway with `--allow-pending`")
}
