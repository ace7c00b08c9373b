//! `gpuctl get jobs`: lists jobs, with filters, sorting and paging.

mod choice;
mod spec;

use std::collections::BTreeMap;
use std::process::ExitCode;

use futures::future::join;

use self::choice::{job_selector, missing_names, select_jobs, warn_of};
use crate::cli::args::format::ListFormat;
use crate::cli::args::list::PAGE_SIZE;
use crate::cli::jobs::get::GetJobs;
use crate::context::Context;
use crate::lookup;
use crate::observe::at_time;
use crate::observe::list::{self, ListOptions, Listing, Refresh};
use crate::observe::live::{self, JOB_QUANTITIES};
use crate::observe::optional_metrics::OptionalMetrics;
use crate::observe::progress::read_progress;
use crate::selection::own_name;
use gpuctl_cluster::{Connection, JobFilter, Selection};
use gpuctl_core::error::Error;
use gpuctl_core::model::{GpuCount, Job, Readings, State, Status};
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_manifest::render::label_value;
use gpuctl_view::Format;
use gpuctl_view::format::coverage::Coverage;
use gpuctl_view::jobs::list as jobs;
use gpuctl_view::jobs::list::JobRow;

pub(crate) async fn run(args: &GetJobs, context: &Context) -> Result<ExitCode, Error> {
    let options = args.list.options(PAGE_SIZE);
    context.terminal.set_format(options.format);
    if let Some(at) = &args.at {
        spec::check(args)?;
        let user = match args.mine {
            true => Some(label_value(&own_name(&context.connect().await?).await?)),
            false => None,
        };
        return at_time::jobs(at, user.as_deref(), &options, context).await;
    }
    for name in &args.names {
        let (namespace, name) = lookup::split(name)?;
        lookup::check_namespace(context.access.namespace.as_deref(), namespace, name)?;
    }
    let connection = context.connect().await?;
    if matches!(args.list.print.output, ListFormat::Spec) {
        return spec::run(args, &connection, context).await;
    }
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

/// Reads jobs once, or at every refresh of a watch.
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
            missing = missing_names(self.args, &selection, self.connection, self.context).await;
        }
        let jobs = select_jobs(self.args, selection.jobs, &self.selector);
        let total = jobs.len();
        let jobs = self.options.page.select(jobs);
        let progress = if self.args.no_progress {
            BTreeMap::new()
        } else {
            read_progress(self.connection, &jobs, self.context.now()).await
        };
        let row = |(index, (mut job, state)): (usize, (Job, State))| {
            if job.gpu_type.is_none() {
                let held_types = |readings| live::gpu_types_of(readings, &job);
                job.gpu_type = readings.as_ref().and_then(held_types);
            }
            let figures = readings
                .as_ref()
                .map(|readings| live::figures_of(readings, &job));
            JobRow {
                job,
                state,
                progress: progress.get(&index).map(|progress| progress.percent),
                remaining: progress.get(&index).and_then(|progress| progress.remaining),
                figures,
            }
        };
        let rows: Vec<JobRow> = jobs.into_iter().enumerate().map(row).collect();
        let coverage = readings.as_ref().map(Coverage::from);
        Ok(self.listing(&rows, total, coverage).missing(missing))
    }

    /// Reads jobs and their live metrics concurrently.
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
