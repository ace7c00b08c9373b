//! Creates, changes and deletes quotas: a ResourceQuota and a LimitRange in each namespace that the
//! file names.

use std::collections::BTreeSet;

use crate::context::Context;
use crate::deploy::errors::conflict;
use gpuctl_cluster::{Connection, Deletion, Effect, Failure, Namespace, QuotaPart};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::QuotaUse;
use gpuctl_core::model::facts::gpu::{WHOLE, mig_profile};
use gpuctl_manifest::render::{Object, namespace, quota};
use gpuctl_manifest::spec::Quota;
use gpuctl_view::jobs::created::Made;

/// How a quota is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuotaOptions {
    /// An object that exists is changed.
    pub change: bool,
    /// Fields that others set are taken over.
    pub force: bool,
    pub keep_partial: bool,
    pub dry_run: bool,
}

/// What one quota writes: the namespaces that are missing, then the objects in them.
struct QuotaPlan {
    new: Vec<String>,
    objects: Vec<Object>,
    /// Some of it is there already.
    there: bool,
    /// All that is there is as it is wanted.
    same: bool,
    /// What the file describes no more.
    stale: Vec<QuotaPart>,
}

/// Writes a quota into each of its namespaces, which are made where they are missing.
pub(crate) async fn create(
    connection: &Connection,
    wanted: &Quota,
    making: QuotaOptions,
    context: &Context,
) -> Result<Made, Error> {
    let QuotaOptions {
        keep_partial,
        dry_run,
        ..
    } = making;
    let plan = plan(connection, wanted, making, context).await?;
    let steps = plan.new.len() + plan.objects.len() + plan.stale.len();
    let status = match (plan.same, steps, plan.there) {
        (true, 0, true) => "unchanged",
        (_, _, true) => "updated",
        _ => "created",
    };
    if !dry_run {
        let mut done = Vec::new();
        for object in plan
            .new
            .iter()
            .map(|space| namespace(space))
            .chain(plan.objects)
        {
            // A namespace is only made, whoever has it.
            let force = making.force && object.kind() != "Namespace";
            match connection.apply_with(&object, false, force).await {
                Ok(applied) => {
                    let uid = applied
                        .live
                        .pointer("/metadata/uid")
                        .and_then(|uid| uid.as_str())
                        .unwrap_or_default()
                        .to_owned();
                    done.extend(applied.created.then_some((object, uid)));
                }
                Err(failure) => {
                    let error = Error::from(failure)
                        .during(format!("quota `{}` could not be created", wanted.name));
                    return Err(if keep_partial {
                        error
                    } else {
                        error.cause(take_back(connection, done).await)
                    });
                }
            }
        }
    }
    for part in plan.stale.iter().filter(|_| !dry_run) {
        if let Err(failure) = connection.remove_quota_part(part).await {
            let error = Error::from(failure).during(format!(
                "{} of {} could not be removed",
                part.label(),
                part.namespace
            ));
            return Err(error
                .cause("the rest of the quota is written")
                .hint("`gpuctl apply` again goes on"));
        }
    }
    if making.change {
        tell_elsewhere(connection, wanted, context).await;
    }
    if wanted
        .namespaces
        .iter()
        .any(|(_, limits)| limits.gpu.is_some())
    {
        context
            .terminal
            .note("quotas do not count GPUs claimed through dynamic resource allocation");
    }
    let spaces: Vec<&str> = wanted
        .namespaces
        .iter()
        .map(|(space, _)| space.as_str())
        .collect();
    let verb = match (status, dry_run) {
        ("unchanged", _) => "is as the file says",
        (_, true) => "would bind",
        (_, false) => "binds",
    };
    Ok(Made {
        kind: "quota",
        name: wanted.name.clone(),
        status,
        message: format!("{verb} in {}", spaces.join(", ")),
        dry_run,
    })
}

