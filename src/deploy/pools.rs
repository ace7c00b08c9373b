//! Creates, changes and deletes pools. Each label that is set for a pool is recorded in its
//! definition first, so that deleting the pool can remove it.

use std::collections::{BTreeMap, BTreeSet};

use crate::context::Context;
use crate::deploy::pool_labels::{self, find, fits, leave_other, set_label, taken_over};
use crate::deploy::pool_taints::{self, TaintChange};
use gpuctl_cluster::{Connection, LabelOverwrite, PoolNamespace, Wanted};
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_core::model::contract::labels::POOL_LABEL;
use gpuctl_core::model::facts::gpu::TYPE_LABELS;
use gpuctl_core::model::{Inventory, Noted, PoolDefinition, State};
use gpuctl_manifest::spec::Pool;
use gpuctl_view::format::text::count;
use gpuctl_view::jobs::created::Made;

/// How a pool is made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PoolOptions {
    /// The same, and move nodes that are in another one.
    pub force: bool,
    /// Change a pool that is there.
    pub change: bool,
    /// Do not let every user read the definitions.
    pub private: bool,
    /// Make the pool with the nodes that there are.
    pub keep_partial: bool,
    pub dry_run: bool,
}

/// Returns what a file says of a pool, without its nodes.
pub(crate) fn definition(pool: &Pool) -> PoolDefinition {
    PoolDefinition {
        name: pool.name.value.clone(),
        description: pool.description.clone(),
        gpu_types: pool.gpu_types.clone(),
        max_jobs: pool.quota.max_jobs,
        max_gpu_per_job: pool.quota.max_gpu_per_job,
        exclusive: pool.exclusive,
        labels: BTreeMap::new(),
    }
}

/// What making a pool comes to.
pub(crate) struct Planned {
    pub wanted: PoolDefinition,
    /// What is written down of it now.
    pub before: Option<PoolDefinition>,
    /// Labels that are not as they are wanted.
    pub steps: Vec<LabelChange>,
    /// Taints that are not as they are wanted.
    pub taints: Vec<TaintChange>,
    /// Nodes that are not there.
    pub missing: Vec<String>,
    inventory: Inventory,
}

impl Planned {
    /// Plans from the file alone, with the names of its nodes.
    pub(crate) fn without_nodes(pool: &Pool, before: Option<PoolDefinition>) -> Self {
        let labels = pool
            .nodes
            .iter()
            .map(|node| (node.name.value.clone(), BTreeMap::new()))
            .collect();
        let wanted = PoolDefinition {
            labels,
            ..definition(pool)
        };
        Self {
            wanted,
            before,
            steps: Vec::new(),
            taints: Vec::new(),
            missing: Vec::new(),
            inventory: Inventory::default(),
        }
    }
}

