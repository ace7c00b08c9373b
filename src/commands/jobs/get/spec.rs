//! `gpuctl get jobs -o spec`: prints the YAML of each job as it was submitted.

use std::process::ExitCode;

use super::choice::{absent_names, job_selector, missing_names, select_jobs, warn_of};
use crate::cli::args::format::ListFormat;
use crate::cli::args::list::PAGE_SIZE;
use crate::cli::jobs::get::GetJobs;
use crate::context::Context;
use crate::deploy::copies::{parse, stored_files, stored_text};
use crate::lookup;
use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::model::Job;
use gpuctl_manifest::render::{file_key, files_name};
use gpuctl_manifest::spec::Document;
use gpuctl_manifest::spec::checks::plain_secrets;
use gpuctl_view::jobs::specification::{StoredFile, specification};

/// Rejects options that only a table supports.
pub(super) fn check(args: &GetJobs) -> Result<(), Error> {
    let is_spec = matches!(args.list.print.output, ListFormat::Spec);
    if is_spec && args.all_contexts {
        return Err(
            Error::usage("`-o spec` cannot be combined with `--all-contexts`")
                .hint("gpuctl get job NAME -o spec --context CONTEXT"),
        );
    }
    match (is_spec, args.at.is_some(), args.list.watch) {
        (true, true, _) => Err(Error::usage(
            "`-o spec` cannot be combined with `--at`: Prometheus does not store the YAML",
        )
        .hint("gpuctl get job NAME -o spec")),
        (true, _, true) => Err(Error::usage("`-o spec` cannot be combined with `--watch`")
            .hint("gpuctl get job NAME -o spec")),
        _ => Ok(()),
    }
}

/// Prints the YAML of the selected jobs and reports jobs without stored YAML.
pub(super) async fn run(
    args: &GetJobs,
    connection: &Connection,
    context: &Context,
) -> Result<ExitCode, Error> {
    check(args)?;
    let filter = job_selector(args, connection).await?;
    let selection = connection.jobs().list(&filter).await?;
    warn_of(&selection, context);
    let namespace = filter.namespace.as_deref();
    lookup::check_empty(connection, namespace, selection.jobs.is_empty()).await?;
    let absent = absent_names(args, &selection);
    let mut errors = missing_names(&absent, connection, context).await;
    let jobs = select_jobs(args, selection.jobs, &filter);
    if jobs.is_empty() && errors.is_empty() {
        context.terminal.note("no jobs found");
    }
    let mut texts = Vec::new();
    for (job, _) in args.list.page.page(PAGE_SIZE).select(jobs) {
        match text(&job, connection, context).await {
            Ok(text) => texts.push(text),
            Err(error) => errors.push(error),
        }
    }
    context.terminal.print(&texts.join("---\n"))?;
    let failure = errors
        .into_iter()
        .reduce(|first, other| first.note(other.message));
    failure.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// Returns a job's YAML. Warns about secrets in plain text, which are printed.
async fn text(job: &Job, connection: &Connection, context: &Context) -> Result<String, Error> {
    let source = stored_text(job)?;
    // Print YAML that an older version accepted even if the current one rejects it.
    let Ok((document, _)) = parse(job, source, &[]) else {
        return Ok(specification(source, job, "", &[]));
    };
    let documents = [Document::Job(Box::new(document.clone()))];
    let name = format!("{}/{}", job.namespace, job.name);
    let secrets = plain_secrets(&name, source, &documents);
    secrets
        .iter()
        .for_each(|problems| context.terminal.warn_about(problems));
    let config_map = files_name(&job.name);
    let mut files: Vec<StoredFile> = document
        .files
        .iter()
        .enumerate()
        .map(|(index, file)| StoredFile {
            path: file.local.value.clone(),
            key: file_key(index),
            is_text: true,
        })
        .collect();
    if !files.is_empty() {
        match stored_files(job, document, connection).await {
            Ok(Some(contents)) => {
                for (file, content) in files.iter_mut().zip(contents) {
                    file.is_text = std::str::from_utf8(&content).is_ok();
                }
            }
            Ok(None) => context.terminal.warn(&format!(
                "{name}: ConfigMap `{config_map}` does not contain every file of `files:`"
            )),
            Err(failure) => context.terminal.warn(&format!(
                "{name}: cannot read the files in ConfigMap `{config_map}`: {failure}"
            )),
        }
    }
    Ok(specification(source, job, &config_map, &files))
}