/// Returns the names under which the cluster offers whole GPUs.
async fn resources(
    connection: &Connection,
    wanted: &Quota,
    context: &Context,
) -> Result<BTreeSet<String>, Error> {
    let mut resources = BTreeSet::new();
    if wanted
        .namespaces
        .iter()
        .all(|(_, limits)| limits.gpu.is_none())
    {
        return Ok(resources);
    }
    let nodes = connection.nodes().await?;
    resources.extend(
        nodes
            .all()
            .iter()
            .filter_map(gpuctl_core::model::facts::node::Node::whole_resource)
            .map(ToOwned::to_owned),
    );
    if resources.is_empty() {
        resources.insert(WHOLE[0].to_owned());
        context.terminal.warn(&format!(
            "no node with GPUs was found: the quota is written for {}",
            WHOLE[0]
        ));
    }
    let sliced: BTreeSet<&str> = nodes
        .all()
        .iter()
        .flat_map(|node| node.allocatable.keys())
        .filter_map(|name| mig_profile(name))
        .collect();
    if !sliced.is_empty() {
        let sliced: Vec<&str> = sliced.into_iter().collect();
        context.terminal.warn(&format!(
            "slices ({}) are not counted by `gpu`",
            sliced.join(", ")
        ));
    }
    if resources.len() > 1 {
        let names: Vec<&str> = resources.iter().map(String::as_str).collect();
        let message = format!(
            "{} are counted each by themselves: a namespace may use as many of each",
            names.join(" and ")
        );
        context.terminal.warn(&message);
    }
    Ok(resources)
}

/// Returns what a quota is in each of its namespaces.
pub(crate) async fn objects(
    connection: &Connection,
    wanted: &Quota,
    context: &Context,
) -> Result<Vec<(String, Vec<Object>)>, Error> {
    let resources = resources(connection, wanted, context).await?;
    let of = |space: &str, limits| {
        quota(
            &wanted.name,
            wanted.description.as_deref(),
            space,
            limits,
            &resources,
        )
    };
    Ok(wanted
        .namespaces
        .iter()
        .map(|(space, limits)| (space.clone(), of(space, limits)))
        .collect())
}

/// Objects of this quota that limits of the file do not need any more.
pub(crate) async fn stale(
    connection: &Connection,
    wanted: &Quota,
    described: &[(String, Vec<Object>)],
) -> Result<Vec<QuotaPart>, Error> {
    let mut stale = Vec::new();
    for (space, objects) in described {
        let parts = connection.quota_parts(space, &wanted.name).await?;
        stale.extend(
            parts
                .into_iter()
                .filter(|part| objects.iter().all(|object| object.plural != part.plural)),
        );
    }
    Ok(stale)
}

/// Says where else a quota of this name binds. Another file may have made it there, so nothing of
/// it is taken away.
pub(crate) async fn tell_elsewhere(connection: &Connection, wanted: &Quota, context: &Context) {
    let Ok(all) = connection.quotas(None).await else {
        return;
    };
    for quota in all
        .iter()
        .filter(|quota| quota.quota.as_ref() == Some(&wanted.name))
    {
        let space = &quota.namespace;
        if wanted.namespaces.iter().all(|(own, _)| own != space) {
            context.terminal.warn(&format!(
                "quota `{0}` also binds in {space}, which the file does not name; `gpuctl delete quota {0} -n {space}` takes it out",
                wanted.name
            ));
        }
    }
}

/// Looks into every namespace before anything is written.
async fn plan(
    connection: &Connection,
    wanted: &Quota,
    making: QuotaOptions,
    context: &Context,
) -> Result<QuotaPlan, Error> {
    let QuotaOptions { change, force, .. } = making;
    let described = objects(connection, wanted, context).await?;
    let stale = if change {
        stale(connection, wanted, &described).await?
    } else {
        Vec::new()
    };
    let mut plan = QuotaPlan {
        new: Vec::new(),
        objects: Vec::new(),
        there: !stale.is_empty(),
        same: stale.is_empty(),
        stale,
    };
    for (space, objects) in described {
        if connection.live(&namespace(&space)).await?.is_none() {
            plan.new.push(space.clone());
            plan.objects.extend(objects);
            continue;
        }
        for object in objects {
            if let Some(live) = connection.live(&object).await? {
                let ours = live["metadata"]["labels"]
                    [gpuctl_core::model::contract::labels::MANAGED_BY]
                    == gpuctl_core::model::contract::labels::MANAGED_BY_US;
                if ours && change {
                    plan.there = true;
                    match connection.effect(&object, force).await? {
                        Effect::Nothing => {}
                        Effect::Conflict(fields) => return Err(conflict(&object, &fields)),
                        _ => {
                            plan.same = false;
                            plan.objects.push(object);
                        }
                    }
                    continue;
                }
                let kind = if object.kind() == "LimitRange" {
                    "limit range"
                } else {
                    "quota"
                };
                let message = format!(
                    "{kind} `{}` already exists in namespace `{space}`; nothing was written",
                    object.name()
                );
                let error = Error::new(ErrorName::AlreadyExists, message);
                return Err(match ours {
                    true => error.hint(format!("gpuctl delete quota {} first", wanted.name)),
                    false => {
                        error.hint("it was not created by gpuctl; choose another `quota.name`")
                    }
                });
            }
            plan.objects.push(object);
        }
    }
    Ok(plan)
}