/// Looks at the nodes of a pool, and at what is there of it.
pub(crate) async fn plan(
    connection: &Connection,
    pool: &Pool,
    force: bool,
) -> Result<Planned, Error> {
    let name = &pool.name.value;
    let (stock, before) =
        futures::future::try_join(connection.stock(), connection.pool(name)).await?;
    let stock = if pool.nodes.is_empty() {
        stock
    } else {
        stock.listed()?
    };
    let inventory = stock.inventory;
    let before = before.map(|known| known.pool);
    let mut wanted = definition(pool);
    let (mut missing, mut steps) = (Vec::new(), Vec::new());
    for node in &pool.nodes {
        let Some(host) = find(&inventory, &node.name.value) else {
            missing.push(node.name.value.clone());
            continue;
        };
        let kind = node.gpu_type.as_ref();
        fits(host, &wanted, kind, force)?;
        let mut set = taken_over(connection, host, name).await?;
        let there = &host.details.node.labels;
        // A type that is written there already is somebody else's label, and stays when the pool
        // goes.
        let own = |key: &str| {
            before
                .as_ref()
                .and_then(|pool| pool.labels.get(host.name())?.get(key))
                .cloned()
        };
        if let Some(value) = kind
            .map(ToString::to_string)
            .filter(|kind| there.get(TYPE_LABELS[0]) != Some(kind))
        {
            let earlier = set
                .get(TYPE_LABELS[0])
                .cloned()
                .or_else(|| own(TYPE_LABELS[0]));
            let before =
                earlier.map_or_else(|| there.get(TYPE_LABELS[0]).cloned(), |noted| noted.before);
            set.insert(TYPE_LABELS[0].to_owned(), Noted { value, before });
        }
        steps.extend(
            set.iter()
                .filter(|(key, note)| there.get(*key) != Some(&note.value))
                .map(|(key, note)| LabelChange {
                    node: node.name.value.clone(),
                    key: key.clone(),
                    value: note.value.clone(),
                    before: there.get(key).cloned(),
                }),
        );
        wanted.labels.insert(node.name.value.clone(), set);
    }
    let after = before.clone().unwrap_or_default().changed_to(&wanted);
    let taints = pool_taints::missing(
        &after,
        &wanted,
        before.as_ref().is_some_and(|before| before.exclusive),
        &inventory,
    );
    Ok(Planned {
        wanted,
        before,
        steps,
        taints,
        missing,
        inventory,
    })
}

/// Makes the pool of a file: its definition, then its labels. A pool that is there already is
/// changed with `force` only. A failure on the way takes everything back.
pub(crate) async fn create(
    connection: &Connection,
    pool: &Pool,
    how: PoolOptions,
    context: &Context,
) -> Result<Made, Error> {
    let name = &pool.name.value;
    let Planned {
        wanted,
        before,
        steps,
        taints,
        missing,
        inventory,
    } = plan(connection, pool, how.force).await?;
    if !missing.is_empty() && !how.keep_partial {
        let message = format!(
            "there is no node {}; nothing was written",
            missing.join(", ")
        );
        let error = Error::new(
            ErrorName::reported(ErrorKind::Request, "NodeNotFound"),
            message,
        );
        return Err(error.hint(
            "`gpuctl get nodes` lists what there is; --keep-partial makes the pool with the others",
        ));
    }
    for node in &missing {
        context.terminal.warn(&format!(
            "there is no node {node}: the pool is created without it"
        ));
    }
    let made = |status, message| {
        Ok(Made {
            kind: "pool",
            name: name.clone(),
            status,
            message,
            dry_run: how.dry_run,
        })
    };
    match &before {
        Some(before)
            if *before == before.changed_to(&wanted) && steps.is_empty() && taints.is_empty() =>
        {
            return made("unchanged", "is as the file says".to_owned());
        }
        Some(_) if !how.force && !how.change => {
            let error = Error::new(
                ErrorName::AlreadyExists,
                format!("pool `{name}` already exists and differs from the file"),
            );
            return Err(error.hint(format!(
                "--force changes it; `gpuctl add node NODE --pool {name}` adds nodes"
            )));
        }
        _ => {}
    }
    let (status, verb) = if before.is_some() {
        ("updated", "changed, now")
    } else {
        ("created", "created")
    };
    let nodes = count(
        before
            .clone()
            .unwrap_or_default()
            .changed_to(&wanted)
            .labels
            .len() as u64,
        "node",
    );
    if how.dry_run {
        return made(status, format!("would be {verb} with {nodes}"));
    }
    write(
        connection,
        &wanted,
        before.as_ref(),
        (&steps, &taints),
        how,
        context,
    )
    .await?;
    for node in &pool.nodes {
        if let Some(host) = find(&inventory, &node.name.value) {
            leave_other(connection, host, name).await?;
        }
    }
    publish(connection, true, context).await;
    if wanted.exclusive && before.is_some_and(|before| !before.exclusive) {
        context
            .terminal
            .note("jobs of the pool that an earlier version made do not tolerate its taint: pods that they make anew wait");
    }
    made(status, format!("{verb} with {nodes}"))
}

