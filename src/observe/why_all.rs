//! Reads all jobs and workloads that may have a problem, for `why --all`.

use std::collections::BTreeSet;

use futures::future::join;

use crate::context::Context;
use gpuctl_cluster::{Connection, JobFilter, MAX_EXPLAINED, OtherPods, unless_forbidden};
use gpuctl_core::error::Error;
use gpuctl_core::model::facts::workload::{QUEUED, WorkloadState};
use gpuctl_core::model::{Container, GpuCount, Inventory, Job, State, Status, Workload};
use gpuctl_diagnosis::Subject;

/// Jobs and workloads with GPUs, and those of them that may have a problem.
pub(crate) struct Suspects {
    /// Those with the most GPUs come first.
    pub jobs: Vec<(Subject, Job)>,
    /// Number of gpuctl jobs.
    pub job_count: usize,
    /// Number of workloads with GPUs that gpuctl did not create, or `None` if the user cannot list
    /// pods.
    pub workload_count: Option<usize>,
    /// What is missing because of missing permissions.
    pub unseen: Vec<String>,
}

/// Reads the jobs and workloads of a namespace, or of all namespaces if it is `None`.
pub(crate) async fn suspects(
    context: &Context,
    connection: &Connection,
    namespace: Option<&str>,
) -> Result<Suspects, Error> {
    let filter = JobFilter {
        namespace: namespace.map(ToOwned::to_owned),
        ..JobFilter::default()
    };
    let (jobs, workloads) = (connection.jobs(), connection.workloads());
    let (selection, owners) = join(
        jobs.list(&filter),
        workloads.owners(namespace, OtherPods::Named),
    )
    .await;
    let selection = selection?;
    let mut unseen: Vec<String> = selection.unseen().into_iter().collect();
    let uids: BTreeSet<&str> = selection.jobs.iter().map(|job| job.uid.as_str()).collect();
    let (mut others, mut workload_count) = (Vec::new(), None);
    match unless_forbidden(owners)? {
        None => unseen.push(
            "you are not allowed to list pods: workloads that gpuctl did not create were not \
             checked"
                .to_owned(),
        ),
        Some(owners) => {
            let mut foreign = owners.forest.workloads(&Inventory::default());
            foreign.retain(|workload| !uids.contains(workload.top.uid.as_str()));
            workload_count = Some(foreign.len());
            unseen.extend(owners.narrowed_to.map(|namespace| {
                format!(
                    "you are not allowed to list pods in all namespaces: other workloads were \
                     checked only in `{namespace}`"
                )
            }));
            foreign.retain(|workload| {
                workload.state != WorkloadState::Completed && !is_resting(workload)
            });
            let read = jobs.workloads_as_jobs(namespace, &foreign).await?;
            others = foreign.iter().map(subject_of).zip(read).collect();
        }
    }
    let job_count = selection.jobs.len();
    let mut managed: Vec<Job> = selection.jobs;
    managed.retain(may_have_problem);
    // The list explains only the first waiting jobs.
    if managed.len() > MAX_EXPLAINED {
        jobs.explain_all(&mut managed).await;
    }
    let managed = managed.into_iter().map(|job| {
        let subject = Subject {
            kind: job.kind.word().to_owned(),
            is_managed: true,
        };
        (subject, job)
    });
    let mut jobs: Vec<(Subject, Job)> = managed.chain(others).collect();
    jobs.retain(|(_, job)| may_have_problem(job));
    // The sort is stable, so jobs of the same size stay in the order of their names.
    jobs.sort_by_key(|(_, job)| std::cmp::Reverse(job.gpus()));
    for text in &unseen {
        context.terminal.warn_missing_permission(text);
    }
    Ok(Suspects {
        jobs,
        job_count,
        workload_count,
        unseen,
    })
}

/// Returns true if somebody suspended the workload or scaled it to zero, which is no problem.
fn is_resting(workload: &Workload) -> bool {
    workload.pods.is_empty() && workload.top.resting.is_some_and(|reason| reason != QUEUED)
}

fn subject_of(workload: &Workload) -> Subject {
    Subject {
        kind: workload.top.kind.to_ascii_lowercase(),
        is_managed: false,
    }
}

/// Returns true if a job may have a problem. False for jobs that have finished or are paused, and
/// for those that run steadily without GPUs, which nothing measures.
fn may_have_problem(job: &Job) -> bool {
    let state = State::from_job(job);
    let is_steady =
        |container: &Container| container.running && container.restarts == 0 && !container.is_init;
    let is_unsteady = job
        .pods
        .iter()
        .filter(|pod| !pod.ended())
        .any(|pod| !pod.ready || pod.deleting || !pod.containers.iter().all(is_steady));
    match state.status {
        Status::Succeeded | Status::Paused => false,
        Status::Running => {
            state.reason.is_some() || is_unsteady || job.gpus_held() > GpuCount::ZERO
        }
        _ => true,
    }
}
