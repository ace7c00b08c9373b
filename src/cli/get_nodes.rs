//! `get nodes`: the inventory of GPUs, filtered, sorted, in pages. What is counted is the model's.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use clap_complete::engine::ArgValueCandidates;
use futures::future::join;

use crate::cluster::{Connection, Patience, Stock};
use crate::error::Error;
use crate::model::gpu::is_type_label;
use crate::model::{GpuType, Health, Host, HostUse};
use crate::stats::dialect::Quantity;
use crate::view::coverage::Coverage;
use crate::view::nodes::{self, NodeItem};
use crate::view::{Format, document, labels, node_table};

use super::metrics::{Cells, OF_DEVICES, OF_NODES};
use super::watch::{self, Frame};
use super::{ListFormat, World, completion, then};

/// List nodes, their GPUs, and how many of them are free
///
/// Whole devices and slices (MIG, shares) are counted apart. A pod holds its GPUs from its placement to its end.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get nodes
  gpuctl get nodes --pool training-pool --status active
  gpuctl get nodes --gpu-type a100-80g -o json
  gpuctl get nodes --label nvidia.com/gpu-type")]
pub struct GetNodes {
    /// Only nodes of this pool
    #[arg(long, value_name = "NAME", value_parser = super::object_name, add = ArgValueCandidates::new(completion::pool_names))]
    pool: Option<String>,
    /// Only nodes with GPUs of this type, in any spelling; a label's key lists its values instead
    #[arg(long, value_name = "TYPE")]
    gpu_type: Option<String>,
    /// Only nodes in this state
    #[arg(long, value_name = "STATUS", value_parser = ["active", "maintaining", "faulty"])]
    status: Option<String>,
    /// List the devices one by one
    #[arg(long, conflicts_with = "label")]
    gpu_detail: bool,
    /// List the values of this label instead
    #[arg(long, value_name = "KEY")]
    label: Option<String>,
    /// Order of the list
    #[arg(long, value_enum, value_name = "KEY")]
    sort_by: Option<SortKey>,
    #[command(flatten)]
    page: Page,
    /// Go on: redraw on a terminal, one JSON object per change in a pipe
    #[arg(short, long, conflicts_with_all = ["label", "gpu_detail"])]
    watch: bool,
    /// As they were at a time, from Prometheus' history: RFC 3339, Unix seconds, a span before now such as 2h
    #[arg(long, value_name = "TIME", conflicts_with_all = ["pool", "gpu_type", "status", "gpu_detail", "label", "sort_by", "page", "page_size", "watch"])]
    at: Option<String>,
    /// Leave the titles out
    #[arg(long)]
    no_headers: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: ListFormat,
}

/// Which part of a list.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Page {
    /// Page to print, from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    page: Option<u32>,
    /// Items on a page
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    page_size: Option<u32>,
}

/// Items on a page when only `--page` is given: the contract's number.
const PAGE_SIZE: u32 = 20;

impl Page {
    /// The items of the page; all of them when no page was asked for.
    pub fn of<T>(self, items: Vec<T>) -> Vec<T> {
        self.of_size(items, PAGE_SIZE)
    }

    /// The same with another size of a page, where none was asked for.
    pub fn of_size<T>(self, items: Vec<T>, size: u32) -> Vec<T> {
        if self.page.is_none() && self.page_size.is_none() {
            return items;
        }
        let size = self.page_size.unwrap_or(size) as usize;
        let skipped = (self.page.unwrap_or(1) as usize - 1).saturating_mul(size);
        items.into_iter().skip(skipped).take(size).collect()
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SortKey {
    Name,
    Status,
    Gpus,
    Free,
    Type,
    Age,
}

/// How often a watch looks.
pub const WATCH_STEP: Duration = Duration::from_secs(2);

pub async fn run(args: &GetNodes, world: &World) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    world.terminal.set_format(format);
    if let Some(at) = &args.at {
        return then::list(then::List::Nodes, at, format, !args.no_headers, world).await;
    }
    let connection = world.connect().await?;
    if args.watch {
        return watch(args, &connection, world).await;
    }
    let (stock, readings) = Cells::new(world, &connection).stock(quantities(args)).await?;
    let coverage = readings.as_ref().map(Coverage::from);
    // How published nodes are is not known, so none can be chosen by it.
    let stock = if args.status.is_some() { stock.listed()? } else { stock };
    warn_of(&stock, world);
    let found = chosen(args, &stock.inventory.hosts)?;
    let total = found.len();
    let found = args.page.of(found);
    let headers = !args.no_headers;
    let look = world.terminal.look();
    let key = args.label.as_deref().or(args.gpu_type.as_deref().filter(|text| is_key(text)));
    let text = if format == Format::Name {
        nodes::names(&found)
    } else if let Some(key) = key {
        let hosts: Vec<&Host> = found.iter().map(|host| &host.host).collect();
        document(format, &labels::of_nodes(&hosts, key, total))
            .unwrap_or_else(|| labels::of_nodes_table(&hosts, key, format, headers, look))
    } else if args.gpu_detail {
        document(format, &nodes::details(&found, total, coverage))
            .unwrap_or_else(|| node_table::detail_table(&found, format, headers, look))
    } else {
        show(args, &found, total, coverage, world)
    };
    world.terminal.print(&text)?;
    if total == 0 {
        world.terminal.note("no nodes found");
    }
    Ok(ExitCode::SUCCESS)
}

fn quantities(args: &GetNodes) -> &'static [Quantity] {
    match args.output {
        // Names have no cells.
        ListFormat::Name => &[],
        _ if args.gpu_detail => &OF_DEVICES,
        _ => &OF_NODES,
    }
}

