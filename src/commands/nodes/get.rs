//! `gpuctl get nodes`: filters, sorts and pages the inventory of GPUs.

use std::process::ExitCode;

use futures::future::join;

use crate::cli::args::format::ListFormat;
use crate::cli::nodes::get::{GetNodes, SortKey};
use crate::cluster::{Connection, Patience};
use crate::context::Context;
use crate::error::Error;
use crate::model::gpu::is_type_label;
use crate::model::{GpuType, Health, Host, HostUse};
use crate::observe::at_time;
use crate::observe::metrics::{Cells, OF_DEVICES, OF_NODES};
use crate::observe::nodes::warn_of;
use crate::observe::watch::{self, Frame, WATCH_STEP};
use crate::stats::dialect::Quantity;
use crate::view::coverage::Coverage;
use crate::view::nodes::{self, NodeItem};
use crate::view::{Format, document, labels, node_table};

pub async fn run(args: &GetNodes, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    if let Some(at) = &args.at {
        return at_time::list(at_time::List::Nodes, at, format, !args.no_headers, context).await;
    }
    let connection = context.connect().await?;
    if args.watch {
        return watch(args, &connection, context).await;
    }
    let (stock, readings) = Cells::new(context, &connection).stock(quantities(args)).await?;
    let coverage = readings.as_ref().map(Coverage::from);
    // How published nodes are is not known, so none can be chosen by it.
    let stock = if args.status.is_some() { stock.listed()? } else { stock };
    warn_of(&stock, context);
    let found = chosen(args, &stock.inventory.hosts)?;
    let total = found.len();
    let found = args.page.of(found);
    let headers = !args.no_headers;
    let look = context.terminal.look();
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
        show(args, &found, total, coverage, context)
    };
    context.terminal.print(&text)?;
    if total == 0 {
        context.terminal.note("no nodes found");
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

fn show(args: &GetNodes, found: &[&HostUse], total: usize, coverage: Option<Coverage>, context: &Context) -> String {
    let format: Format = args.output.into();
    match format {
        Format::Name => nodes::names(found),
        Format::Json | Format::Yaml => {
            document(format, &nodes::list(found, total, coverage)).expect("these formats are documents")
        }
        Format::Table | Format::Wide if found.is_empty() => String::new(),
        _ => {
            let mut text = node_table::table(found, format, !args.no_headers, context.terminal.look(), context.now());
            if context.terminal.out_is_terminal() && format != Format::Csv {
                text.push_str(&node_table::footer(found));
            }
            text
        }
    }
}

async fn watch(args: &GetNodes, connection: &Connection, context: &Context) -> Result<ExitCode, Error> {
    let patience = Patience::new(|failure| context.terminal.warn(&format!("{failure}; trying again")));
    let cells = Cells::new(context, connection);
    watch::watch(args.output.into(), WATCH_STEP, context, async |first| {
        let (stock, moment) = join(patience.ask(|| connection.stock()), cells.now(quantities(args))).await;
        let (mut stock, moment) = (stock?, moment?);
        let readings = cells.measure(&mut stock, moment.as_ref());
        if first {
            warn_of(&stock, context);
        }
        let found = chosen(args, &stock.inventory.hosts)?;
        let total = found.len();
        let found = args.page.of(found);
        let items = found.iter().map(|host| (host.name().to_owned(), NodeItem::from(*host)));
        let coverage = readings.as_ref().map(Coverage::from);
        Ok(Frame::new(show(args, &found, total, coverage, context), items))
    })
    .await
}
