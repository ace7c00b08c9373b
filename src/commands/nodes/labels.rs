//! `gpuctl get label`, `get node-labels` and `get gpu-type`: print labels of one or all nodes.

use std::process::ExitCode;

use serde::Serialize;

use crate::cli::args::list::PAGE_SIZE;
use crate::cli::nodes::labels::{LabelSortKey, NodeLabels};
use crate::context::Context;
use crate::lookup;
use crate::observe::cached_response::CachedResponse;
use crate::observe::list::{self, ListOptions, Refresh};
use crate::observe::rows::{ListRow, listing};
use crate::observe::watch::METRICS_INTERVAL;
use gpuctl_cluster::Connection;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::NodeDetails;
use gpuctl_view::nodes::gpu_types::GpuTypeItem;
use gpuctl_view::nodes::{gpu_types, labels};
use gpuctl_view::{Format, document};

pub(crate) async fn run(args: &NodeLabels, context: &Context) -> Result<ExitCode, Error> {
    let options = args.list.options(PAGE_SIZE);
    let format = options.format;
    context.terminal.set_format(format);
    let connection = context.connect().await?;
    if args.node.is_none() && !args.all {
        return list_types(&options, &connection, context).await;
    }
    let Some(name) = &args.node else {
        return list_all_nodes(args, &options, &connection, context).await;
    };
    let Some((host, _)) = connection.inventory().host(name).await? else {
        return Err(lookup::missing_node(name, &[]));
    };
    let Some(value) = host.node.labels.get(&args.key) else {
        let error = Error::new(
            ErrorName::LabelNotFound,
            format!("node `{name}` has no label `{}`", args.key),
        );
        return Err(error.hint(format!("gpuctl describe node {name}")));
    };
    let text = document(format, &labels::timed(&host, &args.key, value))
        .unwrap_or_else(|| format!("{value}\n"));
    context.terminal.print(&text)?;
    Ok(ExitCode::SUCCESS)
}

async fn list_all_nodes(
    args: &NodeLabels,
    options: &ListOptions,
    connection: &Connection,
    context: &Context,
) -> Result<ExitCode, Error> {
    let cache = CachedResponse::new(options.watch);
    let mut notifications = connection.watch_nodes(METRICS_INTERVAL);
    let pause = async || notifications.changed(None).await;
    list::run_after(options, context, pause, async |refresh: Refresh<'_>| {
        let snapshot = cache
            .get_or_read(
                refresh.fresh,
                refresh.ask(|| connection.inventory().snapshot()),
            )
            .await?;
        if snapshot.unreadable.contains(&"nodes") && refresh.first {
            context.terminal.warn_missing_permission(
                "you are not allowed to list nodes: only published labels are shown",
            );
        }
        let hosts = snapshot.inventory.hosts.iter();
        let hosts: Vec<&NodeDetails> = hosts.map(|host| &host.details).collect();
        Ok(listing(hosts, args.list.sort_by, (), options, context))
    })
    .await
}

/// Lists the cluster's values of `resources.gpu-type`.
async fn list_types(
    options: &ListOptions,
    connection: &Connection,
    context: &Context,
) -> Result<ExitCode, Error> {
    let cache = CachedResponse::new(options.watch);
    let mut notifications = connection.watch_nodes(METRICS_INTERVAL);
    let pause = async || notifications.changed(None).await;
    list::run_after(options, context, pause, async |refresh: Refresh<'_>| {
        let snapshot = cache
            .get_or_read(
                refresh.fresh,
                refresh.ask(|| connection.inventory().snapshot()),
            )
            .await?;
        if snapshot.unreadable.contains(&"nodes") && refresh.first {
            context.terminal.warn_missing_permission(
                "you are not allowed to list nodes: only published ones are counted",
            );
        }
        let items = gpu_types::items(&snapshot.inventory.hosts);
        Ok(listing(items, None, (), options, context))
    })
    .await
}

impl ListRow for &NodeDetails {
    const NONE: &'static str = "no nodes found";
    type Key = LabelSortKey;
    type Facts = ();

    fn sort(rows: &mut [Self], key: Option<LabelSortKey>) {
        match key {
            None | Some(LabelSortKey::Name) => {}
            Some(LabelSortKey::Pool) => {
                rows.sort_by_key(|host| host.node.pool().map(ToOwned::to_owned));
            }
            Some(LabelSortKey::Type) => {
                rows.sort_by_key(|host| host.node.gpu_type().map(|gpu_type| gpu_type.to_string()));
            }
        }
    }

    fn names(page: &[Self]) -> Vec<String> {
        page.iter().map(|host| host.node.name.clone()).collect()
    }

    fn document(page: &[Self], total: usize, (): ()) -> impl Serialize {
        labels::of_gpus(page, total)
    }

    fn table(page: &[Self], format: Format, headers: bool, context: &Context) -> String {
        labels::of_gpus_table(page, format, headers, context.terminal.style())
    }
}

impl ListRow for GpuTypeItem {
    const NONE: &'static str = "no node has GPUs of a known type";
    type Key = LabelSortKey;
    type Facts = ();

    /// GPU types are always sorted by name.
    fn sort(_rows: &mut [Self], _key: Option<LabelSortKey>) {}

    fn names(page: &[Self]) -> Vec<String> {
        page.iter().map(|item| item.gpu_type.clone()).collect()
    }

    fn document(page: &[Self], total: usize, (): ()) -> impl Serialize {
        gpu_types::list(page, total)
    }

    fn table(page: &[Self], format: Format, headers: bool, context: &Context) -> String {
        gpu_types::table(page, format, headers, context.terminal.style())
    }
}
