//! `diff`: what `apply` would change, as the API server itself foresees it. Writes nothing.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use crate::cluster::{Connection, Effect, label};
use crate::error::{Error, Kind};
use crate::model::{Noted, PoolDefinition};
use crate::render::{Object, namespace};
use crate::spec::{Document, Override, Pool};
use crate::view::changes::{Difference, Masks, text};
use crate::view::{Format, document};

use super::create::named;
use super::inputs::{self, Input};
use super::judgement::{compare, masks};
use super::planning::{self, Facts, Plan, job, plan};
use super::{OneFormat, World, pool_changes, quota_changes};

/// Show what `apply` would change in the cluster
///
/// The API server is asked by a dry run, so what it fills in by itself is no difference. Values that look like secrets are
/// not shown. Ends with 0 when there is no difference and with 1 when there is one; an error leaves stdout empty.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl diff -f service.yaml
  gpuctl diff -f jobs/ -o json
  gpuctl diff -f service.yaml --set service.replicas=4")]
pub struct Diff {
    /// File, folder of *.yaml files, or - for stdin; may be repeated
    #[arg(short, long = "filename", required = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    files: Vec<String>,
    /// Change a field of every document first, as resources.gpu=4; may be repeated
    #[arg(long = "set", value_name = "FIELD=VALUE", value_parser = Override::parse)]
    sets: Vec<Override>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

pub async fn run(args: &Diff, world: &World) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    world.terminal.set_format(format);
    let inputs = inputs::read(&args.files, &args.sets).map_err(|errors| planning::all(world, errors))?;
    inputs.warnings.iter().for_each(|problems| world.terminal.warn_about(problems));
    let (shared, jobs): (Vec<Input>, Vec<Input>) =
        named(inputs.documents, false)?.into_iter().partition(|input| job(input).is_none());
    let connection = world.connect().await?;
    let mut facts = Facts::of(&connection).await?;
    facts.foresee(&shared);
    let plans = plan(jobs, Some(&connection), &facts, world).await?;
    let mut found = Vec::new();
    for input in &shared {
        found.extend(of_shared(&connection, &input.document, world).await?);
    }
    for plan in plans {
        found.extend(of_job(&connection, plan, world).await?);
    }
    let answer = document(format, &found.iter().map(Difference::value).collect::<Vec<Value>>());
    world.terminal.print(&answer.unwrap_or_else(|| text(&found, world.terminal.look())))?;
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(Kind::Request.exit_code()) })
}

async fn of_job(connection: &Connection, mut plan: Plan, world: &World) -> Result<Vec<Difference>, Error> {
    let space = plan.target.namespace.clone();
    let Some(live) = connection.live_owner(&plan.rendered).await? else {
        let masks = masks(&plan.rendered, &Value::Null);
        let mut found = Vec::new();
        for object in plan.rendered.objects.iter().filter(|object| !object.shared) {
            match connection.live(object).await? {
                Some(live) if object.kept => drop(live),
                Some(_) => {
                    world.terminal.warn(&format!("{} in {space} is there and not of this job: `apply` refuses", label(object)))
                }
                None => found.push(new(object, &masks)),
            }
        }
        return Ok(found);
    };
    let mut warnings = Vec::new();
    let effects = compare(&mut plan, &live, (false, true), &mut warnings, connection).await?;
    warnings.iter().for_each(|warning| world.terminal.warn(warning));
    let masks = masks(&plan.rendered, &live);
    let mut found = Vec::new();
    let name = format!("{}/{}", plan.input.document.kind(), plan.input.document.name());
    for (object, effect) in &effects.objects {
        match effect {
            Effect::Fixed { .. } if effects.same_source => {}
            Effect::Fixed { .. } => {
                world.terminal.warn(&format!("{name} cannot be changed in place: `gpuctl apply --replace` submits it anew"));
                found.extend(of_effect(object, effect, &masks));
            }
            effect => found.extend(foreseen(connection, object, effect, &masks, world).await?),
        }
    }
    found.extend(effects.stale.iter().map(|one| Difference::gone(&space, &one.label())));
    Ok(found)
}

/// The difference of an effect; where others own fields, as if they were taken over.
async fn foreseen(
    connection: &Connection,
    object: &Object,
    effect: &Effect,
    masks: &Masks,
    world: &World,
) -> Result<Option<Difference>, Error> {
    let Effect::Conflict(fields) = effect else { return Ok(of_effect(object, effect, masks)) };
    for one in fields {
        let told = format!("{} {}: {}", label(object), one.field, one.message);
        world.terminal.warn(&format!("{told}; `apply --force-conflicts` takes it over"));
    }
    Ok(of_effect(object, &connection.effect(object, true).await?, masks))
}

