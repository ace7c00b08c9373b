//! Submits documents: plans and decides about all of them, writes each one completely or not at
//! all, and waits if requested.

use crate::context::Context;
use crate::deploy::defaults;
use crate::deploy::events::Reporter;
use crate::deploy::inputs::InputDocument;
use crate::deploy::interrupt::Interruption;
use crate::deploy::options::SubmitOptions;
use crate::deploy::plan::{Plan, PlanningFacts, job, plan};
use crate::deploy::run::{Run, WrittenRun, is_among, report_failures};
use crate::deploy::shared::{self, SharedOutcome};
use gpuctl_cluster::Connection;
use gpuctl_cluster::DryRun;
use gpuctl_core::error::{Error, ErrorKind, ErrorName};

/// Result of a submission.
pub(crate) enum Submission {
    /// Objects as they would be sent. No write request was sent.
    Rendered {
        plans: Vec<Plan>,
        shared: SharedOutcome,
    },
    /// Pools, quotas and defaults of a run without jobs.
    Shared(SharedOutcome),
    /// Jobs, with the pools, quotas and defaults of the run.
    Written(Box<WrittenRun>),
}

/// Submits the documents, or reports what would be submitted. The caller must have checked the
/// options with `submit_checks`.
pub(crate) async fn submit(
    inputs: Vec<InputDocument>,
    options: &SubmitOptions,
    context: &Context,
    reporter: &dyn Reporter,
) -> Result<Submission, Error> {
    let (shared, inputs): (Vec<InputDocument>, Vec<InputDocument>) =
        inputs.into_iter().partition(|input| job(input).is_none());
    if options.trust_namespace && options.dry_run.is_none() {
        defaults::trust_namespace(&context.connect().await?, options.private, reporter).await?;
    }
    if inputs.is_empty() {
        let outcome = submit_shared(&shared, options, context, reporter).await?;
        return Ok(Submission::Shared(outcome));
    }
    let (connection, mut facts) = match read_facts(context).await {
        // A client-side dry run does not need a cluster.
        Ok((connection, facts)) => (Some(connection), facts),
        Err(error) if options.dry_run == Some(DryRun::Client) && lacks_cluster(&error) => {
            reporter.warn(&format!(
                "{error}; rendering objects without information about the nodes"
            ));
            (None, PlanningFacts::default())
        }
        Err(error) => return Err(error),
    };
    facts.add_planned(&shared);
    facts.site.require_readable(options.ignore_defaults)?;
    // Render all jobs of the run before writing anything.
    let plans = plan(inputs, connection.as_ref(), &facts, reporter).await?;
    match (options.dry_run, connection) {
        (Some(DryRun::Client), _) | (_, None) => {
            let shared = shared::write(&shared, options, false, context, reporter).await?;
            report_failures(&shared.failed, options.mode, reporter);
            Ok(Submission::Rendered { plans, shared })
        }
        (_, Some(connection)) => {
            let run = Run {
                options,
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

/// Returns true if no cluster is configured, or if the cluster cannot be reached.
fn lacks_cluster(error: &Error) -> bool {
    error.kind == ErrorKind::Unreachable || error.name == ErrorName::InvalidKubeconfig
}

async fn read_facts(context: &Context) -> Result<(Connection, PlanningFacts), Error> {
    let connection = context.connect().await?;
    let facts = PlanningFacts::read(&connection).await?;
    Ok((connection, facts))
}

/// Writes pools, quotas and defaults of a run without jobs.
async fn submit_shared(
    shared: &[InputDocument],
    options: &SubmitOptions,
    context: &Context,
    reporter: &dyn Reporter,
) -> Result<SharedOutcome, Error> {
    let is_single = shared.len() == 1;
    // A single document is checked when it is written.
    let mut failures = if is_single {
        Vec::new()
    } else {
        shared::check(shared, options, context, reporter).await?
    };
    if failures
        .iter()
        .any(|failed| failed.error.name != ErrorName::AlreadyExists)
    {
        report_failures(&failures, options.mode, reporter);
        let new_documents = shared.iter().filter(|input| !is_among(&failures, input));
        return Ok(SharedOutcome {
            not_tried: new_documents.map(InputDocument::name).collect(),
            failed: failures,
            ..SharedOutcome::default()
        });
    }
    let new_documents: Vec<InputDocument> = shared
        .iter()
        .filter(|input| !is_among(&failures, input))
        .cloned()
        .collect();
    let mut outcome = shared::write(&new_documents, options, is_single, context, reporter).await?;
    failures.append(&mut outcome.failed);
    outcome.failed = failures;
    report_failures(&outcome.failed, options.mode, reporter);
    Ok(outcome)
}
