//! Reads files and plans their jobs for `fit` and `diff`, which write nothing.

use crate::context::Context;
use crate::deploy::events::Reporter;
use crate::deploy::inputs::{self, InputDocument};
use crate::deploy::local_files::FileAccess;
use crate::deploy::names::with_unique_names;
use crate::deploy::plan::{Plan, PlanningFacts, job, plan};
use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_manifest::spec::Override;

/// Documents of some files, and the cluster that they are planned for.
pub(crate) struct PlannedFiles {
    pub connection: Connection,
    /// Documents that are not jobs.
    pub shared: Vec<InputDocument>,
    pub plans: Vec<Plan>,
}

/// Reads the files, connects, and renders every job for this cluster.
pub(crate) async fn read_plans(
    files: &[String],
    overrides: &[Override],
    access: &FileAccess,
    context: &Context,
    reporter: &dyn Reporter,
) -> Result<PlannedFiles, Error> {
    let inputs =
        inputs::read(files, overrides, access).map_err(|unreadable| unreadable.report(reporter))?;
    inputs.warn(reporter);
    let (shared, jobs): (Vec<InputDocument>, Vec<InputDocument>) =
        with_unique_names(inputs.documents, false)?
            .into_iter()
            .partition(|input| job(input).is_none());
    let connection = context.connect().await?;
    let mut facts = PlanningFacts::read(&connection).await?;
    facts.add_planned(&shared);
    let plans = plan(jobs, Some(&connection), &facts, reporter).await?;
    Ok(PlannedFiles {
        connection,
        shared,
        plans,
    })
}
