//! `gpuctl get nodes --all-contexts`: lists the nodes of all contexts of the kubeconfig.

use std::process::ExitCode;

use super::{NodeSource, SelectedNodes, listing, quantities, select_nodes, sort_nodes};
use crate::cli::nodes::get::GetNodes;
use crate::context::Context;
use crate::observe::cached_response::CachedResponse;
use crate::observe::contexts::{missing_everywhere, read_all};
use crate::observe::list::{self, ListOptions, Refresh};
use crate::observe::optional_metrics::OptionalMetrics;
use gpuctl_cluster::InventorySnapshot;
use gpuctl_core::error::Error;
use gpuctl_core::model::NodeUsage;
use gpuctl_view::format::coverage::Coverage;
use gpuctl_view::format::row_contexts::RowContexts;

pub(super) async fn run(
    args: &GetNodes,
    options: &ListOptions,
    context: &Context,
) -> Result<ExitCode, Error> {
    list::run(options, context, async |_: Refresh<'_>| {
        let parts = read_all(context, async |own| read(args, options, own).await).await?;
        let mut rows: Vec<(&str, &NodeUsage)> = Vec::new();
        for (name, (snapshot, _)) in &parts {
            let selected = select_nodes(args, &snapshot.inventory.hosts)?;
            rows.extend(selected.into_iter().map(|host| (name.as_str(), host)));
        }
        sort_nodes(args, &mut rows, |(_, host)| host);
        let exists = |name: &str| {
            let mut hosts = parts
                .iter()
                .flat_map(|(_, (snapshot, _))| &snapshot.inventory.hosts);
            hosts.any(|host| host.name() == name)
        };
        let missing = args.names.iter().filter(|name| !exists(name));
        let missing = missing
            .map(|name| missing_everywhere("node", name))
            .collect();
        let total = rows.len();
        let (contexts, hosts): (Vec<&str>, Vec<&NodeUsage>) =
            options.page.select(rows).into_iter().unzip();
        let nodes = SelectedNodes {
            hosts,
            contexts: RowContexts::new(&contexts),
            total,
            coverage: Coverage::sum(parts.iter().map(|(_, (_, coverage))| *coverage)),
        };
        Ok(listing(args, &nodes, options, context).missing(missing))
    })
    .await
}

/// Reads the nodes of one context.
async fn read(
    args: &GetNodes,
    options: &ListOptions,
    context: &Context,
) -> Result<(InventorySnapshot, Option<Coverage>), Error> {
    let connection = context.connect().await?;
    let source = NodeSource {
        args,
        page: options.page.including_previous(),
        quantities: quantities(args, options.format),
        connection: &connection,
        metrics: OptionalMetrics::new(context, &connection).with_exporters(false),
        cache: CachedResponse::new(false),
        context,
    };
    source.read(&Refresh::once()).await
}
