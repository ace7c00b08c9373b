//! `gpuctl get nodes`: lists nodes with GPUs, with filters, sorting and paging.

use std::process::ExitCode;

use futures::future::join;

use crate::cli::args::list::PAGE_SIZE;
use crate::cli::nodes::get::GetNodes;
use crate::cli::nodes::get::NodeSortKey;
use crate::context::Context;
use crate::lookup;
use crate::observe::at_time;
use crate::observe::blame;
use crate::observe::cached_response::CachedResponse;
use crate::observe::list;
use crate::observe::list::ListOptions;
use crate::observe::list::Listing;
use crate::observe::list::Refresh;
use crate::observe::live::DEVICE_QUANTITIES;
use crate::observe::live::NODE_QUANTITIES;
use crate::observe::nodes::warn_of_missing_rights;
use crate::observe::optional_metrics::OptionalMetrics;
use crate::observe::watch::METRICS_INTERVAL;
use gpuctl_core::error::Error;
use gpuctl_core::model::GpuType;
use gpuctl_core::model::NodeDetails;
use gpuctl_core::model::NodeHealth;
use gpuctl_core::model::NodeUsage;
use gpuctl_core::model::facts::gpu::is_type_label;
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_view::Format;
use gpuctl_view::format::coverage::Coverage;
use gpuctl_view::nodes::document as nodes;
use gpuctl_view::nodes::labels;
use gpuctl_view::nodes::table as node_table;

pub(crate) async fn run(args: &GetNodes, context: &Context) -> Result<ExitCode, Error> {
    let options = args.list.options(PAGE_SIZE);
    context.terminal.set_format(options.format);
    if let Some(at) = &args.at {
        return at_time::nodes(at, &options, context).await;
    }
    if let Some(since) = &args.blame {
        return blame::nodes(since, &options, context).await;
    }
    let connection = context.connect().await?;
    let metrics = OptionalMetrics::new(context, &connection).with_exporters(options.watch);
    let quantities = quantities(args, options.format);
    let key = args
        .label
        .as_deref()
        .or(args.gpu_type.as_deref().filter(|text| is_key(text)));
    let cache = CachedResponse::new(options.watch);
    let mut notifications = connection.watch_nodes(METRICS_INTERVAL);
    let pause = async || notifications.changed(None).await;
    list::run_after(&options, context, pause, async |refresh: Refresh<'_>| {
        let (snapshot, reading) = join(
            cache.get_or_read(
                refresh.fresh,
                refresh.ask(|| connection.inventory().snapshot()),
            ),
            metrics.now(quantities),
        )
        .await;
        let (mut snapshot, reading) = (snapshot?, reading?);
        let shown = options
            .page
            .select(select_nodes(args, &snapshot.inventory.hosts)?)
            .into_iter()
            .filter(|host| host.has_gpus());
        let reading = metrics
            .or_read_exporters(reading, shown.map(|host| host.name().to_owned()).collect())
            .await;
        let coverage = metrics
            .measure(&mut snapshot, reading.as_ref())
            .as_ref()
            .map(Coverage::from);
        // The health of published nodes is unknown, so `--status` needs listed nodes.
        let snapshot = if args.status.is_some() {
            snapshot.listed()?
        } else {
            snapshot
        };
        let mut missing = Vec::new();
        if refresh.first {
            warn_of_missing_rights(&snapshot, context);
            let names = args.names.iter();
            missing.extend(names.filter_map(|name| lookup::node(&snapshot, name).err()));
        }
        let selected = select_nodes(args, &snapshot.inventory.hosts)?;
        let total = selected.len();
        let selected = options.page.select(selected);
        let listing = match key {
            Some(key) => labels_listing(&selected, key, total, &options, context),
            None => nodes_listing(args, &selected, (total, coverage), &options, context),
        };
        Ok(listing.none("no nodes found").missing(missing))
    })
    .await
}

/// Live metrics that the table shows.
fn quantities(args: &GetNodes, format: Format) -> &'static [Quantity] {
    match format {
        // `-o name` shows no metrics.
        Format::Name => &[],
        _ if args.gpu_detail => &DEVICE_QUANTITIES,
        _ => &NODE_QUANTITIES,
    }
}

