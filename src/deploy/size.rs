//! Finds the job whose number of pods `scale`, `pause`, `resume` and `restart` change.

use crate::lookup::{self, LookupPurpose};
use gpuctl_cluster::Connection;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::Job;

/// Finds the job. Fails if it is being deleted.
pub(crate) async fn changeable(connection: &Connection, name: &str) -> Result<Job, Error> {
    forbid_deleting(lookup::job(connection, name, LookupPurpose::Change).await?)
}

/// Fails if the job is being deleted.
pub(crate) fn forbid_deleting(job: Job) -> Result<Job, Error> {
    if job.deleting {
        return Err(Error::new(
            ErrorName::Terminating,
            format!("job `{}` is being deleted", job.name),
        ));
    }
    Ok(job)
}
