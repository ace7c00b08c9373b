//! What stands in the way of a submission, in words that say what to do about it.

use crate::cluster::{Broken, Failure, Obstacle};
use crate::error::{Error, Kind};

use super::planning::Plan;

/// What was there before anything was written.
pub fn in_the_way(obstacle: Obstacle, plan: &Plan) -> Error {
    let namespace = &plan.target.namespace;
    match obstacle {
        Obstacle::Exists { kind, name, ours } => {
            let error =
                Error::new(Kind::Request, "AlreadyExists", format!("{kind} `{name}` exists already in namespace `{namespace}`"));
            match ours {
                Some(job) => error.hint(format!("`gpuctl delete job {namespace}/{job}` first, or submit with `--generate-name`")),
                None => error.hint("it was not made by gpuctl; choose another `job.name`"),
            }
        }
        Obstacle::Terminating { label } => {
            Error::new(Kind::Request, "Terminating", format!("{label} is still being deleted")).hint("try again in a moment")
        }
        Obstacle::Kept { label, difference } => {
            let job = plan.rendered.objects.last().map_or("", |root| root.name());
            let message = format!("{label} was kept from an earlier job of this name: {difference}");
            Error::new(Kind::Request, "ClaimConflict", message).hint(format!(
                "ask for what it is in `storage.workdirs`, or `gpuctl delete job {namespace}/{job} --purge` to lose its files"
            ))
        }
        Obstacle::NoPriorityClass => {
            Error::new(Kind::Request, "PriorityClassNotFound", "the priority class of `job.priority` does not exist")
        }
        Obstacle::Failure(failure) => refused(failure, namespace),
    }
}

/// The API server's refusal, with what to do about the usual ones.
fn refused(failure: Failure, namespace: &str) -> Error {
    let text = failure.to_string();
    let (code, error) = (failure.code(), Error::from(failure));
    if code == Some(404) && text.contains("namespaces") {
        return error.hint(format!("create the namespace `{namespace}`, or choose another with `-n`"));
    }
    error
}

/// What failed on the way, and what is left of it.
pub fn broken(broken: Broken) -> Error {
    let error = Error::from(broken.failure).during(format!("{} could not be created", broken.object));
    if broken.left.is_empty() {
        error.cause("everything made before it was removed again")
    } else {
        error.cause(format!("still there: {}", broken.left.join(", ")))
    }
}
