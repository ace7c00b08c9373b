//! Deletes a job by UID, and waits until its pods have ended and no longer hold GPUs.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::deploy::events::{DeployEvent, Reporter, WaitingLine};
use crate::deploy::release::release;
use crate::lookup::{self, LookupPurpose};
use gpuctl_cluster::{
    Connection, Deletion, DryRun, JobFilter, OutageRetry, OwnedObject, PendingDeletion,
};
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_core::model::Job;
use gpuctl_core::model::contract::deletion::Deleted;
use gpuctl_core::model::counting::release::Release;
use gpuctl_core::model::values::text::count;

/// Options for the deletion of a job.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    /// Whether to end the containers without their grace period.
    pub force: bool,
    /// Whether to delete the claims that `size:` created, with their data.
    pub purge: bool,
    /// Whether to ask for confirmation before deleting data.
    pub ask: bool,
    /// Whether to return before the pods have ended.
    pub no_wait: bool,
    /// Whether to succeed if the job does not exist.
    pub ignore_not_found: bool,
    /// Maximum time to wait for the pods.
    pub timeout: Duration,
    /// UID of the job that the user saw. A newer job with the same name is not deleted.
    pub only_uid: Option<String>,
    /// Whether to report only what would be deleted.
    pub dry_run: Option<DryRun>,
}

/// Deletes a job and waits until its pods have ended, so that a new job can take its name. Keeps
/// the job's claims.
pub(crate) async fn delete_and_wait(
    connection: &Connection,
    job: &Job,
    timeout: Duration,
    reporter: &dyn Reporter,
) -> Result<(), Error> {
    let options = DeleteOptions {
        ignore_not_found: true,
        timeout,
        ..DeleteOptions::default()
    };
    let start = Instant::now();
    let name = format!("{}/{}", job.namespace, job.name);
    // Another user may have replaced the job since the decision. Do not delete the newer one.
    if lookup::job(connection, &name, LookupPurpose::Change)
        .await
        .is_ok_and(|current_job| current_job.uid != job.uid)
    {
        let message = format!("another user has replaced job `{}`", job.name);
        return Err(Error::new(ErrorName::AlreadyExists, message));
    }
    if let Some(deletion) = begin(connection, &name, &options, reporter).await? {
        end(connection, &deletion, start, &options, reporter).await?;
    }
    Ok(())
}

/// A deletion that has started.
pub(crate) struct StartedDeletion {
    pub name: String,
    namespace: String,
    /// The deleted job, or `None` if there were only leftovers.
    job: Option<Job>,
    /// Claims that still exist, with their sizes.
    kept: Vec<String>,
    /// Claims that were deleted with their data.
    purged: Vec<String>,
}

/// Starts the deletion. Returns `None` if nothing exists and `ignore_not_found` is set. Deletes
/// data only if a user at a terminal confirms this.
pub(crate) async fn begin(
    connection: &Connection,
    name: &str,
    options: &DeleteOptions,
    reporter: &dyn Reporter,
) -> Result<Option<StartedDeletion>, Error> {
    let job = match lookup::find(connection, name, LookupPurpose::Change).await {
        Ok(Some(job)) if options.only_uid.as_ref().is_some_and(|uid| *uid != job.uid) => {
            return Err(replaced_error(&job));
        }
        Ok(Some(job)) => job,
        // The caller means the job with this UID, so do not delete leftovers of other jobs.
        Ok(None) if options.only_uid.is_some() => {
            return Err(lookup::missing(connection, name, LookupPurpose::Change).await?);
        }
        Err(error) if options.only_uid.is_some() => return Err(error),
        Ok(None) => return delete_leftovers(connection, name, None, options, reporter).await,
        Err(error) if error.kind == ErrorKind::NotFound => {
            return delete_leftovers(connection, name, Some(error), options, reporter).await;
        }
        Err(error) => return Err(error),
    };
    let owned_objects = connection
        .jobs()
        .deletable(&job.namespace, &job.name)
        .await?;
    confirm(&job.name, &owned_objects, options, reporter)?;
    connection.jobs().delete_owner(&job).await?;
    let (kept, purged) = delete_owned_objects(connection, &owned_objects, options).await?;
    if options.force {
        // First delete ReplicaSets, which would replace the deleted pods.
        if job.kind.is_replicated() {
            connection.jobs().delete_replica_sets(&job).await?;
        }
        for pod in connection
            .jobs()
            .remains(&job)
            .await?
            .iter()
            .filter(|pending| pending.label.starts_with("pod/"))
        {
            connection
                .writes()
                .delete_at(
                    &pod.path,
                    Deletion {
                        uid: Some(&pod.uid),
                        force: true,
                        version: None,
                    },
                )
                .await?;
        }
    }
    Ok(Some(StartedDeletion {
        name: job.name.clone(),
        namespace: job.namespace.clone(),
        job: Some(job),
        kept,
        purged,
    }))
}

