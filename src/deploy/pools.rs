//! Creates and changes pools. gpuctl records each label in the pool's definition before it sets the
//! label, so that deleting the pool can remove it.

use crate::deploy::events::{DeployEvent, Reporter};
use crate::deploy::pool_labels::{find_node, leave_previous_pool, set_label};
use crate::deploy::pool_plan::{PoolPlan, plan};
use crate::deploy::pool_taints;
use gpuctl_cluster::{Connection, LabelOverwrite, PoolNamespace};
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_core::model::Inventory;
use gpuctl_core::model::contract::labels::POOL_LABEL;
use gpuctl_core::model::contract::submission::Made;
use gpuctl_core::model::values::text::count;
use gpuctl_manifest::spec::Pool;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PoolOptions {
    /// Whether to change an existing pool, and to move nodes from other pools.
    pub force: bool,
    /// Whether to change an existing pool.
    pub change: bool,
    /// Whether only administrators can read the definitions.
    pub private: bool,
    /// Whether to create the pool without the nodes that do not exist.
    pub keep_partial: bool,
    pub dry_run: bool,
}

/// Creates a pool from a file: first its definition, then its labels. Changes an existing pool only
/// with `force` or `change`. Rolls back after a failure.
pub(crate) async fn create(
    connection: &Connection,
    pool: &Pool,
    options: PoolOptions,
    reporter: &dyn Reporter,
) -> Result<Made, Error> {
    let name = &pool.name.value;
    let plan = plan(connection, pool, options.force).await?;
    refuse_partial(&plan.missing, options, reporter)?;
    let result = |status, message| Made {
        kind: "pool",
        name: name.clone(),
        status,
        message,
        dry_run: options.dry_run,
    };
    if plan.is_done() {
        return Ok(result("unchanged", "matches the file".to_owned()));
    }
    if plan.stored.is_some() && !options.force && !options.change {
        let error = Error::new(
            ErrorName::AlreadyExists,
            format!("pool `{name}` already exists and differs from the file"),
        );
        return Err(error.hint(format!(
            "use `--force` to change it, or add nodes with `gpuctl add node NODE --pool {name}`"
        )));
    }
    let (status, verb) = if plan.stored.is_some() {
        ("updated", "changed, now")
    } else {
        ("created", "created")
    };
    let nodes = count(plan.new_definition().labels.len() as u64, "node");
    if options.dry_run {
        return Ok(result(status, format!("would be {verb} with {nodes}")));
    }
    write(connection, &plan, options, reporter).await?;
    // Change the previous pools last, so that rolling back the writes above leaves them intact.
    for node in &pool.nodes {
        if let Some(host) = find_node(&plan.inventory, &node.name.value) {
            leave_previous_pool(connection, host, name).await?;
        }
    }
    publish(connection, true, reporter).await;
    if plan.desired.exclusive && plan.stored.is_some_and(|before| !before.exclusive) {
        reporter.note(
            "jobs created by an earlier version do not tolerate the pool's taint, \
             so their new pods stay pending",
        );
    }
    Ok(result(status, format!("{verb} with {nodes}")))
}

/// Fails if nodes in the file do not exist. With `--keep-partial`, warns about each of these nodes.
fn refuse_partial(
    missing: &[String],
    options: PoolOptions,
    reporter: &dyn Reporter,
) -> Result<(), Error> {
    if !missing.is_empty() && !options.keep_partial {
        let message = format!(
            "nodes not found: {}; nothing was written",
            missing.join(", ")
        );
        let error = Error::new(
            ErrorName::reported(ErrorKind::Request, "NodeNotFound"),
            message,
        );
        return Err(error.hint(
            "`gpuctl get nodes` lists all nodes; use `--keep-partial` to create the pool \
             without them",
        ));
    }
    for node in missing {
        reporter.warn(&format!(
            "node {node} does not exist: creating the pool without it"
        ));
    }
    Ok(())
}