/// A label that a node gets.
pub(crate) struct LabelChange {
    pub node: String,
    pub key: String,
    value: String,
    /// What the node has now.
    pub before: Option<String>,
}

async fn write(
    connection: &Connection,
    wanted: &PoolDefinition,
    before: Option<&PoolDefinition>,
    (steps, taints): (&[LabelChange], &[TaintChange]),
    how: PoolOptions,
    context: &Context,
) -> Result<(), Error> {
    tell_home(
        connection.ensure_home(how.private).await?,
        how.private,
        context,
    );
    if before.is_some() {
        connection
            .change_pool(&wanted.name, |pool| *pool = pool.changed_to(wanted))
            .await?;
    } else if !connection.add_pool(wanted).await? {
        let message = format!("pool `{}` was made by somebody else meanwhile", wanted.name);
        return Err(Error::new(ErrorName::AlreadyExists, message));
    }
    let (mut labelled, mut tainted) = (0, 0);
    let written = async {
        for step in steps {
            let over = if how.force {
                LabelOverwrite::Anything
            } else {
                LabelOverwrite::Only(step.before.as_deref())
            };
            set_label(connection, &step.node, &step.key, &step.value, over).await?;
            labelled += 1;
        }
        for taint in taints {
            pool_taints::write(connection, taint, false).await?;
            tainted += 1;
        }
        Ok::<_, Error>(())
    };
    let Err(error) = written.await else {
        return Ok(());
    };
    let left = take_back(
        connection,
        wanted,
        before,
        (&steps[..labelled], &taints[..tainted]),
    )
    .await;
    let error = error.during(format!("pool `{}` could not be created", wanted.name));
    Err(match left.is_empty() {
        true => error.cause("everything created before was removed again"),
        false => error.cause(format!("still there: {}", left.join(", "))),
    })
}

/// Says who may read what is written from now on.
pub(crate) fn tell_home(home: PoolNamespace, private: bool, context: &Context) {
    match home {
        PoolNamespace::Read => context
            .terminal
            .note("every user may read pools and the site's defaults in namespace gpuctl-system (--private prevents that)"),
        PoolNamespace::Unread if !private => context
            .terminal
            .lack("you may not create roles: other users cannot read the definitions of pools in namespace gpuctl-system"),
        _ => {}
    }
}

/// Undoes `steps`, last first, and the definition. Returns what is left.
async fn take_back(
    connection: &Connection,
    wanted: &PoolDefinition,
    before: Option<&PoolDefinition>,
    (steps, taints): (&[LabelChange], &[TaintChange]),
) -> Vec<String> {
    let mut left = Vec::new();
    for taint in taints.iter().rev() {
        if pool_taints::write(connection, taint, true).await.is_err() {
            left.push(format!("{}: taint {POOL_LABEL}", taint.node));
        }
    }
    for step in steps.iter().rev() {
        let ours = LabelOverwrite::Only(Some(&step.value));
        if connection
            .set_label(&step.node, &step.key, step.before.as_deref(), ours)
            .await
            .is_err()
        {
            left.push(format!("{}: {}", step.node, step.key));
        }
    }
    let definition = match before {
        Some(before) => connection
            .change_pool(&wanted.name, |pool| {
                *pool = pool.changed_back(wanted, before);
            })
            .await
            .is_ok(),
        None => connection.remove_pool(&wanted.name, None).await.is_ok(),
    };
    if !definition {
        left.push(format!("the definition of pool {}", wanted.name));
    }
    left
}

/// Facts are a help for others: that they could not be written is told, and no more.
pub(crate) async fn publish(connection: &Connection, begin: bool, context: &Context) {
    if let Err(failure) = connection.publish(begin).await {
        context.terminal.warn(&format!(
            "users who may not read nodes will not see this change: {failure}"
        ));
    }
}

