//! `gpuctl get jobs`: lists jobs, with filters, sorting and paging.

mod all_contexts;
mod choice;
mod spec;

use std::collections::BTreeMap;
use std::process::ExitCode;

use futures::future::join;

use self::choice::{absent_names, job_selector, missing_names, select_jobs, warn_of};
use crate::cli::args::format::ListFormat;
use crate::cli::args::list::PAGE_SIZE;
use crate::cli::jobs::get::GetJobs;
use crate::context::Context;
use crate::lookup;
use crate::observe::at_time;
use crate::observe::list::{self, ListOptions, Listing, PageOptions, Refresh};
use crate::observe::live::{self, JOB_QUANTITIES};
use crate::observe::optional_metrics::OptionalMetrics;
use crate::observe::progress::read_progress;
use crate::selection::own_name;
use gpuctl_cluster::{Connection, JobFilter, OtherUse, Selection};
use gpuctl_core::error::Error;
use gpuctl_core::model::facts::held_type::{held_type, nodes_with_gpus_of};
use gpuctl_core::model::{GpuCount, Job, Node, Readings, State, Status};
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_manifest::render::label_value;
use gpuctl_view::Format;
use gpuctl_view::format::coverage::Coverage;
use gpuctl_view::format::row_contexts::RowContexts;
use gpuctl_view::format::text::count;
use gpuctl_view::jobs::list as view;
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
    if args.all_contexts {
        spec::check(args)?;
        return all_contexts::run(args, &options, context).await;
    }
    let connection = context.connect().await?;
    if matches!(args.list.print.output, ListFormat::Spec) {
        return spec::run(args, &connection, context).await;
    }
    let listing = JobListing {
        args,
        page: options.page,
        format: options.format,
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
        async |refresh: Refresh<'_>| {
            let jobs = listing.read(&refresh).await?;
            let missing = missing_names(&jobs.absent, &connection, context).await;
            Ok(rendered(args, &options, &jobs, RowContexts::NONE, context).missing(missing))
        },
    )
    .await
}

/// Reads jobs once, or at every refresh of a watch.
struct JobListing<'a> {
    args: &'a GetJobs,
    /// The rows to read progress for.
    page: PageOptions,
    format: Format,
    selector: JobFilter,
    connection: &'a Connection,
    metrics: OptionalMetrics<'a>,
    context: &'a Context,
}

/// A page of jobs.
struct JobRows {
    rows: Vec<JobRow>,
    /// Number of matching jobs on all pages.
    total: usize,
    coverage: Option<Coverage>,
    /// Names in the arguments without a job. Empty after the first read of a watch.
    absent: Vec<String>,
    /// GPUs of pods that gpuctl did not create, for a table without filters.
    other_use: Option<OtherUse>,
}

