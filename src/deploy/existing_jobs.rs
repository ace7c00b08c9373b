//! Finds existing jobs of any kind with the names of a run's documents. A label selector covers
//! many names.

use std::collections::BTreeMap;

use crate::concurrent::OrderedConcurrent;
use crate::deploy::plan::Plan;
use gpuctl_cluster::{Connection, Failure, JobFilter, NAMES_AT_ONCE};
use gpuctl_core::model::Job;

/// Number of concurrent selectors. Each one requires a list of every owner kind.
const MAX_CONCURRENT: usize = 4;

/// Jobs that existed before the run, by namespace and name.
pub(crate) struct ExistingJobs(BTreeMap<String, Result<BTreeMap<String, Job>, Failure>>);

impl ExistingJobs {
    pub(crate) async fn read(
        connection: &Connection,
        plans: impl IntoIterator<Item = &Plan>,
    ) -> Self {
        let mut names = BTreeMap::<&str, Vec<String>>::new();
        for plan in plans {
            names
                .entry(&plan.target.namespace)
                .or_default()
                .push(plan.job_name().to_owned());
        }
        let selectors = names.iter().flat_map(|(namespace, names)| {
            let chunk = |names: &[String]| JobFilter {
                namespace: Some((*namespace).to_owned()),
                names: names.to_vec(),
                ..JobFilter::default()
            };
            names.chunks(NAMES_AT_ONCE).map(chunk).collect::<Vec<_>>()
        });
        let list = async |selector: JobFilter| {
            (
                connection.jobs().list(&selector).await,
                selector.namespace.unwrap_or_default(),
            )
        };
        let mut results = OrderedConcurrent::new(selectors.map(list), MAX_CONCURRENT);
        let mut by_namespace = BTreeMap::<String, Result<BTreeMap<String, Job>, Failure>>::new();
        while let Some((result, namespace)) = results.next().await {
            let existing = by_namespace
                .entry(namespace)
                .or_insert_with(|| Ok(BTreeMap::new()));
            match (result, &mut *existing) {
                (Ok(selection), Ok(existing)) => {
                    // On a dead node, the pods of a deleted job can remain forever, but its name
                    // can be used again.
                    let jobs = selection.jobs.into_iter().filter(|job| !job.owner_is_gone);
                    existing.extend(jobs.map(|job| (job.name.clone(), job)));
                }
                (Err(failure), Ok(_)) => *existing = Err(failure),
                (_, Err(_)) => {}
            }
        }
        Self(by_namespace)
    }

    /// Returns the existing job with this document's name. Fails if the jobs could not be listed,
    /// such as for lack of permission.
    pub(crate) fn get(&self, plan: &Plan) -> Result<Option<&Job>, Failure> {
        match self.0.get(&plan.target.namespace) {
            Some(Ok(jobs)) => Ok(jobs.get(plan.job_name())),
            Some(Err(failure)) => Err(failure.clone()),
            None => Ok(None),
        }
    }
}
