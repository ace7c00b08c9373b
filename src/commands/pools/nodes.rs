//! `gpuctl add node` and `gpuctl remove node`: change the nodes of a pool.

use std::collections::BTreeSet;
use std::process::ExitCode;

use crate::cli::pools::nodes::PoolNodes;
use crate::context::Context;
use crate::deploy::events::Reporter;
use crate::deploy::pool_labels::{
    self, check_node, find_node, labels_for_pool, leave_previous_pool, set_label,
};
use crate::deploy::pool_taints::{self, TaintChange, exclusive_pool};
use crate::deploy::pools;
use crate::lookup;
use crate::show::reporter::TerminalReporter;
use gpuctl_cluster::{Connection, DryRun, LabelOverwrite};
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_core::model::contract::labels::POOL_LABEL;
use gpuctl_core::model::{Inventory, LabelNote, NodeUsage, PoolDefinition};
use gpuctl_view::jobs::scaled::dry_run_text;
use gpuctl_view::nodes::labels;
use gpuctl_view::{Format, document};

pub(crate) async fn add(args: &PoolNodes, context: &Context) -> Result<ExitCode, Error> {
    change(args, true, context).await
}

pub(crate) async fn remove(args: &PoolNodes, context: &Context) -> Result<ExitCode, Error> {
    change(args, false, context).await
}

async fn change(args: &PoolNodes, adding: bool, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    let connection = context.connect_with(args.dry_run).await?;
    let snapshot = connection.inventory().snapshot().await?.listed()?;
    let reporter = TerminalReporter::new(&context.terminal, format);
    let definition = definition(args, adding, &snapshot.inventory, &connection, &reporter).await?;
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for node in &args.nodes {
        let result = match find_node(&snapshot.inventory, node) {
            None => {
                let names: Vec<&str> = snapshot
                    .inventory
                    .hosts
                    .iter()
                    .map(NodeUsage::name)
                    .collect();
                Err(lookup::missing_node(node, &names))
            }
            Some(host) if adding => add_node(&connection, host, &definition, args.force).await,
            Some(host) => remove_node(&connection, host, &args.pool, &reporter).await,
        };
        match result {
            Ok(()) => {
                if !format.is_document() {
                    context.terminal.print(&done_text(node, args, adding))?;
                }
                done.push(node.clone());
            }
            Err(error) => {
                context.terminal.fail(&error);
                failed.push((node.clone(), error));
            }
        }
    }
    if !connection.is_dry_run() {
        pools::publish(&connection, true, &reporter).await;
    }
    let dry_run = args.dry_run.map(DryRun::word);
    let answer = labels::batch(Some(&args.pool), &done, &failed, dry_run);
    context
        .terminal
        .print(&document(format, &answer).unwrap_or_default())?;
    Ok(match failed.first() {
        None => ExitCode::SUCCESS,
        Some((_, error)) if args.nodes.len() == 1 => ExitCode::from(error.kind.exit_code()),
        Some(_) => ExitCode::from(ErrorKind::Request.exit_code()),
    })
}

fn done_text(node: &str, args: &PoolNodes, adding: bool) -> String {
    let verb = match (adding, args.dry_run.is_some()) {
        (true, false) => "was added to",
        (false, false) => "was removed from",
        (true, true) => "would be added to",
        (false, true) => "would be removed from",
    };
    let dry_run = dry_run_text(args.dry_run.map(DryRun::word));
    format!("{node} {verb} pool {}{dry_run}\n", args.pool)
}

/// Reads the pool's definition. Creates one if the pool exists only as labels.
async fn definition(
    args: &PoolNodes,
    adding: bool,
    inventory: &Inventory,
    connection: &Connection,
    reporter: &dyn Reporter,
) -> Result<PoolDefinition, Error> {
    if let Some(stored) = connection.pools().get(&args.pool).await? {
        return Ok(stored.pool);
    }
    if !inventory.pools().contains(args.pool.as_str()) {
        return Err(pools::pool_not_found(&args.pool, inventory, connection).await);
    }
    let definition = PoolDefinition {
        name: args.pool.clone(),
        ..PoolDefinition::default()
    };
    // A dry run cannot create the definition in a namespace that does not exist yet.
    if adding && !connection.is_dry_run() {
        pools::report_namespace_access(
            connection.pools().ensure_home(false).await?,
            false,
            reporter,
        );
        connection.pools().add(&definition).await?;
    }
    Ok(definition)
}

async fn add_node(
    connection: &Connection,
    host: &NodeUsage,
    pool: &PoolDefinition,
    force: bool,
) -> Result<(), Error> {
    check_node(host, pool, None, force)?;
    let (node, labels) = (
        host.name().to_owned(),
        labels_for_pool(connection, host, &pool.name).await?,
    );
    // Record the label first: deleting the pool removes only recorded labels.
    connection
        .pools()
        .change(&pool.name, |pool| {
            pool.labels
                .entry(node.clone())
                .or_default()
                .extend(labels.clone());
        })
        .await?;
    let overwrite = if force {
        LabelOverwrite::Anything
    } else {
        LabelOverwrite::Only(host.details.node.pool())
    };
    if let Err(error) = set_label(connection, &node, POOL_LABEL, &pool.name, overwrite).await {
        // Setting the label failed, so remove its record.
        let with_labels = PoolDefinition {
            labels: [(node, labels)].into(),
            ..PoolDefinition::default()
        };
        return Err(
            match connection
                .pools()
                .change(&pool.name, |stored| {
                    *stored = stored.rolled_back(&with_labels, pool);
                })
                .await
            {
                Ok(_) => error,
                Err(_) => error.note(format!("pool `{}` still lists the node", pool.name)),
            },
        );
    }
    // Replace the taint of the previous pool.
    let current = exclusive_pool(&host.details.node).map(ToOwned::to_owned);
    let taint = TaintChange {
        node: host.name().to_owned(),
        desired: pool.exclusive.then(|| pool.name.clone()),
        current,
    };
    leave_previous_pool(connection, host, &pool.name).await?;
    if taint.desired == taint.current {
        Ok(())
    } else {
        pool_taints::write(connection, &taint, false).await
    }
}

async fn remove_node(
    connection: &Connection,
    host: &NodeUsage,
    pool: &str,
    reporter: &dyn Reporter,
) -> Result<(), Error> {
    let node = host.name();
    let mut labels = connection
        .pools()
        .get(pool)
        .await?
        .and_then(|mut stored| stored.pool.labels.remove(node))
        .unwrap_or_default();
    // A recorded node without the pool's label is left over from an interrupted removal, which is
    // completed here.
    if host.details.node.pool() != Some(pool) && labels.is_empty() {
        let location = host
            .details
            .node
            .pool()
            .map_or_else(|| "no pool".to_owned(), |pool| format!("pool `{pool}`"));
        return Err(Error::new(
            ErrorName::NotInPool,
            format!("node `{node}` is in {location}"),
        ));
    }
    if exclusive_pool(&host.details.node) == Some(pool) {
        pool_taints::leave(connection, node, pool).await?;
    }
    labels.insert(
        POOL_LABEL.to_owned(),
        LabelNote {
            value: pool.to_owned(),
            before: None,
        },
    );
    pool_labels::leave(
        connection,
        reporter,
        pool,
        &host.details.node,
        &labels,
        &mut BTreeSet::new(),
    )
    .await?;
    connection
        .pools()
        .change(pool, |pool| drop(pool.labels.remove(node)))
        .await?;
    Ok(())
}
