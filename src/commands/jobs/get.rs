//! `gpuctl get jobs`: filters, sorts and pages the jobs.

use std::collections::BTreeMap;
use std::process::ExitCode;

use futures::future::join;

use crate::cli::args::list::PAGE_SIZE;
use crate::cli::jobs::get::{GetJobs, JobSortKey};
use crate::context::Context;
use crate::lookup::{self, LookupPurpose};
use crate::observe::at_time;
use crate::observe::list::{self, ListOptions, Listing, Refresh};
use crate::observe::live::{self, JOB_QUANTITIES};
use crate::observe::optional_metrics::OptionalMetrics;
use crate::observe::progress::read_progress;
use crate::selection;
use gpuctl_cluster::{Connection, JobFilter, Selection};
use gpuctl_core::error::Error;
use gpuctl_core::model::{GpuCount, Job, JobKind, Readings, State, Status};
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_view::Format;
use gpuctl_view::format::coverage::Coverage;
use gpuctl_view::jobs::list as jobs;
use gpuctl_view::jobs::list::JobRow;

pub(crate) async fn run(args: &GetJobs, context: &Context) -> Result<ExitCode, Error> {
    let options = args.list.options(PAGE_SIZE);
    context.terminal.set_format(options.format);
    if let Some(at) = &args.at {
        return at_time::jobs(at, &options, context).await;
    }
    for name in &args.names {
        let (namespace, name) = lookup::split(name)?;
        lookup::check_namespace(context.access.namespace.as_deref(), namespace, name)?;
    }
    let connection = context.connect().await?;
    let listing = JobListing {
        args,
        options: &options,
        selector: job_selector(args, &connection).await?,
        connection: &connection,
        metrics: OptionalMetrics::new(context, &connection).with_exporters(options.watch),
        context,
    };
    let mut notifications = connection.watch_jobs(listing.selector.namespace.as_deref());
    list::run_after(
        &options,
        context,
        async || notifications.changed(None).await,
        async |refresh: Refresh<'_>| listing.read(refresh).await,
    )
    .await
}

/// Builds the API server query from the arguments.
async fn job_selector(args: &GetJobs, connection: &Connection) -> Result<JobFilter, Error> {
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

/// Reads the jobs, either once or at every refresh of a watch.
struct JobListing<'a> {
    args: &'a GetJobs,
    options: &'a ListOptions,
    selector: JobFilter,
    connection: &'a Connection,
    metrics: OptionalMetrics<'a>,
    context: &'a Context,
}

impl JobListing<'_> {
    async fn read(&self, refresh: Refresh<'_>) -> Result<Listing, Error> {
        let (selection, readings) = self.selection(&refresh).await?;
        let mut missing = Vec::new();
        if refresh.first {
            warn_of(&selection, self.context);
            let namespace = self.selector.namespace.as_deref();
            lookup::check_empty(self.connection, namespace, selection.jobs.is_empty()).await?;
            missing = self.missing_names(&selection).await;
        }
        let jobs = select_jobs(self.args, selection.jobs, &self.selector);
        let total = jobs.len();
        let jobs = self.options.page.select(jobs);
        let progress = if self.args.no_progress {
            BTreeMap::new()
        } else {
            read_progress(self.connection, &jobs).await
        };
        let row = |(index, (job, state)): (usize, (Job, State))| {
            let figures = readings
                .as_ref()
                .map(|readings| live::figures_of(readings, &job));
            JobRow {
                job,
                state,
                progress: progress.get(&index).copied(),
                figures,
            }
        };
        let rows: Vec<JobRow> = jobs.into_iter().enumerate().map(row).collect();
        let coverage = readings.as_ref().map(Coverage::from);
        Ok(self.listing(&rows, total, coverage).missing(missing))
    }

    /// Reads jobs and the live metrics of their devices concurrently.
    async fn selection(
        &self,
        refresh: &Refresh<'_>,
    ) -> Result<(Selection, Option<Readings>), Error> {
        // `-o name` shows no metrics.
        let quantities: &[Quantity] = if self.options.format == Format::Name {
            &[]
        } else {
            &JOB_QUANTITIES
        };
        let (selection, reading) = join(
            refresh.ask(|| self.connection.jobs().list(&self.selector)),
            self.metrics.now(quantities),
        )
        .await;
        let (selection, reading) = (selection?, reading?);
        let gpu_pods = selection
            .jobs
            .iter()
            .flat_map(|job| &job.pods)
            .filter(|pod| pod.holds() && pod.gpus > GpuCount::ZERO);
        let reading = self
            .metrics
            .or_read_exporters(
                reading,
                gpu_pods.filter_map(|pod| pod.node.clone()).collect(),
            )
            .await;
        let readings = reading.map(|reading| live::job_readings(&reading, selection.jobs.iter()));
        Ok((selection, readings))
    }

    /// Builds an error for each given name that no job has.
    async fn missing_names(&self, selection: &Selection) -> Vec<Error> {
        let is_missing = |name: &&String| !selection.jobs.iter().any(|job| has_name(job, name));
        let mut errors = Vec::new();
        for name in self.args.names.iter().filter(is_missing) {
            // The lookup's error suggests existing names.
            let job = lookup::job(self.connection, name, LookupPurpose::Read).await;
            errors.extend(job.err());
        }
        errors
    }

    fn listing(&self, rows: &[JobRow], total: usize, coverage: Option<Coverage>) -> Listing {
        let context = self.context;
        let table = |format, headers| {
            jobs::table(
                rows,
                format,
                headers,
                self.args.show_labels,
                context.terminal.style(),
                context.now(),
            )
        };
        let listing = Listing::new(
            self.options,
            &jobs::list(rows, total, coverage),
            "items",
            jobs::names(rows),
            table,
        );
        let waiting = rows
            .iter()
            .find(|row| row.state.status == Status::Pending && row.state.reason.is_some());
        let hint = |JobRow { job, .. }: &JobRow| {
            format!(
                "{} is waiting; gpuctl describe job {}/{}",
                job.name, job.namespace, job.name
            )
        };
        listing
            .none("no jobs found")
            .hints(waiting.map(hint).into_iter().collect())
    }
}

/// Warns about the jobs that the user may not list.
fn warn_of(selection: &Selection, context: &Context) {
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

/// Extracts the namespace if all names have the form `NAMESPACE/NAME` and share one namespace.
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

/// Matches a job with NAME in any namespace, or with NAMESPACE/NAME.
fn has_name(job: &Job, name: &str) -> bool {
    match name.split_once('/') {
        Some((namespace, name)) => job.namespace == namespace && job.name == name,
        None => job.name == name,
    }
}

/// Filters and sorts the jobs.
fn select_jobs(args: &GetJobs, jobs: Vec<Job>, selector: &JobFilter) -> Vec<(Job, State)> {
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
        // Some user names are not valid as label values, so different users may have the same
        // label.
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
    match args.list.sort_by {
        None => {}
        Some(JobSortKey::Name) => selected.sort_by(|a, b| a.0.name.cmp(&b.0.name)),
        Some(JobSortKey::Age) => selected.sort_by_key(|(job, _)| std::cmp::Reverse(job.created_at)),
        Some(JobSortKey::Status) => selected.sort_by_key(|(_, state)| state.status),
        Some(JobSortKey::Gpu) => selected.sort_by_key(|(job, _)| std::cmp::Reverse(job.gpus())),
        Some(JobSortKey::Kind) => selected.sort_by_key(|(job, _)| job.kind),
    }
    selected
}