/// How a pool goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolDeletion {
    /// Although jobs are in it.
    pub force: bool,
    pub keep_labels: bool,
    pub ignore_not_found: bool,
}

/// Takes a pool away: its labels, then its definition. Jobs in it forbid that.
pub(crate) async fn delete(
    connection: &Connection,
    name: &str,
    how: PoolDeletion,
    context: &Context,
) -> Result<Option<String>, Error> {
    let Some(known) = connection.pool(name).await? else {
        if how.ignore_not_found {
            return Ok(None);
        }
        let stock = connection.stock().await?;
        if stock.inventory.pools().contains(name) {
            let error = Error::new(
                ErrorName::NoDefinition,
                format!("pool `{name}` has no definition, only labels set by others"),
            );
            return Err(error.hint(format!("gpuctl remove node NODE --pool {name}")));
        }
        return Err(missing(name, &stock.inventory, connection).await);
    };
    if !how.force {
        forbid_if_used(connection, name).await?;
    }
    let mut known = known;
    let (mut taken, mut warned) = (BTreeSet::new(), BTreeSet::new());
    loop {
        for (node, notes) in known.pool.labels.iter().filter(|_| !how.keep_labels) {
            if known.pool.exclusive {
                pool_taints::leave(connection, node, name).await?;
            }
            let Some((host, _)) = connection.host(node).await? else {
                continue;
            };
            pool_labels::leave(
                connection,
                &context.terminal,
                name,
                &host.node,
                notes,
                &mut warned,
            )
            .await?;
            taken.insert(node.clone());
        }
        // Whoever changed it meanwhile may have set more labels.
        match connection.remove_pool(name, Some(&known.version)).await? {
            true => break,
            false => match connection.pool(name).await? {
                Some(changed) => known = changed,
                None => break,
            },
        }
    }
    publish(connection, true, context).await;
    let taken = count(taken.len() as u64, "node");
    Ok(Some(if how.keep_labels {
        "its labels stay".to_owned()
    } else {
        format!("labels taken from {taken}")
    }))
}

/// Refuses to delete a pool that has jobs, or whose jobs cannot be counted.
async fn forbid_if_used(connection: &Connection, name: &str) -> Result<(), Error> {
    let wanted = Wanted {
        pool: Some(name.to_owned()),
        ..Wanted::default()
    };
    let found = connection.jobs(&wanted).await?;
    let alive: Vec<String> = found
        .jobs
        .iter()
        .filter(|job| !job.deleting && !State::of(job).status.is_final())
        .map(|job| format!("{}/{}", job.namespace, job.name))
        .collect();
    if !alive.is_empty() {
        let error = Error::new(
            ErrorName::PoolInUse,
            format!("pool `{name}` has jobs: {}", alive.join(", ")),
        );
        return Err(error.hint("--force deletes the pool; the jobs continue"));
    }
    match found.unseen() {
        None => Ok(()),
        Some(unseen) => {
            let message = format!("{unseen}, so it is not known whether jobs are in pool `{name}`");
            Err(Error::new(ErrorName::Forbidden, message).hint("--force deletes the pool anyway"))
        }
    }
}

/// Returns the error for a pool that does not exist.
pub(crate) async fn missing(name: &str, inventory: &Inventory, connection: &Connection) -> Error {
    let defined = connection.pools().await.unwrap_or_default();
    let mut names: Vec<&str> = inventory
        .pools()
        .into_iter()
        .chain(defined.iter().map(|pool| pool.name.as_str()))
        .collect();
    names.sort_unstable();
    names.dedup();
    let error = Error::new(
        ErrorName::PoolNotFound,
        format!("there is no pool `{name}`"),
    );
    match gpuctl_manifest::spec::nearest(name, &names) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None if names.is_empty() => error.hint("there is none yet: gpuctl create -f pool.yaml"),
        None => error.hint(format!("available: {}", names.join(", "))),
    }
}
