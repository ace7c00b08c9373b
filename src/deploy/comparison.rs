//! Compares a document with the existing job of the same name, and lets the API server check the
//! new pods.

use std::time::Duration;

use serde_json::Value;

use crate::deploy::defaults::replaced;
use crate::deploy::errors::obstacle_error;
use crate::deploy::plan::Plan;
use gpuctl_cluster::{Connection, Effects, Obstacle};
use gpuctl_core::error::Error;
use gpuctl_core::model::contract::labels::{SOURCE, USER};
use gpuctl_manifest::compare::Masks;
use gpuctl_manifest::render::{Refusal, Rendered, render};

/// Options for comparing a document with the existing job.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Comparison {
    /// Whether to take over fields that other managers own.
    pub force: bool,
    /// Whether to apply the site's defaults if they are newer than the job, even if the file has
    /// not changed.
    pub renew: bool,
    pub dry_run: bool,
}

/// Number of comparisons, and the pause between them, while a job's objects lack owner references.
const ADOPTION_TRIES: u32 = 8;
const ADOPTION_STEP: Duration = Duration::from_millis(500);

/// Like `compare`, but repeats the comparison while the job's objects only lack their owner
/// references. Another run may still be creating the job, and sets the references last.
pub(crate) async fn compare_adopted(
    plan: &mut Plan,
    live: &Value,
    options: Comparison,
    warnings: &mut Vec<String>,
    connection: &Connection,
) -> Result<Effects, Error> {
    for _ in 0..ADOPTION_TRIES {
        let mut new_warnings = Vec::new();
        let effects = compare(plan, live, options, &mut new_warnings, connection).await?;
        if !effects.only_adopts() {
            warnings.append(&mut new_warnings);
            return Ok(effects);
        }
        tokio::time::sleep(ADOPTION_STEP).await;
    }
    compare(plan, live, options, warnings, connection).await
}

/// Computes the changes that applying a document makes to the existing job. The job keeps its
/// submitting user. If the user is not allowed to create the priority class, omits it, as for a new
/// job.
pub(crate) async fn compare(
    plan: &mut Plan,
    live: &Value,
    options: Comparison,
    warnings: &mut Vec<String>,
    connection: &Connection,
) -> Result<Effects, Error> {
    let user = live
        .pointer("/metadata/annotations")
        .and_then(|annotations| annotations.get(USER))
        .and_then(Value::as_str);
    if plan.target.user.as_deref() != user {
        plan.target.user = user.map(ToOwned::to_owned);
        render_again(plan)?;
    }
    let effects = connection
        .writes()
        .effects(&plan.rendered, live, options.force, options.renew)
        .await?;
    warnings.extend(effects.warnings.iter().cloned());
    // Without changes, no new pods need a check.
    if effects.changes_nothing() {
        return Ok(effects);
    }
    match connection
        .writes()
        .judge_pod(&plan.rendered, options.dry_run)
        .await
    {
        Err(Obstacle::NoPriorityClass) if !plan.target.without_priority => {
            // The guard of this arm prevents a second repetition.
            plan.target.without_priority = true;
            render_again(plan)?;
            Box::pin(compare(plan, live, options, warnings, connection)).await
        }
        verdict => check_verdict(verdict, plan, warnings).map(|()| effects),
    }
}

/// Fails if the API server rejects the new pods or their owner. An exceeded quota is only a
/// warning, because the old pods still count against it.
pub(crate) fn check_verdict(
    verdict: Result<Vec<String>, Obstacle>,
    plan: &Plan,
    warnings: &mut Vec<String>,
) -> Result<(), Error> {
    match verdict {
        Ok(pod_warnings) => warnings.extend(pod_warnings),
        Err(Obstacle::PodQuota(failure)) => {
            warnings.push(format!(
                "the new pods exceed the quota until the old ones end: {failure}"
            ));
        }
        Err(obstacle) => return Err(obstacle_error(obstacle, plan)),
    }
    Ok(())
}

pub(crate) fn render_again(plan: &mut Plan) -> Result<(), Error> {
    let to_error = |refusal: Refusal| refusal.in_file(&plan.input.file, &plan.input.text);
    plan.rendered = render(&plan.input.document, &plan.target).map_err(to_error)?;
    plan.rendered.warnings.extend(replaced(&plan.input));
    Ok(())
}

/// Collects the secrets in the existing job and in the new one.
pub(crate) fn masks(rendered: &Rendered, live: &Value) -> Masks {
    let (before, after) = sources(rendered, live);
    Masks::for_change(&before, &after)
}

/// Returns the stored YAML of the existing job and of the new one. A missing YAML is an empty text.
pub(crate) fn sources(rendered: &Rendered, live: &Value) -> (String, String) {
    let source = |body: &Value| {
        let stored = body
            .pointer("/metadata/annotations")
            .and_then(|annotations| annotations.get(SOURCE))
            .and_then(Value::as_str);
        stored.unwrap_or_default().to_owned()
    };
    let root = rendered.objects.last().expect("a document has an owner");
    (source(live), source(&root.body))
}
