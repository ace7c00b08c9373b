//! Documents that belong to no namespace's jobs: pools and quotas of a file, made before the jobs that may need them.

use std::process::ExitCode;

use crate::cluster::Connection;
use crate::error::{Error, Kind};
use crate::model::rights::Task;
use crate::spec::Document;
use crate::view::Format;
use crate::view::created::{Created, Made};

use super::World;
use super::inputs::Input;
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

/// Makes them in order. The error of an only document is the command's own.
pub async fn make(inputs: &[Input], how: &How, format: Format, only: bool, world: &World) -> Result<Outcome, Error> {
    let mut outcome = Outcome::default();
    if inputs.is_empty() {
        return Ok(outcome);
    }
    let connection = world.connect().await?;
    for input in inputs {
        let (kind, name) = (input.document.kind(), input.document.name().to_owned());
        world.terminal.set_task(Some(Task::creating(kind)));
        match one(&connection, &input.document, how, world).await {
            Ok(made) => {
                if !format.is_document() {
                    world.terminal.print(&made.text())?;
                }
                outcome.made.push(made);
            }
            Err(error) if only => return Err(error),
            Err(error) => {
                world.terminal.fail(&error);
                outcome.failed.push((kind, name, error));
            }
        }
    }
    Ok(outcome)
}

async fn one(connection: &Connection, document: &Document, how: &How, world: &World) -> Result<Made, Error> {
    let dry_run = how.dry_run.is_some();
    match document {
        Document::Pool(pool) => {
            let making = Making { force: how.force, private: how.private, keep_partial: how.keep_partial, dry_run };
            pool_changes::create(connection, pool, making, world).await
        }
        Document::Quota(quota) => quota_changes::create(connection, quota, dry_run, how.keep_partial, world).await,
        Document::Job(_) => unreachable!("jobs are submitted elsewhere"),
    }
}