/// Lists the nodes with the value of a label.
fn labels_listing(
    selected: &[&NodeUsage],
    key: &str,
    total: usize,
    options: &ListOptions,
    context: &Context,
) -> Listing {
    let hosts: Vec<&NodeDetails> = selected.iter().map(|host| &host.details).collect();
    let look = context.terminal.style();
    let table = |format, headers| labels::of_nodes_table(&hosts, key, format, headers, look);
    Listing::new(
        options,
        &labels::of_nodes(&hosts, key, total),
        "items",
        nodes::names(selected),
        table,
    )
}

/// Lists the nodes with their GPUs. The total includes the nodes of all pages.
fn nodes_listing(
    args: &GetNodes,
    selected: &[&NodeUsage],
    (total, coverage): (usize, Option<Coverage>),
    options: &ListOptions,
    context: &Context,
) -> Listing {
    let (names, look) = (nodes::names(selected), context.terminal.style());
    if args.gpu_detail {
        let table = |format, headers| node_table::detail_table(selected, format, headers, look);
        let document = nodes::details(selected, total, coverage);
        return Listing::new(options, &document, "items", names, table);
    }
    let table = |format, headers| {
        let footer = if context.terminal.stdout_is_terminal() && format != Format::Csv {
            node_table::footer(selected)
        } else {
            String::new()
        };
        let (labels, now) = (args.show_labels, context.now());
        node_table::table(selected, format, headers, labels, look, now) + &footer
    };
    let document = nodes::list(selected, total, coverage);
    Listing::new(options, &document, "items", names, table)
}

/// Returns true for a label key such as `nvidia.com/gpu-type`, and false for a GPU type such as
/// `nvidia.com/a100-80g`.
fn is_key(text: &str) -> bool {
    is_type_label(text)
}

/// Filters and sorts the nodes.
fn select_nodes<'h>(args: &GetNodes, hosts: &'h [NodeUsage]) -> Result<Vec<&'h NodeUsage>, Error> {
    let gpu_type = match args.gpu_type.as_deref().filter(|text| !is_key(text)) {
        None => None,
        Some(text) => {
            let gpu_type = GpuType::parse(text);
            Some(gpu_type.ok_or_else(|| {
                Error::usage(format!("`{text}` is not a known GPU type"))
                    .hint("use a type such as a100-80g")
            })?)
        }
    };
    let status = NodeHealth::ALL
        .into_iter()
        .find(|health| Some(health.word()) == args.status.as_deref());
    let has_type = |host: &NodeUsage, gpu_type: &GpuType| {
        host.kinds()
            .iter()
            .any(|node_type| node_type.matches(gpu_type))
    };
    let mut selected: Vec<&NodeUsage> = hosts
        .iter()
        .filter(|host| args.names.is_empty() || args.names.iter().any(|name| name == host.name()))
        .filter(|host| {
            args.selector
                .as_ref()
                .is_none_or(|selector| selector.matches(&host.details.node.labels))
        })
        .filter(|host| {
            args.pool
                .as_deref()
                .is_none_or(|pool| host.details.node.pool() == Some(pool))
        })
        .filter(|host| status.is_none_or(|status| host.health == status))
        .filter(|host| {
            gpu_type
                .as_ref()
                .is_none_or(|gpu_type| has_type(host, gpu_type))
        })
        .collect();
    match args.list.sort_by {
        None | Some(NodeSortKey::Name) => {}
        Some(NodeSortKey::Status) => selected.sort_by_key(|host| host.health),
        Some(NodeSortKey::Gpus) => selected.sort_by_key(|host| std::cmp::Reverse(host.gpus.total)),
        Some(NodeSortKey::Free) => selected.sort_by_key(|host| std::cmp::Reverse(host.gpus.free())),
        Some(NodeSortKey::Type) => selected.sort_by_key(|host| host.gpu_type()),
        Some(NodeSortKey::Age) => {
            selected.sort_by_key(|host| std::cmp::Reverse(host.details.created_at));
        }
    }
    Ok(selected)
}
