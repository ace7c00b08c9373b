//! `add node` and `remove node`: nodes into a pool and out of it. A node is in one pool at most.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCandidates;

use crate::cluster::{Connection, Labelling, Over};
use crate::error::{Error, Kind};
use crate::model::{GpuType, HostUse, Inventory, Noted, Notes, POOL_LABEL, PoolDefinition};
use crate::view::{Format, document, labels};

use super::{OneFormat, World, completion, describe_node, pool_changes};

/// Add nodes to a pool
#[derive(Debug, Subcommand)]
pub enum Add {
    /// Put nodes into a pool
    ///
    /// A node that is in another pool stays there unless --force.
    #[command(
        visible_alias = "nodes",
        after_help = "Examples:
  gpuctl add node gpu-a-01 gpu-a-02 --pool training-pool"
    )]
    Node(PoolNodes),
}

/// Take nodes out of a pool
#[derive(Debug, Subcommand)]
pub enum Remove {
    /// Take nodes out of a pool; what runs there goes on
    #[command(
        visible_alias = "nodes",
        after_help = "Examples:
  gpuctl remove node gpu-a-02 --pool training-pool"
    )]
    Node(PoolNodes),
}

#[derive(Args, Debug)]
pub struct PoolNodes {
    /// Nodes
    #[arg(required = true, value_parser = super::object_name, add = ArgValueCandidates::new(completion::node_names))]
    nodes: Vec<String>,
    /// Pool
    #[arg(long, value_name = "NAME", value_parser = super::object_name, add = ArgValueCandidates::new(completion::pool_names))]
    pool: String,
    /// Move nodes that are in another pool
    #[arg(long)]
    force: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

pub async fn add(add: &Add, world: &World) -> Result<ExitCode, Error> {
    let Add::Node(args) = add;
    change(args, true, world).await
}

pub async fn remove(remove: &Remove, world: &World) -> Result<ExitCode, Error> {
    let Remove::Node(args) = remove;
    change(args, false, world).await
}

async fn change(args: &PoolNodes, adding: bool, world: &World) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    world.terminal.set_format(format);
    let connection = world.connect().await?;
    let stock = connection.stock().await?.listed()?;
    let known = connection.pool(&args.pool).await?;
    if known.is_none() && !stock.inventory.pools().contains(args.pool.as_str()) {
        return Err(pool_changes::missing(&args.pool, &stock.inventory, &connection).await);
    }
    if known.is_none() && adding {
        // A pool that so far was labels only.
        pool_changes::tell_home(connection.ensure_home(false).await?, false, world);
        connection.add_pool(&PoolDefinition { name: args.pool.clone(), ..PoolDefinition::default() }).await?;
    }
    let definition =
        known.map(|known| known.pool).unwrap_or_else(|| PoolDefinition { name: args.pool.clone(), ..PoolDefinition::default() });
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for node in &args.nodes {
        let result = match find(&stock.inventory, node) {
            None => {
                let names: Vec<&str> = stock.inventory.hosts.iter().map(HostUse::name).collect();
                Err(describe_node::missing(node, &names))
            }
            Some(host) if adding => put_in(&connection, host, &definition, args.force).await,
            Some(host) => take_out(&connection, host, &args.pool).await,
        };
        match result {
            Ok(()) => {
                let verb = if adding { "is in" } else { "is out of" };
                if !format.is_document() {
                    world.terminal.print(&format!("{node} {verb} pool {}\n", args.pool))?;
                }
                done.push(node.clone());
            }
            Err(error) => {
                world.terminal.fail(&error);
                failed.push((node.clone(), error));
            }
        }
    }
    pool_changes::publish(&connection, true, world).await;
    let message = format!("{} of {} nodes done", done.len(), args.nodes.len());
    world.terminal.print(&document(format, &labels::batch(Some(&args.pool), &done, &failed, message)).unwrap_or_default())?;
    Ok(match failed.first() {
        None => ExitCode::SUCCESS,
        Some((_, error)) if args.nodes.len() == 1 => ExitCode::from(error.kind.exit_code()),
        Some(_) => ExitCode::from(Kind::Request.exit_code()),
    })
}

async fn put_in(connection: &Connection, host: &HostUse, pool: &PoolDefinition, force: bool) -> Result<(), Error> {
    fits(host, pool, None, force)?;
    let (node, set) = (host.name().to_owned(), taken_over(connection, host, &pool.name).await?);
    // Written down first: a label without a note would outlive the pool.
    connection.change_pool(&pool.name, |pool| pool.labels.entry(node.clone()).or_default().extend(set.clone())).await?;
    let over = if force { Over::Anything } else { Over::Only(host.host.node.pool()) };
    if let Err(error) = set_label(connection, &node, POOL_LABEL, &pool.name, over).await {
        let wanted = PoolDefinition { labels: [(node, set)].into(), ..PoolDefinition::default() };
        return Err(match connection.change_pool(&pool.name, |known| *known = known.changed_back(&wanted, pool)).await {
            Ok(_) => error,
            Err(_) => error.cause(format!("pool `{}` still has a note of it", pool.name)),
        });
    }
    leave_other(connection, host, &pool.name).await
}