/// Builds the error for a job that was replaced by a newer one after the user saw it.
fn replaced_error(job: &Job) -> Error {
    let message = format!(
        "job `{}` in namespace `{}` is not the job that was shown: it was created later",
        job.name, job.namespace
    );
    Error::new(ErrorName::NotFound, message).hint("check it again before you delete it")
}

/// Asks for confirmation before data is deleted, if the user can answer.
fn confirm(
    job: &str,
    owned_objects: &[OwnedObject],
    options: &DeleteOptions,
    reporter: &dyn Reporter,
) -> Result<(), Error> {
    let claims: Vec<String> = owned_objects
        .iter()
        .filter(|object| object.kept)
        .map(OwnedObject::sized)
        .collect();
    if claims.is_empty() || !options.ask {
        return Ok(());
    }
    let question = format!(
        "permanently delete the data of job `{job}`: {}?",
        claims.join(", ")
    );
    match reporter.confirm(&question) {
        true => Ok(()),
        false => Err(Error::new(ErrorName::NotConfirmed, "nothing was deleted")
            .hint("remove `--purge` to keep the data")),
    }
}

/// Deletes the objects of a job. Returns the claims that still exist and the deleted ones.
async fn delete_owned_objects(
    connection: &Connection,
    owned_objects: &[OwnedObject],
    options: &DeleteOptions,
) -> Result<(Vec<String>, Vec<String>), Error> {
    let (mut kept, mut purged) = (Vec::new(), Vec::new());
    for owned_object in owned_objects {
        if owned_object.kept && !options.purge {
            kept.push(owned_object.sized());
        } else if connection.jobs().delete_belonging(owned_object).await? && owned_object.kept {
            purged.push(owned_object.sized());
        }
    }
    Ok((kept, purged))
}

/// Reports the deleted claims, and the remaining ones with the command that deletes them.
pub(crate) fn report_claims(deletion: &StartedDeletion, reporter: &dyn Reporter) {
    let StartedDeletion { kept, purged, .. } = deletion;
    if !kept.is_empty() {
        let message = format!(
            "kept with its data: {}; only `--purge` deletes it",
            kept.join(", ")
        );
        reporter.report(DeployEvent::Announcement(&message));
    }
    if !purged.is_empty() {
        reporter.report(DeployEvent::Announcement(&format!(
            "deleted with its data: {}",
            purged.join(", ")
        )));
    }
}

/// Deletes what an interrupted `create` left behind under a name that no job has. Refuses objects
/// that gpuctl did not create. `lookup_error` is the error of the lookup for the job.
async fn delete_leftovers(
    connection: &Connection,
    text: &str,
    lookup_error: Option<Error>,
    options: &DeleteOptions,
    reporter: &dyn Reporter,
) -> Result<Option<StartedDeletion>, Error> {
    let (namespace, name) = lookup::split(text)?;
    let namespace = namespace.unwrap_or(&connection.namespace);
    if let Some(kind) = connection.jobs().foreign(namespace, name).await? {
        let message =
            format!("{kind} `{name}` in namespace `{namespace}` was not created by gpuctl");
        return Err(Error::new(ErrorName::NotOurs, message)
            .hint(format!("kubectl delete {kind} {name} -n {namespace}")));
    }
    let owned_objects = connection.jobs().deletable(namespace, name).await?;
    confirm(name, &owned_objects, options, reporter)?;
    let (kept, purged) = delete_owned_objects(connection, &owned_objects, options).await?;
    let mut removed = owned_objects.len() > kept.len();
    // Pods can outlive their job if its deletion orphaned them, or if gpuctl did not wait for their
    // end.
    let orphaned_job = connection
        .jobs()
        .list(&JobFilter::by_name(namespace, name))
        .await?
        .jobs
        .into_iter()
        .find(|job| job.owner_is_gone);
    for (path, uid) in connection.jobs().orphans(namespace, name).await? {
        removed |= connection
            .writes()
            .delete_at(
                &path,
                Deletion {
                    uid: Some(&uid),
                    force: options.force,
                    version: None,
                },
            )
            .await?;
    }
    if orphaned_job.is_some() || removed {
        return Ok(Some(StartedDeletion {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            job: orphaned_job,
            kept,
            purged,
        }));
    }
    if options.ignore_not_found {
        return Ok(None);
    }
    let error = match lookup_error {
        Some(error) => error,
        None => lookup::missing(connection, text, LookupPurpose::Change).await?,
    };
    match kept.is_empty() {
        true => Err(error),
        false => Err(error
            .note(format!(
                "kept from a deleted job with this name: {}",
                kept.join(", ")
            ))
            .hint("only `--purge` deletes claims and their data")),
    }
}

