//! Finds the jobs that have the names of a run's documents, of any kind, by one selector for many names. It does not know
//! what a document is to do about its namesake.

use std::collections::BTreeMap;

use futures::future::join_all;

use crate::cluster::{Connection, Failure};
use crate::deploy::plan::Plan;
use crate::model::Job;

/// Jobs that were there before the run, by namespace and name.
pub(crate) struct Namesakes(BTreeMap<String, Result<BTreeMap<String, Job>, Failure>>);

impl Namesakes {
    /// Asks the cluster.
    pub(crate) async fn of(connection: &Connection, plans: impl IntoIterator<Item = &Plan>) -> Self {
        let mut names = BTreeMap::<String, Vec<String>>::new();
        for plan in plans {
            names.entry(plan.target.namespace.clone()).or_default().push(plan.job_name().to_owned());
        }
        let asked = names.into_iter().map(|(namespace, names)| async move {
            let found = connection.jobs_called(&namespace, &names).await;
            // Pods that a deleted job has left, on a dead node for ever, take no name.
            let there =
                |jobs: Vec<Job>| jobs.into_iter().filter(|job| !job.owner_is_gone).map(|job| (job.name.clone(), job)).collect();
            (namespace, found.map(there))
        });
        Self(join_all(asked).await.into_iter().collect())
    }

    /// Returns the job that has the name of this document's. Fails where jobs may not be listed, or could not be.
    pub(crate) fn get(&self, plan: &Plan) -> Result<Option<&Job>, Failure> {
        match self.0.get(&plan.target.namespace) {
            Some(Ok(jobs)) => Ok(jobs.get(plan.job_name())),
            Some(Err(failure)) => Err(failure.clone()),
            None => Ok(None),
        }
    }
}