fn new(object: &Object, masks: &Masks) -> Difference {
    Difference::new(object.namespace().unwrap_or_default(), &label(object), &masks.wanted(&object.body))
}

fn of_effect(object: &Object, effect: &Effect, masks: &Masks) -> Option<Difference> {
    let space = object.namespace().unwrap_or_default();
    match effect {
        Effect::Made => Some(new(object, masks)),
        Effect::Changed { live, wanted } => {
            Some(Difference::changed(space, &label(object), &masks.live(live), &masks.wanted(wanted)))
        }
        Effect::Fixed { live, wanted } => {
            Some(Difference::fixed(space, &label(object), &masks.live(live), &masks.wanted(wanted)))
        }
        Effect::Nothing | Effect::Conflict(_) => None,
    }
}

/// Pools by what is written down of them, quotas by their objects.
async fn of_shared(connection: &Connection, document: &Document, world: &World) -> Result<Vec<Difference>, Error> {
    match document {
        Document::Pool(pool) => Ok(of_pool(connection, pool, world).await?.into_iter().collect()),
        Document::Quota(quota) => {
            let mut found = Vec::new();
            let described = quota_changes::objects(connection, quota, world).await?;
            let stale = quota_changes::stale(connection, quota, &described).await?;
            quota_changes::tell_elsewhere(connection, quota, world).await;
            for (space, objects) in described {
                let there = connection.live(&namespace(&space)).await?.is_some();
                if !there {
                    found.push(new(&namespace(&space), &Masks::default()));
                }
                for object in objects {
                    match there {
                        true => {
                            let effect = connection.effect(&object, false).await?;
                            found.extend(foreseen(connection, &object, &effect, &Masks::default(), world).await?);
                        }
                        false => found.push(new(&object, &Masks::default())),
                    }
                }
            }
            found.extend(stale.iter().map(|part| Difference::gone(&part.namespace, &part.label())));
            Ok(found)
        }
        Document::Job(_) => Ok(Vec::new()),
    }
}

/// Labels by node.
type Nodes = BTreeMap<String, BTreeMap<String, String>>;

async fn of_pool(connection: &Connection, pool: &Pool, world: &World) -> Result<Option<Difference>, Error> {
    let mut planned = match pool_changes::plan(connection, pool, false).await {
        Ok(planned) => planned,
        // What `apply` would refuse is a difference all the same.
        Err(error) if matches!(error.kind, Kind::Request | Kind::Access) => {
            world.terminal.warn(&format!("`apply` refuses pool `{}`: {error}", pool.name.value));
            pool_changes::Planned::without_nodes(pool, connection.pool(&pool.name.value).await?.map(|known| known.pool))
        }
        Err(error) => return Err(error),
    };
    for node in planned.missing {
        world.terminal.warn(&format!("there is no node {node}: `apply` refuses"));
        planned.wanted.labels.insert(node, BTreeMap::new());
    }
    let nodes = |pool: &PoolDefinition| -> Nodes {
        let values = |set: &BTreeMap<String, Noted>| set.iter().map(|(key, noted)| (key.clone(), noted.value.clone())).collect();
        pool.labels.iter().map(|(node, set)| (node.clone(), values(set))).collect()
    };
    let told = |pool: &PoolDefinition, nodes: Nodes| {
        json!({
            "description": pool.description, "gpu-type": pool.gpu_types,
            "quota": {"maxJobs": pool.max_jobs, "maxGpuPerJob": pool.max_gpu_per_job}, "nodes": nodes,
        })
    };
    let name = format!("pool/{}", pool.name.value);
    let Some(before) = planned.before else {
        return Ok(Some(Difference::new("", &name, &told(&planned.wanted, nodes(&planned.wanted)))));
    };
    let after = before.changed_to(&planned.wanted);
    // What is written down of a node and what it has are two things.
    let mut there = nodes(&before);
    for step in planned.steps {
        if let Some(labels) = there.get_mut(&step.node) {
            labels.remove(&step.key);
            labels.extend(step.before.map(|value| (step.key, value)));
        }
    }
    let (live, wanted) = (told(&before, there), told(&after, nodes(&after)));
    Ok((live != wanted).then(|| Difference::changed("", &name, &live, &wanted)))
}
