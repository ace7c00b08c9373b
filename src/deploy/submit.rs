//! Submits documents: plans and decides all of them, writes each completely or not at all, then
//! waits if requested.

use crate::context::Context;
use crate::deploy::defaults;
use crate::deploy::events::Reporter;
use crate::deploy::inputs::InputDocument;
use crate::deploy::interrupt::Interruption;
use crate::deploy::options::{DryRun, SubmitOptions};
use crate::deploy::plan::{Plan, PlanningFacts, job, plan};
use crate::deploy::run::{Run, WrittenRun, is_among, tell_failed};
use crate::deploy::shared::{self, SharedOutcome};
use gpuctl_cluster::Connection;
use gpuctl_core::error::{Error, ErrorKind, ErrorName};

/// The result of a submission.
pub(crate) enum Submission {
    /// The objects exactly as they would be sent. Only reads were sent to the API server.
    Rendered {
        plans: Vec<Plan>,
        shared: SharedOutcome,
    },
    /// Pools, quotas and defaults without a job.
    Shared(SharedOutcome),
    /// Jobs, with the pools, quotas and defaults that they need.
    Written(Box<WrittenRun>),
}

/// Submits the documents, or reports what would be submitted. The caller has checked the options.
pub(crate) async fn submit(
    inputs: Vec<InputDocument>,
    how: &SubmitOptions,
    context: &Context,
    reporter: &dyn Reporter,
) -> Result<Submission, Error> {
    let (shared, inputs): (Vec<InputDocument>, Vec<InputDocument>) =
        inputs.into_iter().partition(|input| job(input).is_none());
    if how.trust_namespace && how.dry_run.is_none() {
        defaults::trust_namespace(&context.connect().await?, how.private, reporter).await?;
    }
    if inputs.is_empty() {
        let outcome = shared_alone(&shared, how, context, reporter).await?;
        return Ok(Submission::Shared(outcome));
    }
    let (connection, mut facts) = match known(context).await {
        // A client-side dry run also works without a cluster.
        Ok((connection, facts)) => (Some(connection), facts),
        Err(error)
            if how.dry_run == Some(DryRun::Client) && error.kind == ErrorKind::Unreachable =>
        {
            reporter.warn(&format!(
                "{error}; objects are rendered without knowledge of the nodes"
            ));
            (None, PlanningFacts::default())
        }
        Err(error) => return Err(error),
    };
    facts.foresee(&shared);
    facts.site.require_readable(how.ignore_defaults)?;
    // Nothing is written before every job of the run has been rendered for this cluster.
    let plans = plan(inputs, connection.as_ref(), &facts, reporter).await?;
    match (how.dry_run, connection) {
        (Some(DryRun::Client), _) | (_, None) => {
            let shared = shared::make(&shared, how, false, context, reporter).await?;
            tell_failed(&shared.failed, how.mode, reporter);
            Ok(Submission::Rendered { plans, shared })
        }
        (_, Some(connection)) => {
            let run = Run {
                how,
                shared: &shared,
                connection,
                context,
                reporter,
                interruption: Interruption::listen(),
            };
            let run = run.write(plans, &facts).await?;
            Ok(Submission::Written(Box::new(run)))
        }
    }
}

async fn known(context: &Context) -> Result<(Connection, PlanningFacts), Error> {
    let connection = context.connect().await?;
    let facts = PlanningFacts::of(&connection).await?;
    Ok((connection, facts))
}

/// Writes pools, quotas and defaults without a job.
async fn shared_alone(
    shared: &[InputDocument],
    how: &SubmitOptions,
    context: &Context,
    reporter: &dyn Reporter,
) -> Result<SharedOutcome, Error> {
    let only = shared.len() == 1;
    // A single document is checked when it is written.
    let mut refused = if only {
        Vec::new()
    } else {
        shared::judge(shared, how, context, reporter).await?
    };
    if refused
        .iter()
        .any(|failed| failed.error.name != ErrorName::AlreadyExists)
    {
        tell_failed(&refused, how.mode, reporter);
        let fresh = shared.iter().filter(|input| !is_among(&refused, input));
        return Ok(SharedOutcome {
            not_tried: fresh.map(InputDocument::name).collect(),
            failed: refused,
            ..SharedOutcome::default()
        });
    }
    let fresh: Vec<InputDocument> = shared
        .iter()
        .filter(|input| !is_among(&refused, input))
        .cloned()
        .collect();
    let mut outcome = shared::make(&fresh, how, only, context, reporter).await?;
    refused.append(&mut outcome.failed);
    outcome.failed = refused;
    tell_failed(&outcome.failed, how.mode, reporter);
    Ok(outcome)
}
