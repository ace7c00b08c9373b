//! Selects jobs by the arguments of `get jobs`.

use std::cmp::Ordering;

use crate::cli::jobs::get::{GetJobs, JobSortKey};
use crate::context::Context;
use crate::lookup::{self, LookupPurpose};
use crate::observe::past_jobs;
use crate::selection;
use gpuctl_cluster::{Connection, JobFilter, Selection};
use gpuctl_core::error::Error;
use gpuctl_core::model::values::natural;
use gpuctl_core::model::{Job, JobKind, State, Status};

/// Converts the arguments to a filter for the API server.
pub(super) async fn job_selector(
    args: &GetJobs,
    connection: &Connection,
) -> Result<JobFilter, Error> {
    let user = match args.mine {
        false => None,
        true => Some(selection::own_name(connection).await?),
    };
    Ok(JobFilter {
        namespace: lookup::explicit_namespace(connection)
            .map(ToOwned::to_owned)
            .or_else(|| named_namespace(args)),
        names: Vec::new(),
        kind: args
            .kind
            .as_deref()
            .and_then(|kind| kind.parse::<JobKind>().ok()),
        pool: args.pool.clone(),
        user,
    })
}

/// Returns the names in the arguments without a job.
pub(super) fn absent_names(args: &GetJobs, selection: &Selection) -> Vec<String> {
    let is_missing = |name: &&String| !selection.jobs.iter().any(|job| has_name(job, name));
    args.names.iter().filter(is_missing).cloned().collect()
}

/// Builds an error for each name without a job.
pub(super) async fn missing_names(
    names: &[String],
    connection: &Connection,
    context: &Context,
) -> Vec<Error> {
    let mut errors = Vec::new();
    for name in names {
        // The lookup's error suggests existing names.
        let job = past_jobs::job(context, connection, name, LookupPurpose::Read).await;
        errors.extend(job.err());
    }
    errors
}

/// Warns about jobs that the user may not list.
pub(super) fn warn_of(selection: &Selection, context: &Context) {
    if let Some(namespace) = &selection.narrowed_to {
        context.terminal.warn_missing_permission(&format!(
            "you are not allowed to list jobs in all namespaces; only `{namespace}` is shown"
        ));
    }
    if !selection.unreadable.is_empty() {
        let kinds = selection.unreadable.join("s and ");
        context.terminal.warn_missing_permission(&format!(
            "you are not allowed to list every kind of job: {kinds}s are not shown"
        ));
    }
}

/// Returns the namespace if all names have the form `NAMESPACE/NAME` with the same namespace.
fn named_namespace(args: &GetJobs) -> Option<String> {
    let mut namespaces = args
        .names
        .iter()
        .map(|name| name.split_once('/').map(|(namespace, _)| namespace));
    let first = namespaces.next()??;
    namespaces
        .all(|namespace| namespace == Some(first))
        .then(|| first.to_owned())
}

/// Returns true if `name` is the job's NAME or NAMESPACE/NAME.
fn has_name(job: &Job, name: &str) -> bool {
    match name.split_once('/') {
        Some((namespace, name)) => job.namespace == namespace && job.name == name,
        None => job.name == name,
    }
}

/// Filters and sorts the jobs.
pub(super) fn select_jobs(
    args: &GetJobs,
    jobs: Vec<Job>,
    selector: &JobFilter,
) -> Vec<(Job, State)> {
    let status = args
        .status
        .as_deref()
        .and_then(|status| status.parse::<Status>().ok());
    let mut selected: Vec<(Job, State)> = jobs
        .into_iter()
        .map(|job| {
            let state = State::from_job(&job);
            (job, state)
        })
        // Several users can have the same label, because not every user name is a valid label
        // value.
        .filter(|(job, _)| selector.user.is_none() || job.user == selector.user)
        .filter(|(job, _)| {
            args.names.is_empty() || args.names.iter().any(|name| has_name(job, name))
        })
        .filter(|(job, _)| {
            args.selector
                .as_ref()
                .is_none_or(|selector| selector.matches(&job.labels))
        })
        .filter(|(job, _)| {
            args.field_selector
                .as_ref()
                .is_none_or(|selector| selector.matches(&job.namespace, &job.name))
        })
        .filter(|(_, state)| status.is_none_or(|status| state.status == status))
        .collect();
    sort_jobs(args, &mut selected, |(job, state)| (job, state));
    selected
}

/// Sorts jobs. Without a sort key, keeps their order.
pub(super) fn sort_jobs<T>(args: &GetJobs, rows: &mut [T], parts: impl Fn(&T) -> (&Job, &State)) {
    let compare = |a: &T, b: &T| {
        let ((a, a_state), (b, b_state)) = (parts(a), parts(b));
        match args.list.sort_by {
            None => Ordering::Equal,
            Some(JobSortKey::Name) => natural::compare(&a.name, &b.name),
            Some(JobSortKey::Age) => b.created_at.cmp(&a.created_at),
            Some(JobSortKey::Status) => a_state.status.cmp(&b_state.status),
            Some(JobSortKey::Gpu) => b.gpus().cmp(&a.gpus()),
            Some(JobSortKey::Kind) => a.kind.cmp(&b.kind),
        }
    };
    rows.sort_by(compare);
}