impl JobListing<'_> {
    async fn read(&self, refresh: &Refresh<'_>) -> Result<JobRows, Error> {
        let (selected, other_use) = join(self.selection(refresh), self.other_use(refresh)).await;
        let (selection, readings) = selected?;
        let mut absent = Vec::new();
        if refresh.first {
            warn_of(&selection, self.context);
            let namespace = self.selector.namespace.as_deref();
            lookup::check_empty(self.connection, namespace, selection.jobs.is_empty()).await?;
            absent = absent_names(self.args, &selection);
        }
        let jobs = select_jobs(self.args, selection.jobs, &self.selector);
        let total = jobs.len();
        let mut jobs = self.page.select(jobs);
        let progress = if self.args.no_progress {
            BTreeMap::new()
        } else {
            read_progress(self.connection, &jobs, self.context.now()).await
        };
        self.add_types(&mut jobs, readings.as_ref()).await;
        let row = |(index, (job, state)): (usize, (Job, State))| {
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
        Ok(JobRows {
            rows: jobs.into_iter().enumerate().map(row).collect(),
            total,
            coverage: readings.as_ref().map(Coverage::from),
            absent,
            other_use,
        })
    }

    /// Counts the GPUs of other workloads, which a list of jobs would hide. Scripts can read them
    /// with `get workloads`.
    async fn other_use(&self, refresh: &Refresh<'_>) -> Option<OtherUse> {
        let is_table = matches!(self.format, Format::Table | Format::Wide);
        if !refresh.first || !is_table || self.args.is_filtered() {
            return None;
        }
        let namespace = self.selector.namespace.as_deref();
        let other_use = self.connection.jobs().use_of_others(namespace).await.ok()?;
        (other_use.pods > 0).then_some(other_use)
    }

    /// Sets the type of jobs that name none: the types of the held GPUs according to exporters, or
    /// else the type of the nodes of the job's pods.
    async fn add_types(&self, jobs: &mut [(Job, State)], readings: Option<&Readings>) {
        for (job, _) in jobs.iter_mut().filter(|(job, _)| job.gpu_type.is_none()) {
            job.gpu_type = readings.and_then(|readings| live::gpu_types_of(readings, job));
        }
        let lacks_type =
            |job: &Job| job.gpu_type.is_none() && nodes_with_gpus_of(job).next().is_some();
        if self.format == Format::Name || !jobs.iter().any(|(job, _)| lacks_type(job)) {
            return;
        }
        // The list is useful without the types, so ignore a failure to read nodes.
        let nodes = self.connection.nodes().list().await.unwrap_or_default();
        let all = nodes.all().iter().map(|node| (node.name.as_str(), node));
        let by_name: BTreeMap<&str, &Node> = all.collect();
        for (job, _) in jobs.iter_mut().filter(|(job, _)| lacks_type(job)) {
            job.gpu_type = held_type(job, &by_name);
        }
    }

    /// Reads jobs and their live metrics concurrently.
    async fn selection(
        &self,
        refresh: &Refresh<'_>,
    ) -> Result<(Selection, Option<Readings>), Error> {
        // `-o name` shows no metrics.
        let quantities: &[Quantity] = if self.format == Format::Name {
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
}

/// Renders a page of jobs.
fn rendered(
    args: &GetJobs,
    options: &ListOptions,
    jobs: &JobRows,
    contexts: RowContexts<'_>,
    context: &Context,
) -> Listing {
    let rows = &jobs.rows;
    let table = |format, headers| {
        view::table(
            rows,
            contexts,
            format,
            headers,
            args.show_labels,
            context.terminal.style(),
            context.now(),
        )
    };
    let document = view::list(rows, contexts, jobs.total, jobs.coverage);
    let names = contexts.qualify(view::names(rows));
    let waiting = rows
        .iter()
        .find(|row| row.state.status == Status::Pending && row.state.reason.is_some());
    let hint = |JobRow { job, .. }: &JobRow| {
        format!(
            "{} is waiting; gpuctl describe job {}/{}",
            job.name, job.namespace, job.name
        )
    };
    // The command in the hint reads the current context.
    let hint = waiting.filter(|_| !args.all_contexts).map(hint);
    Listing::new(options, &document, "items", names, table)
        .none("no jobs found")
        .note(
            jobs.other_use
                .map(|other_use| other_use_note(args, other_use)),
        )
        .hints(hint.into_iter().collect())
}

/// Describes the GPUs of workloads that a list of jobs does not contain.
fn other_use_note(args: &GetJobs, other_use: OtherUse) -> String {
    let at_least = if other_use.has_more { "at least " } else { "" };
    let pods = count(other_use.pods as u64, "pod");
    let gpus = count(other_use.gpus.0, "GPU");
    let everywhere = if args.all_contexts {
        " --all-contexts"
    } else {
        ""
    };
    format!(
        "not listed: {at_least}{pods} with {gpus} that gpuctl did not create; see `gpuctl get \
         workloads{everywhere}`"
    )
}