async fn take_out(connection: &Connection, host: &HostUse, pool: &str) -> Result<(), Error> {
    let node = host.name();
    let set = connection.pool(pool).await?.and_then(|mut known| known.pool.labels.remove(node)).unwrap_or_default();
    // What an earlier try left half done is finished.
    if host.host.node.pool() != Some(pool) && set.is_empty() {
        let place = host.host.node.pool().map_or_else(|| "no pool".to_owned(), |other| format!("pool `{other}`"));
        return Err(Error::new(Kind::Request, "NotInPool", format!("node `{node}` is in {place}")));
    }
    let own = (POOL_LABEL.to_owned(), Noted { value: pool.to_owned(), before: None });
    for (key, note) in set.into_iter().chain([own]) {
        unset(connection, node, &key, &note).await?;
    }
    connection.change_pool(pool, |pool| drop(pool.labels.remove(node))).await?;
    Ok(())
}

/// The labels of a node that comes into `pool`: the pool's own, and what the pool that it comes from set on it.
pub async fn taken_over(connection: &Connection, host: &HostUse, pool: &str) -> Result<Notes, Error> {
    let mut set = match host.host.node.pool().filter(|other| *other != pool) {
        None => Notes::new(),
        Some(other) => {
            connection.pool(other).await?.and_then(|mut known| known.pool.labels.remove(host.name())).unwrap_or_default()
        }
    };
    set.insert(POOL_LABEL.to_owned(), Noted { value: pool.to_owned(), before: None });
    Ok(set)
}

/// The pool that a node comes from no longer answers for it.
pub async fn leave_other(connection: &Connection, host: &HostUse, pool: &str) -> Result<(), Error> {
    if let Some(other) = host.host.node.pool().filter(|other| *other != pool) {
        connection.change_pool(other, |pool| drop(pool.labels.remove(host.name()))).await?;
    }
    Ok(())
}

pub async fn set_label(connection: &Connection, node: &str, key: &str, value: &str, over: Over<'_>) -> Result<(), Error> {
    match connection.set_label(node, key, Some(value), over).await? {
        Labelling::NoNode => Err(describe_node::missing(node, &[])),
        Labelling::Conflict(there) => {
            let there = there.map_or_else(|| "none by now".to_owned(), |there| format!("`{there}` by now"));
            let error = Error::new(Kind::Request, "LabelConflict", format!("label {key} of node `{node}` is {there}"));
            Err(error.hint("somebody else changed it: look again, or --force"))
        }
        _ => Ok(()),
    }
}

/// Takes a label away that still has the value that was set; what was there before comes back.
pub async fn unset(connection: &Connection, node: &str, key: &str, note: &Noted) -> Result<(), Error> {
    connection.set_label(node, key, note.before.as_deref(), Over::Only(Some(&note.value))).await?;
    Ok(())
}

pub fn find<'i>(inventory: &'i Inventory, node: &str) -> Option<&'i HostUse> {
    inventory.hosts.iter().find(|host| host.name() == node)
}

/// A node gets in when it is in no other pool and its devices are of an allowed type; `written` is the type that the file
/// says, which must not contradict the node's labels.
pub fn fits(host: &HostUse, pool: &PoolDefinition, written: Option<&GpuType>, force: bool) -> Result<(), Error> {
    let node = host.name();
    if let Some(other) = host.host.node.pool().filter(|other| *other != pool.name && !force) {
        let error = Error::new(Kind::Request, "NodeInOtherPool", format!("node `{node}` is in pool `{other}`"));
        return Err(error.hint("--force moves it"));
    }
    let there = host.kinds();
    if let Some(written) = written.filter(|_| !force) {
        let same = |kind: &String| GpuType::parse(kind).is_some_and(|kind| kind.matches(written) || written.matches(&kind));
        if let Some(other) = there.iter().find(|kind| !same(kind)) {
            let message = format!("node `{node}` has {other} by its labels, and the file says {written}");
            return Err(Error::new(Kind::Request, "LabelConflict", message).hint("--force writes what the file says"));
        }
    }
    let kinds = written.map_or(there, |kind| vec![kind.to_string()]);
    if let Some(kind) = kinds.iter().find(|kind| !pool.allows(kind)) {
        let error = Error::new(
            Kind::Request,
            "GpuTypeNotAllowed",
            format!("node `{node}` has {kind}, which pool `{}` does not take", pool.name),
        );
        return Err(error.hint(format!("allowed here: {}", pool.gpu_types.join(", "))));
    }
    Ok(())
}
