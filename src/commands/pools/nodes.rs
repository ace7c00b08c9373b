//! `gpuctl add node` and `gpuctl remove node`: add nodes to a pool and remove them from it.

use std::collections::BTreeSet;
use std::process::ExitCode;

use crate::cli::pools::nodes::PoolNodes;
use crate::context::Context;
use crate::deploy::events::Reporter;
use crate::deploy::pool_labels::{self, find, fits, leave_other, set_label, taken_over};
use crate::deploy::pool_taints::{self, TaintChange, taken_by};
use crate::deploy::pools;
use crate::lookup;
use crate::show::reporter::TerminalReporter;
use gpuctl_cluster::{Connection, LabelOverwrite};
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_core::model::contract::labels::POOL_LABEL;
use gpuctl_core::model::{Inventory, LabelNote, NodeUsage, PoolDefinition};
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
    let connection = context.connect().await?;
    let stock = connection.inventory().stock().await?.listed()?;
    let reporter = TerminalReporter::new(&context.terminal, format);
    let definition = definition(args, adding, &stock.inventory, &connection, &reporter).await?;
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for node in &args.nodes {
        let result = match find(&stock.inventory, node) {
            None => {
                let names: Vec<&str> = stock.inventory.hosts.iter().map(NodeUsage::name).collect();
                Err(lookup::missing_node(node, &names))
            }
            Some(host) if adding => put_in(&connection, host, &definition, args.force).await,
            Some(host) => take_out(&connection, host, &args.pool, &reporter).await,
        };
        match result {
            Ok(()) => {
                let verb = if adding {
                    "was added to"
                } else {
                    "was removed from"
                };
                if !format.is_document() {
                    context
                        .terminal
                        .print(&format!("{node} {verb} pool {}\n", args.pool))?;
                }
                done.push(node.clone());
            }
            Err(error) => {
                context.terminal.fail(&error);
                failed.push((node.clone(), error));
            }
        }
    }
    pools::publish(&connection, true, &reporter).await;
    let message = format!("{} of {} nodes done", done.len(), args.nodes.len());
    context.terminal.print(
        &document(
            format,
            &labels::batch(Some(&args.pool), &done, &failed, message),
        )
        .unwrap_or_default(),
    )?;
    Ok(match failed.first() {
        None => ExitCode::SUCCESS,
        Some((_, error)) if args.nodes.len() == 1 => ExitCode::from(error.kind.exit_code()),
        Some(_) => ExitCode::from(ErrorKind::Request.exit_code()),
    })
}

/// Reads the definition of the pool, and creates one for a pool that only had labels.
async fn definition(
    args: &PoolNodes,
    adding: bool,
    inventory: &Inventory,
    connection: &Connection,
    reporter: &dyn Reporter,
) -> Result<PoolDefinition, Error> {
    if let Some(known) = connection.pools().get(&args.pool).await? {
        return Ok(known.pool);
    }
    if !inventory.pools().contains(args.pool.as_str()) {
        return Err(pools::missing(&args.pool, inventory, connection).await);
    }
    let definition = PoolDefinition {
        name: args.pool.clone(),
        ..PoolDefinition::default()
    };
    if adding {
        pools::tell_home(
            connection.pools().ensure_home(false).await?,
            false,
            reporter,
        );
        connection.pools().add(&definition).await?;
    }
    Ok(definition)
}

async fn put_in(
    connection: &Connection,
    host: &NodeUsage,
    pool: &PoolDefinition,
    force: bool,
) -> Result<(), Error> {
    fits(host, pool, None, force)?;
    let (node, set) = (
        host.name().to_owned(),
        taken_over(connection, host, &pool.name).await?,
    );
    // Record the labels first: a label without a record would remain after the pool is deleted.
    connection
        .pools()
        .change(&pool.name, |pool| {
            pool.labels
                .entry(node.clone())
                .or_default()
                .extend(set.clone());
        })
        .await?;
    let over = if force {
        LabelOverwrite::Anything
    } else {
        LabelOverwrite::Only(host.details.node.pool())
    };
    if let Err(error) = set_label(connection, &node, POOL_LABEL, &pool.name, over).await {
        // Remove the record again, because the label was not set.
        let wanted = PoolDefinition {
            labels: [(node, set)].into(),
            ..PoolDefinition::default()
        };
        return Err(
            match connection
                .pools()
                .change(&pool.name, |known| {
                    *known = known.rolled_back(&wanted, pool);
                })
                .await
            {
                Ok(_) => error,
                Err(_) => error.cause(format!("pool `{}` still lists it", pool.name)),
            },
        );
    }
    // Replace the taint of the previous pool by that of the new one.
    let before = taken_by(&host.details.node).map(ToOwned::to_owned);
    let taint = TaintChange {
        node: host.name().to_owned(),
        wanted: pool.exclusive.then(|| pool.name.clone()),
        before,
    };
    leave_other(connection, host, &pool.name).await?;
    if taint.wanted == taint.before {
        Ok(())
    } else {
        pool_taints::write(connection, &taint, false).await
    }
}

async fn take_out(
    connection: &Connection,
    host: &NodeUsage,
    pool: &str,
    reporter: &dyn Reporter,
) -> Result<(), Error> {
    let node = host.name();
    let mut set = connection
        .pools()
        .get(pool)
        .await?
        .and_then(|mut known| known.pool.labels.remove(node))
        .unwrap_or_default();
    // A node that is only recorded in the pool is the result of an interrupted removal, which is
    // completed here.
    if host.details.node.pool() != Some(pool) && set.is_empty() {
        let place = host
            .details
            .node
            .pool()
            .map_or_else(|| "no pool".to_owned(), |other| format!("pool `{other}`"));
        return Err(Error::new(
            ErrorName::NotInPool,
            format!("node `{node}` is in {place}"),
        ));
    }
    if taken_by(&host.details.node) == Some(pool) {
        pool_taints::leave(connection, node, pool).await?;
    }
    set.insert(
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
        &set,
        &mut BTreeSet::new(),
    )
    .await?;
    connection
        .pools()
        .change(pool, |pool| drop(pool.labels.remove(node)))
        .await?;
    Ok(())
}
