//! Documents that belong to no namespace's jobs: pools and quotas of a file, made before the jobs that may need them.

use std::process::ExitCode;

use crate::cluster::Connection;
use crate::error::{Error, Kind};
use crate::model::rights::Task;
use crate::spec::Document;
use crate::terminal::Talk;
use crate::view::Format;
use crate::view::created::{Created, Made};

use super::World;
use super::inputs::Input;
use super::judgement::Mode;
use super::pool_changes::{self, Making};
use super::quota_changes;
use super::submission::How;

type Failed = (&'static str, String, Error);

/// What became of them.
#[derive(Default)]
pub struct Outcome {
    pub made: Vec<Made>,
    pub failed: Vec<Failed>,
}

impl Outcome {
    pub fn exit_code(&self) -> ExitCode {
        if self.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(Kind::Request.exit_code()) }
    }

    /// As documents of a batch.
    pub fn created(&self) -> Vec<Created> {
        self.made.iter().map(Made::created).collect()
    }
}

/// What stands in the way of making them, looked up before anything is written.
pub async fn judge(inputs: &[Input], how: &How, world: &World) -> Result<Vec<Failed>, Error> {
    Ok(refusals(inputs, how, world).await?.into_iter().map(|(_, failed)| failed).collect())
}

/// The same, with the documents.
pub async fn refusals<'i>(inputs: &'i [Input], how: &How, world: &World) -> Result<Vec<(&'i Input, Failed)>, Error> {
    let mut failed = Vec::new();
    if inputs.is_empty() {
        return Ok(failed);
    }
    let connection = world.connect().await?;
    // What is to be said is said when it is done.
    let talk = world.terminal.swap_talk(Talk::Errors);
    for input in inputs {
        world.terminal.set_task(Some(Task::writing(input.document.kind(), how.mode.changes())));
        if let Err(error) = one(&connection, &input.document, how, true, world).await {
            failed.push((input, (input.document.kind(), input.document.name().to_owned(), error)));
        }
    }
    world.terminal.swap_talk(talk);
    Ok(failed)
}

/// Makes them in order. The error of an only document is the command's own.
pub async fn make(inputs: &[Input], how: &How, format: Format, only: bool, world: &World) -> Result<Outcome, Error> {
    let mut outcome = Outcome::default();
    if inputs.is_empty() {
        return Ok(outcome);
    }
    let connection = world.connect().await?;
    for input in inputs {
        let (kind, name) = (input.document.kind(), input.document.name().to_owned());
        world.terminal.set_task(Some(Task::writing(kind, how.mode.changes())));
        match one(&connection, &input.document, how, how.dry_run.is_some(), world).await {
            Ok(made) => {
                if !format.is_document() {
                    world.terminal.print(&made.text())?;
                }
                outcome.made.push(made);
            }
            Err(error) if only => return Err(error),
            Err(error) => outcome.failed.push((kind, name, error)),
        }
    }
    Ok(outcome)
}

async fn one(connection: &Connection, document: &Document, how: &How, dry_run: bool, world: &World) -> Result<Made, Error> {
    let change = how.mode.changes();
    match document {
        Document::Pool(pool) => {
            let making = Making { force: how.force, change, private: how.private, keep_partial: how.keep_partial, dry_run };
            pool_changes::create(connection, pool, making, world).await
        }
        Document::Quota(quota) => {
            let force = matches!(how.mode, Mode::Apply { force_conflicts: true, .. });
            let making = quota_changes::Making { change, force, keep_partial: how.keep_partial, dry_run };
            quota_changes::create(connection, quota, making, world).await
        }
        Document::Job(_) => unreachable!("jobs are submitted elsewhere"),
    }
}
