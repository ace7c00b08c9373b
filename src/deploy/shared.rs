//! Writes pools, quotas and defaults. They are written before the jobs, which may need them.

use crate::context::Context;
use crate::deploy::defaults;
use crate::deploy::events::{DeployEvent, Done, Reporter};
use crate::deploy::inputs::InputDocument;
use crate::deploy::options::Mode;
use crate::deploy::options::SubmitOptions;
use crate::deploy::pools::{self, PoolOptions};
use crate::deploy::quotas;
use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::model::contract::rights::Task;
use gpuctl_core::model::contract::submission::{Created, DocumentName, FailedDocument, Made};
use gpuctl_manifest::spec::Document;

/// Result of writing the shared documents.
#[derive(Default)]
pub(crate) struct SharedOutcome {
    pub made: Vec<Made>,
    pub failed: Vec<FailedDocument>,
    pub not_tried: Vec<DocumentName>,
    /// Whether the run had a single document, whose result is the result of the command.
    pub is_single: bool,
}

impl SharedOutcome {
    /// Converts the results to entries of the command's JSON output.
    pub(crate) fn created(&self) -> Vec<Created> {
        self.made.iter().map(Made::created).collect()
    }
}

/// Returns the shared documents that cannot be created. Writes nothing.
pub(crate) async fn check(
    inputs: &[InputDocument],
    options: &SubmitOptions,
    context: &Context,
    reporter: &dyn Reporter,
) -> Result<Vec<FailedDocument>, Error> {
    Ok(refusals(inputs, options, context, reporter)
        .await?
        .into_iter()
        .map(|(_, failed)| failed)
        .collect())
}

/// Like `check`, but also returns the documents.
pub(crate) async fn refusals<'i>(
    inputs: &'i [InputDocument],
    options: &SubmitOptions,
    context: &Context,
    reporter: &dyn Reporter,
) -> Result<Vec<(&'i InputDocument, FailedDocument)>, Error> {
    let mut failed = Vec::new();
    if inputs.is_empty() {
        return Ok(failed);
    }
    let connection = context.connect().await?;
    reporter.report(DeployEvent::ReadingBegins);
    for input in inputs {
        reporter.report(DeployEvent::Task(Some(Task::writing(
            input.document.kind(),
            options.mode.changes(),
        ))));
        if let Err(error) =
            write_document(&connection, &input.document, options, true, reporter).await
        {
            failed.push((
                input,
                FailedDocument {
                    document: input.name(),
                    error,
                },
            ));
        }
    }
    reporter.report(DeployEvent::ReadingEnds);
    Ok(failed)
}

/// Writes the shared documents in order. The error of a single document is the error of the
/// command.
pub(crate) async fn write(
    inputs: &[InputDocument],
    options: &SubmitOptions,
    is_single: bool,
    context: &Context,
    reporter: &dyn Reporter,
) -> Result<SharedOutcome, Error> {
    let mut outcome = SharedOutcome {
        is_single,
        ..SharedOutcome::default()
    };
    if inputs.is_empty() {
        return Ok(outcome);
    }
    let connection = context.connect().await?;
    for input in inputs {
        reporter.report(DeployEvent::Task(Some(Task::writing(
            input.document.kind(),
            options.mode.changes(),
        ))));
        match write_document(
            &connection,
            &input.document,
            options,
            options.dry_run.is_some(),
            reporter,
        )
        .await
        {
            Ok(made) => {
                reporter.done(Done::Shared(&made))?;
                outcome.made.push(made);
            }
            Err(error) if is_single => return Err(error),
            Err(error) => outcome.failed.push(FailedDocument {
                document: input.name(),
                error,
            }),
        }
    }
    Ok(outcome)
}

async fn write_document(
    connection: &Connection,
    document: &Document,
    options: &SubmitOptions,
    dry_run: bool,
    reporter: &dyn Reporter,
) -> Result<Made, Error> {
    let change = options.mode.changes();
    match document {
        Document::Pool(pool) => {
            let pool_options = PoolOptions {
                force: options.force,
                change,
                private: options.private,
                keep_partial: options.keep_partial,
                dry_run,
            };
            pools::create(connection, pool, pool_options, reporter).await
        }
        Document::Quota(quota) => {
            let force = matches!(
                options.mode,
                Mode::Apply {
                    force_conflicts: true,
                    ..
                }
            );
            let quota_options = quotas::QuotaOptions {
                change,
                force,
                keep_partial: options.keep_partial,
                dry_run,
            };
            quotas::create(connection, quota, quota_options, reporter).await
        }
        Document::Defaults(site) => {
            let force = options.force
                || matches!(
                    options.mode,
                    Mode::Apply {
                        force_conflicts: true,
                        ..
                    }
                );
            let defaults_options = defaults::DefaultsOptions {
                change: change || options.force,
                force,
                private: options.private,
                dry_run,
            };
            defaults::create(connection, site, defaults_options, reporter).await
        }
        Document::Job(_) => unreachable!("jobs are submitted elsewhere"),
    }
}
