//! `gpuctl diff`: prints what `apply` would change, using server-side dry runs.

mod pools;

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::cli::files::diff::Diff;
use crate::concurrent::OrderedConcurrent;
use crate::context::Context;
use crate::deploy::MAX_CONCURRENT;
use crate::deploy::comparison::{Comparison, compare, masks, sources};
use crate::deploy::errors::supervisor_error;
use crate::deploy::events::{DeployEvent, Reporter};
use crate::deploy::plan::Plan;
use crate::deploy::planned_files::{PlannedFiles, read_plans};
use crate::deploy::warnings::DeduplicatedWarnings;
use crate::deploy::{defaults, quota_plan, quotas};
use crate::show::reporter::TerminalReporter;
use gpuctl_cluster::{Connection, Effect, label};
use gpuctl_core::error::{Error, ResultCode};
use gpuctl_manifest::compare::Masks;
use gpuctl_manifest::render::{DEFAULTS_FILE, Object, namespace};
use gpuctl_manifest::spec::{Document, masked};
use gpuctl_view::files::changes::{Difference, list, text};
use gpuctl_view::jobs::local_files;
use gpuctl_view::{Format, document};

use pools::diff_pool;

pub(crate) async fn run(args: &Diff, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    let reporter = TerminalReporter::new(&context.terminal, format);
    let PlannedFiles {
        connection,
        shared,
        plans,
    } = read_plans(
        &args.files,
        &args.sets,
        &args.local.access()?,
        context,
        &reporter,
    )
    .await?;
    let mut differences = Vec::new();
    for input in &shared {
        differences.extend(diff_shared(&connection, &input.document, &reporter).await?);
    }
    let files = plans
        .iter()
        .flat_map(|plan| local_files::lines(&plan.input.attached.files));
    files.for_each(|line| reporter.report(DeployEvent::Report(&line)));
    let names: Vec<String> = plans
        .iter()
        .map(|plan| plan.job_name().to_owned())
        .collect();
    let mut all_warnings = DeduplicatedWarnings::default();
    let mut jobs = OrderedConcurrent::new(
        plans.into_iter().map(|plan| diff_job(&connection, plan)),
        MAX_CONCURRENT,
    );
    for name in &names {
        let Some(job) = jobs.next().await else { break };
        let (job_differences, warnings) = job?;
        all_warnings.add(name, &warnings);
        differences.extend(job_differences);
    }
    drop(jobs);
    all_warnings.report(names.len(), &reporter);
    let answer = document(format, &list(&differences));
    context
        .terminal
        .print(&answer.unwrap_or_else(|| text(&differences, context.terminal.style())))?;
    Ok(if differences.is_empty() {
        ExitCode::SUCCESS
    } else {
        // `kubectl diff` exits with 1 here, but gpuctl uses 1 for failed requests.
        ExitCode::from(ResultCode::Different.exit_code())
    })
}

/// Compares a job with its live objects. Returns differences and warnings.
async fn diff_job(
    connection: &Connection,
    mut plan: Plan,
) -> Result<(Vec<Difference>, Vec<String>), Error> {
    let namespace = plan.target.namespace.clone();
    let Some(live) = connection.writes().live_owner(&plan.rendered).await? else {
        return diff_new_job(connection, &plan).await;
    };
    let mut warnings = Vec::new();
    let effects = compare(
        &mut plan,
        &live,
        Comparison {
            dry_run: true,
            ..Comparison::default()
        },
        &mut warnings,
        connection,
    )
    .await?;
    if let Some(error) = supervisor_error(&effects, &plan) {
        return Err(error);
    }
    let masks = masks(&plan.rendered, &live);
    let mut differences = Vec::new();
    let name = format!(
        "{}/{}",
        plan.input.document.kind(),
        plan.input.document.name()
    );
    for (object, effect) in &effects.objects {
        match effect {
            Effect::Immutable { .. } if effects.same_source => {}
            Effect::Immutable { .. } => {
                warnings.push(format!(
                    "{name} cannot be changed in place: `gpuctl apply --replace` replaces it"
                ));
                differences.extend(effect_difference(object, effect, &masks));
            }
            effect => {
                differences
                    .extend(diff_effect(connection, object, effect, &masks, &mut warnings).await?);
            }
        }
    }
    differences.extend(
        effects
            .stale
            .iter()
            .map(|part| Difference::deleted(&namespace, &part.label())),
    );
    let (stored_source, new_source) = sources(&plan.rendered, &live);
    if !differences.is_empty() && !stored_source.is_empty() && stored_source != new_source {
        differences.insert(
            0,
            Difference::of_file(
                &namespace,
                &name,
                masked(&stored_source),
                masked(&new_source),
            ),
        );
    }
    Ok((differences, warnings))
}

