//! `gpuctl diff`: prints what `apply` would change, according to the API server's dry run. It
//! writes nothing.

mod pools;

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::cli::files::diff::Diff;
use crate::concurrent::SideBySide;
use crate::context::Context;
use crate::deploy::AT_ONCE;
use crate::deploy::errors::lost_companion;
use crate::deploy::events::{DeployEvent, Reporter};
use crate::deploy::plan::Plan;
use crate::deploy::planned::{Planned, planned};
use crate::deploy::reapply::{Comparison, compare, masks, sources};
use crate::deploy::warnings::Warned;
use crate::deploy::{defaults, quota_plan, quotas};
use crate::show::reporter::TerminalReporter;
use gpuctl_cluster::{Connection, Effect, label};
use gpuctl_core::error::{Error, ErrorKind};
use gpuctl_manifest::compare::Masks;
use gpuctl_manifest::render::{DEFAULTS_FILE, Object, namespace};
use gpuctl_manifest::spec::{Document, masked};
use gpuctl_view::files::changes::{Difference, text};
use gpuctl_view::jobs::local_files;
use gpuctl_view::{Format, document};

use pools::of_pool;

pub(crate) async fn run(args: &Diff, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    let reporter = TerminalReporter::new(&context.terminal, format);
    let Planned {
        connection,
        shared,
        plans,
    } = planned(
        &args.files,
        &args.sets,
        &args.local.access()?,
        context,
        &reporter,
    )
    .await?;
    let mut found = Vec::new();
    for input in &shared {
        found.extend(of_shared(&connection, &input.document, &reporter).await?);
    }
    let files = plans
        .iter()
        .flat_map(|plan| local_files::lines(&plan.input.attached.files));
    files.for_each(|line| reporter.tell(DeployEvent::Report(&line)));
    let names: Vec<String> = plans
        .iter()
        .map(|plan| plan.job_name().to_owned())
        .collect();
    let mut warned = Warned::default();
    let mut jobs = SideBySide::new(
        plans.into_iter().map(|plan| of_job(&connection, plan)),
        AT_ONCE,
    );
    for name in &names {
        let Some(job) = jobs.next().await else { break };
        let (differences, warnings) = job?;
        warned.add(name, &warnings);
        found.extend(differences);
    }
    drop(jobs);
    warned.tell(names.len(), &reporter);
    let answer = document(
        format,
        &found
            .iter()
            .filter(|one| !one.is_of_file())
            .map(Difference::document)
            .collect::<Vec<_>>(),
    );
    context
        .terminal
        .print(&answer.unwrap_or_else(|| text(&found, context.terminal.style())))?;
    Ok(if found.is_empty() {
        ExitCode::SUCCESS
    } else {
        // Like `kubectl diff`, exit with 1 if there are differences.
        ExitCode::from(ErrorKind::Request.exit_code())
    })
}

