//! Checks a job against the limits and the allowed GPU types of its pool.

use std::rc::Rc;

use crate::deploy::once_per::OncePer;
use crate::deploy::plan::{Plan, job};
use gpuctl_cluster::{Connection, Failure, JobFilter, Selection};
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_core::model::{GpuCount, Job, PoolDefinition, State};
use gpuctl_manifest::render::pods_in_all;
use gpuctl_manifest::spec::{Document, JobDocument};

/// Jobs by pool, for pools that limit the number of jobs.
pub(super) type JobsOfPools = OncePer<Result<Rc<Selection>, Failure>>;

/// Fails if the pool does not accept the job. Returns warnings about rules that could not be
/// checked. `other_jobs` is the number of the run's other jobs in the pool.
pub(super) async fn check(
    connection: &Connection,
    plan: &Plan,
    pools: Option<&[PoolDefinition]>,
    other_jobs: usize,
    jobs_of_pools: &JobsOfPools,
) -> Result<Vec<String>, Error> {
    let Document::Job(job) = &plan.input.document else {
        return Ok(Vec::new());
    };
    let Some(pool) = &job.resources.pool else {
        return Ok(Vec::new());
    };
    let Some(pools) = pools else {
        return Ok(vec![format!(
            "you are not allowed to read the definition of pool `{}`: its quota was not checked",
            pool.value
        )]);
    };
    // An unknown pool has already been refused while rendering.
    let Some(definition) = pools.iter().find(|known| known.name == pool.value) else {
        return Ok(Vec::new());
    };
    let mut warnings = Vec::new();
    let jobs = if definition.max_jobs.is_some() {
        count_jobs(connection, &pool.value, plan, jobs_of_pools, &mut warnings)
            .await?
            .map_or(0, |others| others + other_jobs)
    } else {
        0
    };
    let gpus = GpuCount(job.resources.gpu.into()) * u64::from(pods_in_all(job));
    match definition.refuses(gpus, plan.rendered.choice.gpu_type.as_ref(), jobs) {
        Some(refusal) => Err(Error::new(
            ErrorName::reported(ErrorKind::Request, refusal.name),
            refusal.message,
        )
        .hint(refusal.hint)),
        None => Ok(warnings),
    }
}

/// Counts the pool's other jobs that have not ended. Returns `None` if the user is not allowed to
/// list jobs.
async fn count_jobs(
    connection: &Connection,
    pool: &str,
    plan: &Plan,
    jobs_of_pools: &JobsOfPools,
    warnings: &mut Vec<String>,
) -> Result<Option<usize>, Error> {
    let selector = JobFilter {
        pool: Some(pool.to_owned()),
        ..JobFilter::default()
    };
    let list = async || connection.jobs().list(&selector).await.map(Rc::new);
    let selection = match jobs_of_pools.get(pool, list).await {
        Err(failure) if failure.is_forbidden() => {
            warnings.push(format!(
                "you are not allowed to list jobs, so the number of jobs in pool `{pool}` was not checked"
            ));
            return Ok(None);
        }
        other => other?,
    };
    if let Some(unseen) = selection.unseen() {
        warnings.push(format!(
            "{unseen}: other jobs were not counted against the quota of pool `{pool}`"
        ));
    }
    // Do not count the existing job if the document changes it.
    let name = job(&plan.input).map(JobDocument::id);
    let is_this_job =
        |other: &Job| name == Some(other.name.as_str()) && other.namespace == plan.target.namespace;
    let is_counted =
        |other: &&Job| !other.owner_is_gone && !State::from_job(other).status.is_final();
    let others = selection.jobs.iter().filter(|other| !is_this_job(other));
    Ok(Some(others.filter(is_counted).count()))
}