/// Returns the differences and warnings of a job that does not exist.
async fn diff_new_job(
    connection: &Connection,
    plan: &Plan,
) -> Result<(Vec<Difference>, Vec<String>), Error> {
    let namespace = &plan.target.namespace;
    let masks = masks(&plan.rendered, &Value::Null);
    let (mut differences, mut warnings) = (Vec::new(), Vec::new());
    for object in plan.rendered.objects.iter().filter(|object| !object.shared) {
        match connection.writes().live(object).await? {
            // Objects such as volume claims outlive their job, and the next job reuses them.
            Some(live) if object.kept => drop(live),
            Some(_) => {
                warnings.push(format!(
                    "{} in {namespace} exists but does not belong to this job: `apply` would fail",
                    label(object)
                ));
            }
            None => differences.push(new_object(object, &masks)),
        }
    }
    Ok((differences, warnings))
}

/// Returns the difference of one write. After a conflict, shows the result of taking over the
/// fields.
async fn diff_effect(
    connection: &Connection,
    object: &Object,
    effect: &Effect,
    masks: &Masks,
    warnings: &mut Vec<String>,
) -> Result<Option<Difference>, Error> {
    let Effect::Conflict(fields) = effect else {
        return Ok(effect_difference(object, effect, masks));
    };
    for blame in fields {
        let message = format!("{} {}: {}", label(object), blame.field, blame.message);
        warnings.push(format!(
            "{message}; use `apply --force-conflicts` to take over the field"
        ));
    }
    Ok(effect_difference(
        object,
        &connection.writes().effect(object, true).await?,
        masks,
    ))
}

fn new_object(object: &Object, masks: &Masks) -> Difference {
    Difference::new(
        object.namespace().unwrap_or_default(),
        &label(object),
        &masks.desired(&object.body),
    )
}

fn effect_difference(object: &Object, effect: &Effect, masks: &Masks) -> Option<Difference> {
    let namespace = object.namespace().unwrap_or_default();
    match effect {
        Effect::Created => Some(new_object(object, masks)),
        Effect::Changed { live, desired } => Some(Difference::changed(
            namespace,
            &label(object),
            &masks.live(live),
            &masks.desired(desired),
        )),
        Effect::Immutable { live, desired } => Some(Difference::fixed(
            namespace,
            &label(object),
            &masks.live(live),
            &masks.desired(desired),
        )),
        Effect::Repaired(repair) => Some(Difference::changed(
            namespace,
            &label(object),
            &masks.live(&repair.live),
            &masks.desired(&repair.desired),
        )),
        Effect::Unchanged | Effect::Conflict(_) => None,
    }
}

/// Compares a document that is not a job: pools by definition and labels, quotas by their objects.
async fn diff_shared(
    connection: &Connection,
    document: &Document,
    reporter: &dyn Reporter,
) -> Result<Vec<Difference>, Error> {
    match document {
        Document::Pool(pool) => Ok(diff_pool(connection, pool, reporter)
            .await?
            .into_iter()
            .collect()),
        Document::Quota(quota) => {
            let mut differences = Vec::new();
            let declared = quota_plan::objects(connection, quota, reporter).await?;
            let stale = quota_plan::stale(connection, quota, &declared).await?;
            quotas::warn_of_other_namespaces(connection, quota, reporter).await;
            for (space, objects) in declared {
                let namespace_exists = connection
                    .writes()
                    .live(&namespace(&space))
                    .await?
                    .is_some();
                if !namespace_exists {
                    differences.push(new_object(&namespace(&space), &Masks::default()));
                }
                for object in objects {
                    match namespace_exists {
                        true => {
                            let effect = connection.writes().effect(&object, false).await?;
                            let mut warnings = Vec::new();
                            differences.extend(
                                diff_effect(
                                    connection,
                                    &object,
                                    &effect,
                                    &Masks::default(),
                                    &mut warnings,
                                )
                                .await?,
                            );
                            warnings.iter().for_each(|warning| reporter.warn(warning));
                        }
                        false => differences.push(new_object(&object, &Masks::default())),
                    }
                }
            }
            differences.extend(
                stale
                    .iter()
                    .map(|part| Difference::deleted(&part.namespace, &part.label())),
            );
            Ok(differences)
        }
        Document::Defaults(site) => {
            let object = defaults::object(connection, site).await?;
            Ok(match connection.writes().live(&object).await? {
                None => vec![diff_defaults(&label(&object), &Value::Null, &object.body)],
                Some(live) if live["data"] == object.body["data"] => Vec::new(),
                Some(live) => vec![diff_defaults(&label(&object), &live, &object.body)],
            })
        }
        Document::Job(_) => Ok(Vec::new()),
    }
}

/// Compares the site's live defaults with the file. Secrets are masked, so a placeholder marks a
/// change that affects only a secret.
fn diff_defaults(label: &str, live: &Value, desired: &Value) -> Difference {
    let text = |body: &Value| {
        body["data"][DEFAULTS_FILE]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let (live_text, desired_text) = (text(live), text(desired));
    let mut shown = [
        json!({DEFAULTS_FILE: masked(&live_text)}),
        json!({DEFAULTS_FILE: masked(&desired_text)}),
    ];
    if shown[0] == shown[1] {
        (shown[0]["secrets"], shown[1]["secrets"]) = ("*** (before)".into(), "*** (after)".into());
    }
    Difference::changed("", label, &shown[0], &shown[1])
}
