//! Turns what prevents a submission into errors that say what to do about it.

use crate::deploy::plan::Plan;
use gpuctl_cluster::{Blame, Broken, Effect, Effects, Failure, HalfChanged, Left, Obstacle, label};
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_manifest::render::Object;

/// Returns what was there before anything was written.
pub(crate) fn in_the_way(obstacle: Obstacle, plan: &Plan) -> Error {
    let namespace = &plan.target.namespace;
    match obstacle {
        Obstacle::Exists { kind, name, ours } => {
            let error = Error::new(
                ErrorName::AlreadyExists,
                format!("{kind} `{name}` already exists in namespace `{namespace}`"),
            );
            match ours {
                Some(_) => error.hint(
                    "`gpuctl apply` changes it, `apply --replace` submits it anew, \
                     `--generate-name` makes another",
                ),
                None => error.hint("it was not created by gpuctl; choose another `job.name`"),
            }
        }
        Obstacle::Terminating { label } => Error::new(
            ErrorName::Terminating,
            format!("{label} is still being deleted"),
        )
        .hint("try again in a moment"),
        Obstacle::Kept { label, difference } => {
            let job = plan.rendered.objects.last().map_or("", |root| root.name());
            let message =
                format!("{label} was kept from an earlier job of this name: {difference}");
            Error::new(ErrorName::ClaimConflict, message).hint(format!(
                "ask for what it is in `storage.workdirs`, or `gpuctl delete job \
                 {namespace}/{job} --purge` to lose its files"
            ))
        }
        Obstacle::NoPriorityClass => {
            let class = plan.rendered.probe.text("/spec/priorityClassName");
            Error::new(
                ErrorName::PriorityClassNotFound,
                format!("there is no priority class `{class}`"),
            )
            .hint(
                "`kubectl get priorityclasses` lists them; without `job.priority` the \
                 default class is used",
            )
        }
        Obstacle::PodQuota(failure) | Obstacle::Failure(failure) => refused(failure, namespace),
    }
}

/// The error for a program that differs from the one that the job was created with.
pub(crate) fn lost_companion(effects: &Effects, plan: &Plan) -> Option<Error> {
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
    .cause("another version of gpuctl created the job, and only that version has its program");
    Some(error.hint(format!(
        "`gpuctl apply` of that version repairs it; `gpuctl delete job {job}` and `create` \
         replace the job"
    )))
}

/// Returns the API server's refusal, with what to do about the usual ones.
fn refused(failure: Failure, namespace: &str) -> Error {
    // A quota's error has another wording.
    let message = failure.to_string();
    let no_secret =
        failure.is_forbidden() && message.starts_with("secrets ") && message.contains(" cannot ");
    let (lacks_namespace, error) = (failure.lacks_namespace(), Error::from(failure));
    if no_secret {
        return error
            .cause(
                "the ranks of a training that restart together share a token, which is in a \
                 Secret",
            )
            .hint(
                "ask for the right to create, get and patch secrets in this namespace, or write \
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

/// Returns what failed on the way, and what is left of it.
pub(crate) fn broken(broken: Broken) -> Error {
    let error =
        Error::from(broken.failure).during(format!("{} could not be created", broken.object));
    match broken.taken {
        true => error.cause("the objects created for it belong to that job"),
        false => with_left(error, &broken.left),
    }
}

/// Says what is there of a document that was not written whole.
pub(crate) fn with_left(error: Error, left: &Left) -> Error {
    let error = match left.there.is_empty() {
        true => error.cause("everything created before was removed again"),
        false => error.cause(format!("still there: {}", left.there.join(", "))),
    };
    match &left.doubtful {
        Some(object) => error
            .cause(format!(
                "may exist, the server did not confirm the write: {object}"
            ))
            .hint("run it again, or `gpuctl delete -f`"),
        None => error,
    }
}

/// Returns the error for an update that ended half way: nothing is undone, because the previous
/// state is gone.
pub(crate) fn half_changed(half: HalfChanged) -> Error {
    let error = Error::from(half.failure).during(format!("{} could not be changed", half.object));
    match half.written.is_empty() {
        true => error.cause("nothing was changed"),
        false => error
            .cause(format!("changed before that: {}", half.written.join(", ")))
            .hint("`gpuctl apply` again goes on"),
    }
}

/// Fields that others own and have other values in.
pub(crate) fn conflicting(effects: &Effects) -> Option<Error> {
    let of = |(object, effect): &(Object, Effect)| match effect {
        Effect::Conflict(fields) => blamed(object, fields),
        _ => Vec::new(),
    };
    let conflicts: Vec<String> = effects.objects.iter().flat_map(of).collect();
    (!conflicts.is_empty()).then(|| in_conflict(conflicts))
}

/// Returns the same of one object.
pub(crate) fn conflict(object: &Object, fields: &[Blame]) -> Error {
    in_conflict(blamed(object, fields))
}

fn blamed(object: &Object, fields: &[Blame]) -> Vec<String> {
    fields
        .iter()
        .map(|one| format!("{} {}: {}", label(object), one.field, one.message))
        .collect()
}

fn in_conflict(conflicts: Vec<String>) -> Error {
    let error = Error::new(
        ErrorName::FieldConflict,
        "another manager set these fields to other values",
    );
    let error = conflicts.into_iter().fold(error, Error::cause);
    error.hint("remove them from the file, or take them over with `--force-conflicts`")
}

/// Returns what an error says, for whoever submits all the same.
pub(crate) fn as_warning(error: &Error) -> String {
    match &error.problems {
        Some(problems) => problems
            .list
            .iter()
            .map(|problem| problem.message.clone())
            .collect::<Vec<_>>()
            .join("; "),
        None => error.to_string(),
    }
}

/// Makes one error of several: the first is the message, the others are its causes. `None` when
/// there is none.
pub(crate) fn combined(errors: Vec<Error>) -> Option<Error> {
    errors.into_iter().reduce(|mut error, other| {
        error.causes.push(as_warning(&other));
        error.hints.extend(
            other
                .hints
                .into_iter()
                .filter(|hint| !error.hints.contains(hint))
                .collect::<Vec<_>>(),
        );
        error
    })
}

/// Returns the error about a quota that is too small for a job even when nothing else uses it.
pub(crate) fn quota_too_small(message: String) -> Error {
    Error::new(
        ErrorName::reported(ErrorKind::Request, "QuotaTooSmall"),
        message,
    )
    .hint("ask for less, or submit it all the same with `--allow-pending`")
}
