//! Writes the documents that are not jobs (pools, quotas and defaults) before the jobs that may
//! need them.

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

/// The result of writing them.
#[derive(Default)]
pub(crate) struct SharedOutcome {
    pub made: Vec<Made>,
    pub failed: Vec<FailedDocument>,
    pub not_tried: Vec<DocumentName>,
    /// True if the run had only one document, whose result is the result of the command.
    pub only: bool,
}

impl SharedOutcome {
    /// Converts them to documents of a batch.
    pub(crate) fn created(&self) -> Vec<Created> {
        self.made.iter().map(Made::created).collect()
    }
}

/// Checks which of them cannot be created, before anything is written.
pub(crate) async fn judge(
    inputs: &[InputDocument],
    how: &SubmitOptions,
    context: &Context,
    reporter: &dyn Reporter,
) -> Result<Vec<FailedDocument>, Error> {
    Ok(refusals(inputs, how, context, reporter)
        .await?
        .into_iter()
        .map(|(_, failed)| failed)
        .collect())
}

/// Like `judge`, with the documents.
pub(crate) async fn refusals<'i>(
    inputs: &'i [InputDocument],
    how: &SubmitOptions,
    context: &Context,
    reporter: &dyn Reporter,
) -> Result<Vec<(&'i InputDocument, FailedDocument)>, Error> {
    let mut failed = Vec::new();
    if inputs.is_empty() {
        return Ok(failed);
    }
    let connection = context.connect().await?;
    reporter.tell(DeployEvent::LookingBegins);
    for input in inputs {
        reporter.tell(DeployEvent::Task(Some(Task::writing(
            input.document.kind(),
            how.mode.changes(),
        ))));
        if let Err(error) = one(&connection, &input.document, how, true, reporter).await {
            failed.push((
                input,
                FailedDocument {
                    document: input.name(),
                    error,
                },
            ));
        }
    }
    reporter.tell(DeployEvent::LookingEnds);
    Ok(failed)
}

/// Writes them in order. If there is only one document, its error is the error of the command.
pub(crate) async fn make(
    inputs: &[InputDocument],
    how: &SubmitOptions,
    only: bool,
    context: &Context,
    reporter: &dyn Reporter,
) -> Result<SharedOutcome, Error> {
    let mut outcome = SharedOutcome {
        only,
        ..SharedOutcome::default()
    };
    if inputs.is_empty() {
        return Ok(outcome);
    }
    let connection = context.connect().await?;
    for input in inputs {
        reporter.tell(DeployEvent::Task(Some(Task::writing(
            input.document.kind(),
            how.mode.changes(),
        ))));
        match one(
            &connection,
            &input.document,
            how,
            how.dry_run.is_some(),
            reporter,
        )
        .await
        {
            Ok(made) => {
                reporter.done(Done::Shared(&made))?;
                outcome.made.push(made);
            }
            Err(error) if only => return Err(error),
            Err(error) => outcome.failed.push(FailedDocument {
                document: input.name(),
                error,
            }),
        }
    }
    Ok(outcome)
}

async fn one(
    connection: &Connection,
    document: &Document,
    how: &SubmitOptions,
    dry_run: bool,
    reporter: &dyn Reporter,
) -> Result<Made, Error> {
    let change = how.mode.changes();
    match document {
        Document::Pool(pool) => {
            let making = PoolOptions {
                force: how.force,
                change,
                private: how.private,
                keep_partial: how.keep_partial,
                dry_run,
            };
            pools::create(connection, pool, making, reporter).await
        }
        Document::Quota(quota) => {
            let force = matches!(
                how.mode,
                Mode::Apply {
                    force_conflicts: true,
                    ..
                }
            );
            let making = quotas::QuotaOptions {
                change,
                force,
                keep_partial: how.keep_partial,
                dry_run,
            };
            quotas::create(connection, quota, making, reporter).await
        }
        Document::Defaults(site) => {
            let force = how.force
                || matches!(
                    how.mode,
                    Mode::Apply {
                        force_conflicts: true,
                        ..
                    }
                );
            let making = defaults::DefaultsOptions {
                change: change || how.force,
                force,
                private: how.private,
                dry_run,
            };
            defaults::create(connection, site, making, reporter).await
        }
        Document::Job(_) => unreachable!("jobs are submitted elsewhere"),
    }
}