/// Writes the definition, the labels and the taints. Rolls back after a failure.
async fn write(
    connection: &Connection,
    plan: &PoolPlan,
    options: PoolOptions,
    reporter: &dyn Reporter,
) -> Result<(), Error> {
    report_namespace_access(
        connection.pools().ensure_home(options.private).await?,
        options.private,
        reporter,
    );
    let desired = &plan.desired;
    if plan.stored.is_some() {
        connection
            .pools()
            .change(&desired.name, |pool| *pool = pool.updated_to(desired))
            .await?;
    } else if !connection.pools().add(desired).await? {
        let message = format!("another user has just created pool `{}`", desired.name);
        return Err(Error::new(ErrorName::AlreadyExists, message));
    }
    let (mut labelled, mut tainted) = (0, 0);
    let writes = async {
        for step in &plan.steps {
            let overwrite = if options.force {
                LabelOverwrite::Anything
            } else {
                // Fail if the label has changed since it was read, instead of overwriting a
                // concurrent change.
                LabelOverwrite::Only(step.current.as_deref())
            };
            set_label(connection, &step.node, &step.key, &step.value, overwrite).await?;
            labelled += 1;
        }
        for taint in &plan.taints {
            pool_taints::write(connection, taint, false).await?;
            tainted += 1;
        }
        Ok::<_, Error>(())
    };
    let Err(error) = writes.await else {
        return Ok(());
    };
    let leftovers = roll_back(connection, plan, labelled, tainted).await;
    let error = error.during(format!("pool `{}` could not be created", desired.name));
    Err(match leftovers.is_empty() {
        true => error.note("everything created so far was removed"),
        false => error.note(format!("not removed: {}", leftovers.join(", "))),
    })
}

/// Reports which users can read the definitions.
pub(crate) fn report_namespace_access(home: PoolNamespace, private: bool, reporter: &dyn Reporter) {
    match home {
        PoolNamespace::Read => reporter.note(
            "all users can read pools and the site's defaults in namespace gpuctl-system \
             (--private prevents that)",
        ),
        PoolNamespace::Unread if !private => reporter.report(DeployEvent::MissingRight(
            "you are not allowed to create roles, so other users cannot read pool definitions in \
             namespace gpuctl-system",
        )),
        _ => {}
    }
}

/// Reverts the first `labelled` labels and `tainted` taints, newest first, and then the definition.
/// Returns the names of objects that could not be reverted.
async fn roll_back(
    connection: &Connection,
    plan: &PoolPlan,
    labelled: usize,
    tainted: usize,
) -> Vec<String> {
    let desired = &plan.desired;
    let mut leftovers = Vec::new();
    for taint in plan.taints[..tainted].iter().rev() {
        if pool_taints::write(connection, taint, true).await.is_err() {
            leftovers.push(format!("{}: taint {POOL_LABEL}", taint.node));
        }
    }
    for step in plan.steps[..labelled].iter().rev() {
        let own_value = LabelOverwrite::Only(Some(&step.value));
        if connection
            .nodes()
            .set_label(&step.node, &step.key, step.current.as_deref(), own_value)
            .await
            .is_err()
        {
            leftovers.push(format!("{}: {}", step.node, step.key));
        }
    }
    let is_reverted = match &plan.stored {
        Some(stored) => connection
            .pools()
            .change(&desired.name, |pool| {
                *pool = pool.rolled_back(desired, stored);
            })
            .await
            .is_ok(),
        None => connection.pools().remove(&desired.name, None).await.is_ok(),
    };
    if !is_reverted {
        leftovers.push(format!("the definition of pool {}", desired.name));
    }
    leftovers
}

/// Publishes the facts about nodes for users who cannot read nodes. A failure is only a warning,
/// because the pool has already been written.
pub(crate) async fn publish(connection: &Connection, begin: bool, reporter: &dyn Reporter) {
    if let Err(failure) = connection.pools().publish(begin).await {
        reporter.warn(&format!(
            "users without permission to read nodes will not see this change: {failure}"
        ));
    }
}

/// Builds the error for a pool that does not exist.
pub(crate) async fn pool_not_found(
    name: &str,
    inventory: &Inventory,
    connection: &Connection,
) -> Error {
    let defined = connection.pools().list().await.unwrap_or_default();
    let mut names: Vec<&str> = inventory
        .pools()
        .into_iter()
        .chain(defined.iter().map(|pool| pool.name.as_str()))
        .collect();
    names.sort_unstable();
    names.dedup();
    let error = Error::new(
        ErrorName::PoolNotFound,
        format!("pool `{name}` does not exist"),
    );
    match gpuctl_manifest::spec::nearest(name, &names) {
        Some(suggestion) => error.hint(format!("did you mean `{suggestion}`?")),
        None if names.is_empty() => {
            error.hint("there are no pools yet: gpuctl create -f pool.yaml")
        }
        None => error.hint(format!("available: {}", names.join(", "))),
    }
}
