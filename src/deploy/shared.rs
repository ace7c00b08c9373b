//! Writes the documents that are no jobs, pools and quotas, before the jobs that may need them.

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

/// What became of them.
#[derive(Default)]
pub(crate) struct SharedOutcome {
    pub made: Vec<Made>,
    pub failed: Vec<FailedDocument>,
    pub not_tried: Vec<DocumentName>,
    /// There was one document only: its answer is the command's own.
    pub only: bool,
}

impl SharedOutcome {
    /// As documents of a batch.
    pub(crate) fn created(&self) -> Vec<Created> {
        self.made.iter().map(Made::created).collect()
    }
}

/// Returns why they cannot be created, looked up before anything is written.
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

/// Returns the same, with the documents.
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

/// Makes them in order. The error of an only document is the command's own.
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
