//! `gpuctl get jobs --all-contexts`: lists the jobs of all contexts of the kubeconfig.

use std::process::ExitCode;

use super::choice::{job_selector, sort_jobs};
use super::{JobListing, JobRows, rendered};
use crate::cli::jobs::get::GetJobs;
use crate::context::Context;
use crate::observe::contexts::{missing_everywhere, read_all};
use crate::observe::list::{self, ListOptions, Refresh};
use crate::observe::optional_metrics::OptionalMetrics;
use gpuctl_cluster::OtherUse;
use gpuctl_core::error::Error;
use gpuctl_view::format::coverage::Coverage;
use gpuctl_view::format::row_contexts::RowContexts;
use gpuctl_view::jobs::list::JobRow;

pub(super) async fn run(
    args: &GetJobs,
    options: &ListOptions,
    context: &Context,
) -> Result<ExitCode, Error> {
    list::run(options, context, async |_: Refresh<'_>| {
        let parts = read_all(context, async |own| read(args, options, own).await).await?;
        let is_absent = |name: &&String| parts.iter().all(|(_, part)| part.absent.contains(name));
        let missing = args.names.iter().filter(is_absent);
        let missing = missing
            .map(|name| missing_everywhere("job", name))
            .collect();
        let total = parts.iter().map(|(_, part)| part.total).sum();
        let other_use = parts.iter().filter_map(|(_, part)| part.other_use);
        let other_use = other_use.reduce(OtherUse::plus);
        let coverage = Coverage::sum(parts.iter().map(|(_, part)| part.coverage));
        let mut rows: Vec<(String, JobRow)> = Vec::new();
        for (name, part) in parts {
            rows.extend(part.rows.into_iter().map(|row| (name.clone(), row)));
        }
        sort_jobs(args, &mut rows, |(_, row)| (&row.job, &row.state));
        let (names, rows): (Vec<String>, Vec<_>) = options.page.select(rows).into_iter().unzip();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let jobs = JobRows {
            rows,
            total,
            coverage,
            absent: Vec::new(),
            other_use,
        };
        let contexts = RowContexts::new(&names);
        Ok(rendered(args, options, &jobs, contexts, context).missing(missing))
    })
    .await
}

/// Reads the jobs of one context that can be on the page.
async fn read(args: &GetJobs, options: &ListOptions, context: &Context) -> Result<JobRows, Error> {
    let connection = context.connect().await?;
    let listing = JobListing {
        args,
        page: options.page.including_previous(),
        format: options.format,
        selector: job_selector(args, &connection).await?,
        connection: &connection,
        metrics: OptionalMetrics::new(context, &connection).with_exporters(false),
        context,
    };
    listing.read(&Refresh::once()).await
}
