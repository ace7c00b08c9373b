//! `get pools` and `describe pool`: pools by their labels and by their definitions, with what is free in them.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use clap_complete::engine::ArgValueCandidates;
use futures::future::{join, join3};

use crate::cluster::{Connection, Failure, Patience, Stock, Wanted};
use crate::error::Error;
use crate::model::{Job, PoolDefinition, State};
use crate::stats::devices::Moment;
use crate::view::coverage::Coverage;
use crate::view::pools::{self, PoolItem, PoolUse};
use crate::view::{Format, document};

use super::get_nodes::{self, Page, WATCH_STEP};
use super::metrics::{Cells, OF_NODES};
use super::watch::{self, Frame};
use super::{ListFormat, OneFormat, World, completion, pool_changes};

/// List pools: their GPUs, how many are free, their types
///
/// A pool is the nodes with its label; its definition adds a description, allowed types and a quota.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get pools
  gpuctl get pools -o json")]
pub struct GetPools {
    /// Order of the list
    #[arg(long, value_enum, value_name = "KEY")]
    sort_by: Option<SortKey>,
    #[command(flatten)]
    page: Page,
    /// Go on: redraw on a terminal, one JSON object per change in a pipe
    #[arg(short, long)]
    watch: bool,
    /// Leave the titles out
    #[arg(long)]
    no_headers: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: ListFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SortKey {
    Name,
    Gpus,
    Free,
    Jobs,
}

/// Show everything about one pool: nodes, GPUs by type, quota, jobs
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl describe pool training-pool
  gpuctl describe pool training-pool -o json")]
pub struct DescribePool {
    /// Pool
    #[arg(value_parser = super::object_name, add = ArgValueCandidates::new(completion::pool_names))]
    name: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

pub async fn run(args: &GetPools, world: &World) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    world.terminal.set_format(format);
    let connection = world.connect().await?;
    let cells = Cells::new(world, &connection);
    if args.watch {
        let patience = Patience::new(|failure| world.terminal.warn(&format!("{failure}; trying again")));
        return watch::watch(format, WATCH_STEP, world, async |first| {
            let (seen, moment) = join(patience.ask(|| look(&connection, None)), cells.now(&OF_NODES)).await;
            let (mut seen, moment) = (seen?, moment?);
            let coverage = seen.measure(&cells, moment.as_ref());
            if first {
                warn_of(&seen, world);
            }
            let (found, total) = chosen(args, seen.pools);
            let items = found.iter().map(|pool| (pool.name.clone(), PoolItem::from(pool)));
            Ok(Frame::new(show(args, &found, total, coverage, world), items))
        })
        .await;
    }
    let (seen, moment) = join(look(&connection, None), cells.now(&OF_NODES)).await;
    let (mut seen, moment) = (seen?, moment?);
    let coverage = seen.measure(&cells, moment.as_ref());
    warn_of(&seen, world);
    let (found, total) = chosen(args, seen.pools);
    world.terminal.print(&show(args, &found, total, coverage, world))?;
    if total == 0 {
        world.terminal.note("no pools found");
        world.terminal.hint("gpuctl create -f pool.yaml makes one");
    }
    Ok(ExitCode::SUCCESS)
}

pub async fn describe(args: &DescribePool, world: &World) -> Result<ExitCode, Error> {
    world.terminal.set_format(args.output.into());
    let connection = world.connect().await?;
    let cells = Cells::new(world, &connection);
    let (seen, moment) = join(look(&connection, Some(&args.name)), cells.now(&OF_NODES)).await;
    let (mut seen, moment) = (seen?, moment?);
    seen.measure(&cells, moment.as_ref());
    let Some(pool) = seen.pools.pop() else {
        return Err(pool_changes::missing(&args.name, &seen.stock.inventory, &connection).await);
    };
    warn_of(&seen, world);
    let text = document(args.output.into(), &pools::document(&pool));
    world.terminal.print(&text.unwrap_or_else(|| pools::text(&pool, world.terminal.look())))?;
    Ok(ExitCode::SUCCESS)
}

/// The pools of the page in order, and how many there are.
fn chosen(args: &GetPools, mut pools: Vec<PoolUse>) -> (Vec<PoolUse>, usize) {
    match args.sort_by {
        None | Some(SortKey::Name) => {}
        Some(SortKey::Gpus) => pools.sort_by_key(|pool| Reverse(pool.gpus().total)),
        Some(SortKey::Free) => pools.sort_by_key(|pool| Reverse(pool.gpus().free())),
        Some(SortKey::Jobs) => pools.sort_by_key(|pool| Reverse(pool.job_count())),
    }
    let total = pools.len();
    (args.page.of(pools), total)
}

fn show(args: &GetPools, found: &[PoolUse], total: usize, coverage: Option<Coverage>, world: &World) -> String {
    let format: Format = args.output.into();
    match format {
        Format::Name => pools::names(found),
        Format::Table | Format::Wide if found.is_empty() => String::new(),
        _ => document(format, &pools::list(found, total, coverage))
            .unwrap_or_else(|| pools::table(found, format, !args.no_headers, world.terminal.look())),
    }
}

/// Pools, and what of them could not be seen.
struct Seen {
    pools: Vec<PoolUse>,
    stock: Stock,
    definitions: bool,
    /// Which jobs may not be seen.
    unseen_jobs: Option<String>,
}

impl Seen {
    /// Puts what devices measure beside the nodes.
    fn measure(&mut self, cells: &Cells<'_>, moment: Option<&Moment>) -> Option<Coverage> {
        let readings = cells.measure(&mut self.stock, moment);
        for pool in &mut self.pools {
            pool.hosts = self.stock.inventory.pool(&pool.name).cloned().collect();
        }
        readings.as_ref().map(Coverage::from)
    }
}

/// Once per missing right.
fn warn_of(seen: &Seen, world: &World) {
    get_nodes::warn_of(&seen.stock, world);
    if !seen.definitions {
        world.terminal.lack("you may not read the definitions of pools: descriptions and quotas are not known");
    }
    if let Some(missing) = &seen.unseen_jobs {
        world.terminal.lack(&format!("{missing}: how many jobs are in a pool is not known"));
    }
}

/// Every pool, or the one called `only`.
async fn look(connection: &Connection, only: Option<&str>) -> Result<Seen, Failure> {
    let wanted = Wanted { pool: only.map(ToOwned::to_owned), ..Wanted::default() };
    let (stock, definitions, jobs) = join3(connection.stock(), connection.pools(), connection.jobs(&wanted)).await;
    let stock = stock?;
    let definitions: Option<Vec<PoolDefinition>> = allowed(definitions)?;
    let jobs = allowed(jobs)?;
    let unseen_jobs = match &jobs {
        None => Some("you may not list jobs".to_owned()),
        Some(jobs) => jobs.unseen(),
    };
    let of_any: Vec<&PoolDefinition> = definitions.iter().flatten().collect();
    let mut names: BTreeSet<&str> = stock.inventory.pools();
    names.extend(of_any.iter().map(|pool| pool.name.as_str()));
    let is_in = |job: &&Job, pool: &str| job.pool.as_deref() == Some(pool) && !State::of(job).status.is_final();
    let pool = |name: &str| PoolUse {
        hosts: stock.inventory.pool(name).cloned().collect(),
        defined: definitions.is_some(),
        definition: of_any.iter().find(|pool| pool.name == name).copied().cloned(),
        jobs: jobs.iter().flat_map(|found| &found.jobs).filter(|job| is_in(job, name)).cloned().collect(),
        all_jobs: unseen_jobs.is_none(),
        name: name.to_owned(),
    };
    let pools = names.into_iter().filter(|name| only.is_none_or(|only| only == *name)).map(pool).collect();
    Ok(Seen { pools, definitions: definitions.is_some(), unseen_jobs, stock })
}

/// `None` for what the user may not see.
fn allowed<T>(answer: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match answer {
        Err(failure) if failure.is_forbidden() => Ok(None),
        other => other.map(Some),
    }
}