/// Waits until all pods of the job have ended, and shows progress.
pub(crate) async fn end(
    connection: &Connection,
    deletion: &StartedDeletion,
    start: Instant,
    options: &DeleteOptions,
    reporter: &dyn Reporter,
) -> Result<Deleted, Error> {
    let answer = |status, message: String| Deleted {
        job_id: Some(deletion.name.clone()),
        namespace: Some(deletion.namespace.clone()),
        kept: deletion.kept.clone(),
        purged: deletion.purged.clone(),
        dry_run: options.dry_run.map(DryRun::word),
        ..Deleted::new(status, message)
    };
    let Some(job) = &deletion.job else {
        return Ok(answer(
            "deleted",
            "its remaining objects were deleted".to_owned(),
        ));
    };
    if options.dry_run.is_some() {
        let forecast = Release::predict(&job.pods).forecast(("would be", "would be"));
        let forecast = match forecast.is_empty() {
            true => "no GPUs would be freed".to_owned(),
            false => forecast,
        };
        return Ok(answer("deleted", forecast));
    }
    if options.no_wait {
        return Ok(answer("terminating", "its pods are terminating".to_owned()));
    }
    // Wait only for objects of the first listing, because a new job with the same name may create
    // others.
    let mut uids: Option<BTreeSet<String>> = None;
    // Wait through short outages of the API server.
    let retry = OutageRetry::new(|failure| reporter.warn(&format!("{failure}; retrying")));
    let line = WaitingLine::begin(reporter);
    let mut notifications = connection.watch_job(&job.namespace, &job.name);
    loop {
        let mut remaining = retry.ask(|| connection.jobs().remains(job)).await?;
        let uids =
            uids.get_or_insert_with(|| remaining.iter().map(|object| object.uid.clone()).collect());
        remaining.retain(|object| uids.contains(&object.uid));
        if remaining.is_empty() {
            drop(line);
            let release = release(connection, job, options.force).await;
            let warnings = release.warnings(&job.name);
            warnings.iter().for_each(|warning| reporter.warn(warning));
            return Ok(Deleted {
                unconfirmed: release.unconfirmed.clone(),
                ..answer("deleted", release.message())
            });
        }
        let objects = count(remaining.len() as u64, "object");
        line.show(&format!("{}: {objects} ending", job.name));
        if start.elapsed() >= options.timeout {
            drop(line);
            let message = format!(
                "job `{}` still exists after {} s",
                job.name,
                start.elapsed().as_secs()
            );
            let error = Error::new(ErrorName::Timeout, message).cause(labels(&remaining));
            // An unreachable admission webhook blocks all changes to an object, including its
            // deletion.
            let blocking_webhook = connection.writes().blocked_by(&remaining[0].path).await;
            if let Some(webhook) = blocking_webhook {
                return Err(error.cause(webhook).hint(
                    "it is deleted once the webhook responds again; contact the cluster administrator",
                ));
            }
            return Err(error.hint(format!(
                "gpuctl delete job {}/{} --force",
                job.namespace, job.name
            )));
        }
        notifications.changed(Some(start + options.timeout)).await;
    }
}

fn labels(pending_deletions: &[PendingDeletion]) -> String {
    pending_deletions
        .iter()
        .map(|object| object.label.as_str())
        .collect::<Vec<_>>()
        .join("; ")
}