/// Compares one job with its live objects. Returns the differences and warnings.
async fn of_job(
    connection: &Connection,
    mut plan: Plan,
) -> Result<(Vec<Difference>, Vec<String>), Error> {
    let space = plan.target.namespace.clone();
    let Some(live) = connection.writes().live_owner(&plan.rendered).await? else {
        return of_new_job(connection, &plan).await;
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
    if let Some(error) = lost_companion(&effects, &plan) {
        return Err(error);
    }
    let masks = masks(&plan.rendered, &live);
    let mut found = Vec::new();
    let name = format!(
        "{}/{}",
        plan.input.document.kind(),
        plan.input.document.name()
    );
    for (object, effect) in &effects.objects {
        match effect {
            Effect::Fixed { .. } if effects.same_source => {}
            Effect::Fixed { .. } => {
                warnings.push(format!(
                    "{name} cannot be changed in place: `gpuctl apply --replace` replaces it"
                ));
                found.extend(of_effect(object, effect, &masks));
            }
            effect => {
                found.extend(foreseen(connection, object, effect, &masks, &mut warnings).await?);
            }
        }
    }
    found.extend(
        effects
            .stale
            .iter()
            .map(|one| Difference::gone(&space, &one.label())),
    );
    let (before, after) = sources(&plan.rendered, &live);
    if !found.is_empty() && !before.is_empty() && before != after {
        found.insert(
            0,
            Difference::of_file(&space, &name, masked(&before), masked(&after)),
        );
    }
    Ok((found, warnings))
}

/// Builds the differences and warnings of a job that does not exist yet.
async fn of_new_job(
    connection: &Connection,
    plan: &Plan,
) -> Result<(Vec<Difference>, Vec<String>), Error> {
    let space = &plan.target.namespace;
    let masks = masks(&plan.rendered, &Value::Null);
    let (mut found, mut warnings) = (Vec::new(), Vec::new());
    for object in plan.rendered.objects.iter().filter(|object| !object.shared) {
        match connection.writes().live(object).await? {
            // Objects such as volume claims outlive their job and are reused by the next one.
            Some(live) if object.kept => drop(live),
            Some(_) => {
                warnings.push(format!(
                    "{} in {space} exists but does not belong to this job: `apply` would fail",
                    label(object)
                ));
            }
            None => found.push(new(object, &masks)),
        }
    }
    Ok((found, warnings))
}

/// Builds the difference of one effect. In a conflict, shows the result of taking over the fields.
async fn foreseen(
    connection: &Connection,
    object: &Object,
    effect: &Effect,
    masks: &Masks,
    warnings: &mut Vec<String>,
) -> Result<Option<Difference>, Error> {
    let Effect::Conflict(fields) = effect else {
        return Ok(of_effect(object, effect, masks));
    };
    for one in fields {
        let told = format!("{} {}: {}", label(object), one.field, one.message);
        warnings.push(format!("{told}; `apply --force-conflicts` takes it over"));
    }
    Ok(of_effect(
        object,
        &connection.writes().effect(object, true).await?,
        masks,
    ))
}

fn new(object: &Object, masks: &Masks) -> Difference {
    Difference::new(
        object.namespace().unwrap_or_default(),
        &label(object),
        &masks.desired(&object.body),
    )
}

fn of_effect(object: &Object, effect: &Effect, masks: &Masks) -> Option<Difference> {
    let space = object.namespace().unwrap_or_default();
    match effect {
        Effect::Made => Some(new(object, masks)),
        Effect::Changed { live, wanted } => Some(Difference::changed(
            space,
            &label(object),
            &masks.live(live),
            &masks.desired(wanted),
        )),
        Effect::Fixed { live, wanted } => Some(Difference::fixed(
            space,
            &label(object),
            &masks.live(live),
            &masks.desired(wanted),
        )),
        Effect::Repaired(repair) => Some(Difference::changed(
            space,
            &label(object),
            &masks.live(&repair.live),
            &masks.desired(&repair.wanted),
        )),
        Effect::Nothing | Effect::Conflict(_) => None,
    }
}

/// Compares pools by their definitions and labels, and quotas by their objects.
async fn of_shared(
    connection: &Connection,
    document: &Document,
    reporter: &dyn Reporter,
) -> Result<Vec<Difference>, Error> {
    match document {
        Document::Pool(pool) => Ok(of_pool(connection, pool, reporter)
            .await?
            .into_iter()
            .collect()),
        Document::Quota(quota) => {
            let mut found = Vec::new();
            let described = quota_plan::objects(connection, quota, reporter).await?;
            let stale = quota_plan::stale(connection, quota, &described).await?;
            quotas::tell_elsewhere(connection, quota, reporter).await;
            for (space, objects) in described {
                let there = connection
                    .writes()
                    .live(&namespace(&space))
                    .await?
                    .is_some();
                if !there {
                    found.push(new(&namespace(&space), &Masks::default()));
                }
                for object in objects {
                    match there {
                        true => {
                            let effect = connection.writes().effect(&object, false).await?;
                            let mut warnings = Vec::new();
                            found.extend(
                                foreseen(
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
                        false => found.push(new(&object, &Masks::default())),
                    }
                }
            }
            found.extend(
                stale
                    .iter()
                    .map(|part| Difference::gone(&part.namespace, &part.label())),
            );
            Ok(found)
        }
        Document::Defaults(site) => {
            let object = defaults::object(connection, site).await?;
            Ok(match connection.writes().live(&object).await? {
                None => vec![of_defaults(&label(&object), &Value::Null, &object.body)],
                Some(live) if live["data"] == object.body["data"] => Vec::new(),
                Some(live) => vec![of_defaults(&label(&object), &live, &object.body)],
            })
        }
        Document::Job(_) => Ok(Vec::new()),
    }
}

/// Compares the live defaults of a site with those of the file. Secrets are masked, so a change of
/// only a secret is shown by a placeholder.
fn of_defaults(label: &str, live: &Value, wanted: &Value) -> Difference {
    let text = |body: &Value| {
        body["data"][DEFAULTS_FILE]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let (before, after) = (text(live), text(wanted));
    let mut told = [
        json!({DEFAULTS_FILE: masked(&before)}),
        json!({DEFAULTS_FILE: masked(&after)}),
    ];
    if told[0] == told[1] {
        (told[0]["secrets"], told[1]["secrets"]) = ("*** (before)".into(), "*** (after)".into());
    }
    Difference::changed("", label, &told[0], &told[1])
}