/// What of the cluster could not be seen, once.
pub fn warn_of(stock: &Stock, world: &World) {
    if stock.unreadable.contains(&"pods") {
        world.terminal.lack("you may not list the pods of all namespaces: how many GPUs are held is not known");
    }
    if stock.unreadable.contains(&"nodes") {
        world.terminal.lack("you may not list nodes: they are shown as published, and how they are is not known");
    }
    let claims: Vec<&str> = stock.unreadable.iter().copied().filter(|what| what.starts_with("resource")).collect();
    if !claims.is_empty() {
        world.terminal.lack(&format!("you may not list {}: devices of dynamic allocation are not counted", claims.join(" and ")));
    }
}

/// `nvidia.com/gpu-type` is a label's key; `nvidia.com/a100-80g` is a type.
fn is_key(text: &str) -> bool {
    is_type_label(text)
}

/// The nodes that the filters leave, in order.
fn chosen<'h>(args: &GetNodes, hosts: &'h [HostUse]) -> Result<Vec<&'h HostUse>, Error> {
    let kind = match args.gpu_type.as_deref().filter(|text| !is_key(text)) {
        None => None,
        Some(text) => {
            let kind = GpuType::parse(text);
            Some(kind.ok_or_else(|| Error::usage(format!("`{text}` names no GPU type")).hint("such as a100-80g"))?)
        }
    };
    let status = Health::ALL.into_iter().find(|health| Some(health.word()) == args.status.as_deref());
    let typed =
        |host: &HostUse, kind: &GpuType| host.kinds().iter().filter_map(|own| GpuType::parse(own)).any(|own| own.matches(kind));
    let mut found: Vec<&HostUse> = hosts
        .iter()
        .filter(|host| args.pool.as_deref().is_none_or(|pool| host.host.node.pool() == Some(pool)))
        .filter(|host| status.is_none_or(|status| host.health == status))
        .filter(|host| kind.as_ref().is_none_or(|kind| typed(host, kind)))
        .collect();
    match args.sort_by {
        None | Some(SortKey::Name) => {}
        Some(SortKey::Status) => found.sort_by_key(|host| host.health),
        Some(SortKey::Gpus) => found.sort_by_key(|host| std::cmp::Reverse(host.gpus.total)),
        Some(SortKey::Free) => found.sort_by_key(|host| std::cmp::Reverse(host.gpus.free())),
        Some(SortKey::Type) => found.sort_by_key(|host| host.gpu_type()),
        Some(SortKey::Age) => found.sort_by_key(|host| std::cmp::Reverse(host.host.created_at)),
    }
    Ok(found)
}

fn show(args: &GetNodes, found: &[&HostUse], total: usize, coverage: Option<Coverage>, world: &World) -> String {
    let format: Format = args.output.into();
    match format {
        Format::Name => nodes::names(found),
        Format::Json | Format::Yaml => {
            document(format, &nodes::list(found, total, coverage)).expect("these formats are documents")
        }
        Format::Table | Format::Wide if found.is_empty() => String::new(),
        _ => {
            let mut text = node_table::table(found, format, !args.no_headers, world.terminal.look(), world.now());
            if world.terminal.out_is_terminal() && format != Format::Csv {
                text.push_str(&node_table::footer(found));
            }
            text
        }
    }
}

async fn watch(args: &GetNodes, connection: &Connection, world: &World) -> Result<ExitCode, Error> {
    let patience = Patience::new(|failure| world.terminal.warn(&format!("{failure}; trying again")));
    let cells = Cells::new(world, connection);
    watch::watch(args.output.into(), WATCH_STEP, world, async |first| {
        let (stock, moment) = join(patience.ask(|| connection.stock()), cells.now(quantities(args))).await;
        let (mut stock, moment) = (stock?, moment?);
        let readings = cells.measure(&mut stock, moment.as_ref());
        if first {
            warn_of(&stock, world);
        }
        let found = chosen(args, &stock.inventory.hosts)?;
        let total = found.len();
        let found = args.page.of(found);
        let items = found.iter().map(|host| (host.name().to_owned(), NodeItem::from(*host)));
        let coverage = readings.as_ref().map(Coverage::from);
        Ok(Frame::new(show(args, &found, total, coverage, world), items))
    })
    .await
}