/// Removes what was made, last first, and tells what is left.
async fn take_back(connection: &Connection, done: Vec<(Object, String)>) -> String {
    let mut left = Vec::new();
    for (object, uid) in done.into_iter().rev() {
        let deletion = Deletion::of(&uid);
        if connection.delete(&object, deletion).await.is_err() {
            left.push(format!(
                "{} {}/{}",
                object.kind(),
                object.namespace().unwrap_or_default(),
                object.name()
            ));
        }
    }
    if left.is_empty() {
        "everything created before was removed again".to_owned()
    } else {
        format!("still there: {}", left.join(", "))
    }
}

/// Reads the quotas of `-n`, or of all namespaces. Without the right to list those, reads the
/// quotas of the own namespace, and returns the refusal too.
async fn in_reach(connection: &Connection) -> Result<(Vec<QuotaUse>, Option<Failure>), Failure> {
    let named = connection
        .namespace_is_explicit
        .then_some(connection.namespace.as_str());
    match connection.quotas(named).await {
        Err(failure) if failure.is_forbidden() && named.is_none() => Ok((
            connection.quotas(Some(&connection.namespace)).await?,
            Some(failure),
        )),
        other => Ok((other?, None)),
    }
}

/// Returns every part of a quota that `delete` would delete.
pub(crate) async fn deletable(connection: &Connection, name: &str) -> Result<Vec<QuotaUse>, Error> {
    let (mut all, unseen) = in_reach(connection).await?;
    if all.iter().any(|quota| quota.quota.as_deref() == Some(name)) {
        all.retain(|quota| quota.quota.as_deref() == Some(name));
        return Ok(all);
    }
    Err(unseen.map_or_else(|| missing(name, &all), Into::into))
}

/// Takes a quota of ours out of the namespace that was named, or out of every one; with `purge`
/// also the namespaces that we made and that are empty.
pub(crate) async fn delete(
    connection: &Connection,
    name: &str,
    purge: bool,
    ignore_not_found: bool,
    context: &Context,
) -> Result<Option<String>, Error> {
    let (all, unseen) = in_reach(connection).await?;
    let ours: Vec<&QuotaUse> = all
        .iter()
        .filter(|quota| quota.quota.as_deref() == Some(name))
        .collect();
    if ours.is_empty() {
        return match unseen {
            Some(failure) => Err(failure.into()),
            None if ignore_not_found => Ok(None),
            None => Err(missing(name, &all)),
        };
    }
    if unseen.is_some() {
        let home = &connection.namespace;
        context.terminal.lack(&format!(
            "you may not list quotas of all namespaces: it is deleted from `{home}` only"
        ));
    }
    let (mut spaces, mut gone, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    for quota in ours {
        for part in connection.quota_parts(&quota.namespace, name).await? {
            connection.remove_quota_part(&part).await?;
        }
        spaces.push(quota.namespace.clone());
        if purge {
            match connection.remove_empty_namespace(&quota.namespace).await? {
                Namespace::Deleted => gone.push(quota.namespace.clone()),
                Namespace::Kept(held) => kept.push(format!("{} has {held}", quota.namespace)),
                Namespace::NotOurs => kept.push(format!("{} was made by others", quota.namespace)),
            }
        }
    }
    let mut message = format!("it bound in {}", spaces.join(", "));
    for (what, names) in [
        ("empty namespaces deleted", gone),
        ("namespaces that stay", kept),
    ] {
        if !names.is_empty() {
            message.push_str(&format!("; {what}: {}", names.join(", ")));
        }
    }
    Ok(Some(message))
}

fn missing(name: &str, all: &[QuotaUse]) -> Error {
    let names: Vec<&str> = all
        .iter()
        .filter_map(|quota| quota.quota.as_deref())
        .collect();
    let error = Error::new(
        ErrorName::QuotaNotFound,
        format!("there is no quota `{name}` managed by gpuctl"),
    );
    match gpuctl_manifest::spec::nearest(name, &names) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("gpuctl get quotas"),
    }
}
