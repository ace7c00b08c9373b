//! `gpuctl get nodes`: lists nodes with GPUs, with filters, sorting and paging.

mod all_contexts;

use std::cmp::Ordering;
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
use crate::observe::list::PageOptions;
use crate::observe::list::Refresh;
use crate::observe::live::DEVICE_QUANTITIES;
use crate::observe::live::NODE_QUANTITIES;
use crate::observe::nodes::warn_of_missing_rights;
use crate::observe::optional_metrics::OptionalMetrics;
use crate::observe::watch::METRICS_INTERVAL;
use gpuctl_cluster::Connection;
use gpuctl_cluster::InventorySnapshot;
use gpuctl_core::error::Error;
use gpuctl_core::model::GpuType;
use gpuctl_core::model::NodeDetails;
use gpuctl_core::model::NodeHealth;
use gpuctl_core::model::NodeUsage;
use gpuctl_core::model::facts::gpu::is_type_label;
use gpuctl_core::model::values::natural;
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_view::Format;
use gpuctl_view::format::coverage::Coverage;
use gpuctl_view::format::row_contexts::RowContexts;
use gpuctl_view::nodes::document as view;
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
    if args.all_contexts {
        return all_contexts::run(args, &options, context).await;
    }
    let connection = context.connect().await?;
    let source = NodeSource {
        args,
        page: options.page,
        quantities: quantities(args, options.format),
        connection: &connection,
        metrics: OptionalMetrics::new(context, &connection).with_exporters(options.watch),
        cache: CachedResponse::new(options.watch),
        context,
    };
    let mut notifications = connection.watch_nodes(METRICS_INTERVAL);
    let pause = async || notifications.changed(None).await;
    list::run_after(&options, context, pause, async |refresh: Refresh<'_>| {
        let (snapshot, coverage) = source.read(&refresh).await?;
        let mut missing = Vec::new();
        if refresh.first {
            let names = args.names.iter();
            missing.extend(names.filter_map(|name| lookup::node(&snapshot, name).err()));
        }
        let selected = select_nodes(args, &snapshot.inventory.hosts)?;
        let nodes = SelectedNodes {
            total: selected.len(),
            hosts: options.page.select(selected),
            contexts: RowContexts::NONE,
            coverage,
        };
        Ok(listing(args, &nodes, &options, context).missing(missing))
    })
    .await
}

/// Reads the nodes of one cluster with their live metrics, once or at every refresh of a watch.
struct NodeSource<'a> {
    args: &'a GetNodes,
    /// The nodes whose exporters are read if Prometheus does not respond.
    page: PageOptions,
    quantities: &'static [Quantity],
    connection: &'a Connection,
    metrics: OptionalMetrics<'a>,
    cache: CachedResponse<InventorySnapshot>,
    context: &'a Context,
}

impl NodeSource<'_> {
    async fn read(
        &self,
        refresh: &Refresh<'_>,
    ) -> Result<(InventorySnapshot, Option<Coverage>), Error> {
        let (snapshot, reading) = join(
            self.cache.get_or_read(
                refresh.fresh,
                refresh.ask(|| self.connection.inventory().snapshot()),
            ),
            self.metrics.now(self.quantities),
        )
        .await;
        let (mut snapshot, reading) = (snapshot?, reading?);
        let shown = self
            .page
            .select(select_nodes(self.args, &snapshot.inventory.hosts)?)
            .into_iter()
            .filter(|host| host.has_gpus());
        let nodes = shown.map(|host| host.name().to_owned()).collect();
        let reading = self.metrics.or_read_exporters(reading, nodes).await;
        let coverage = self
            .metrics
            .measure(&mut snapshot, reading.as_ref())
            .as_ref()
            .map(Coverage::from);
        // The health of published nodes is unknown, so `--status` needs listed nodes.
        let snapshot = if self.args.status.is_some() {
            snapshot.listed()?
        } else {
            snapshot
        };
        if refresh.first {
            warn_of_missing_rights(&snapshot, self.context);
        }
        Ok((snapshot, coverage))
    }
}

/// A page of nodes.
struct SelectedNodes<'a> {
    hosts: Vec<&'a NodeUsage>,
    contexts: RowContexts<'a>,
    /// Number of matching nodes on all pages.
    total: usize,
    coverage: Option<Coverage>,
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

/// Lists the nodes with their GPUs, or with the value of a label.
fn listing(
    args: &GetNodes,
    nodes: &SelectedNodes<'_>,
    options: &ListOptions,
    context: &Context,
) -> Listing {
    let key = args
        .label
        .as_deref()
        .or(args.gpu_type.as_deref().filter(|text| is_key(text)));
    let listing = match key {
        Some(key) => labels_listing(nodes, key, options, context),
        None => nodes_listing(args, nodes, options, context),
    };
    listing.none("no nodes found")
}

fn labels_listing(
    nodes: &SelectedNodes<'_>,
    key: &str,
    options: &ListOptions,
    context: &Context,
) -> Listing {
    let (hosts, contexts) = (&nodes.hosts, nodes.contexts);
    let details: Vec<&NodeDetails> = hosts.iter().map(|host| &host.details).collect();
    let look = context.terminal.style();
    let table =
        |format, headers| labels::of_nodes_table(&details, contexts, key, format, headers, look);
    let document = labels::of_nodes(&details, contexts, key, nodes.total);
    let names = contexts.qualify(view::names(hosts));
    Listing::new(options, &document, "items", names, table)
}

fn nodes_listing(
    args: &GetNodes,
    nodes: &SelectedNodes<'_>,
    options: &ListOptions,
    context: &Context,
) -> Listing {
    let SelectedNodes {
        hosts,
        contexts,
        total,
        coverage,
    } = nodes;
    let (names, look) = (
        contexts.qualify(view::names(hosts)),
        context.terminal.style(),
    );
    if args.gpu_detail {
        let table =
            |format, headers| node_table::detail_table(hosts, *contexts, format, headers, look);
        let document = view::details(hosts, *contexts, *total, *coverage);
        return Listing::new(options, &document, "items", names, table);
    }
    let table = |format, headers| {
        let footer = if context.terminal.stdout_is_terminal() && format != Format::Csv {
            node_table::footer(hosts)
        } else {
            String::new()
        };
        let (labels, now) = (args.show_labels, context.now());
        node_table::table(hosts, *contexts, format, headers, labels, look, now) + &footer
    };
    let document = view::list(hosts, *contexts, *total, *coverage);
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
    sort_nodes(args, &mut selected, |host| host);
    Ok(selected)
}

/// Sorts nodes. Without a sort key, keeps their order.
fn sort_nodes<T>(args: &GetNodes, rows: &mut [T], host: impl Fn(&T) -> &NodeUsage) {
    let compare = |a: &T, b: &T| {
        let (a, b) = (host(a), host(b));
        match args.list.sort_by {
            None => Ordering::Equal,
            Some(NodeSortKey::Name) => natural::compare(a.name(), b.name()),
            Some(NodeSortKey::Status) => a.health.cmp(&b.health),
            Some(NodeSortKey::Gpus) => b.gpus.total.cmp(&a.gpus.total),
            Some(NodeSortKey::Free) => b.gpus.free().cmp(&a.gpus.free()),
            Some(NodeSortKey::Type) => a.gpu_type().cmp(&b.gpu_type()),
            Some(NodeSortKey::Age) => b.details.created_at.cmp(&a.details.created_at),
        }
    };
    rows.sort_by(compare);
}
