//! `gpuctl get pools`: lists pools with their GPUs and jobs.

use std::cmp::Reverse;
use std::process::ExitCode;

use futures::future::join;
use serde::Serialize;

use crate::cli::args::list::PAGE_SIZE;
use crate::cli::pools::get::{GetPools, PoolSortKey};
use crate::context::Context;
use crate::deploy::pools::pool_not_found;
use crate::observe::cached_response::CachedResponse;
use crate::observe::list::{self, Refresh};
use crate::observe::live::NODE_QUANTITIES;
use crate::observe::optional_metrics::OptionalMetrics;
use crate::observe::pools::{read_pools, warn_of_missing_rights};
use crate::observe::rows::{ListRow, listing};
use crate::observe::watch::METRICS_INTERVAL;
use gpuctl_core::error::Error;
use gpuctl_view::Format;
use gpuctl_view::format::coverage::Coverage;
use gpuctl_view::nodes::pool_use::PoolUse;
use gpuctl_view::nodes::pools;

pub(crate) async fn run(args: &GetPools, context: &Context) -> Result<ExitCode, Error> {
    let options = args.list.options(PAGE_SIZE);
    context.terminal.set_format(options.format);
    let connection = context.connect().await?;
    let metrics = OptionalMetrics::new(context, &connection);
    let cache = CachedResponse::new(options.watch);
    let mut notifications = connection.watch_nodes(METRICS_INTERVAL);
    let pause = async || notifications.changed(None).await;
    list::run_after(&options, context, pause, async |refresh: Refresh<'_>| {
        let (snapshot, reading) = join(
            cache.get_or_read(refresh.fresh, refresh.ask(|| read_pools(&connection, None))),
            metrics.now(&NODE_QUANTITIES),
        )
        .await;
        let (mut snapshot, reading) = (snapshot?, reading?);
        let coverage = snapshot.measure(&metrics, reading.as_ref());
        if refresh.first {
            warn_of_missing_rights(&snapshot, context);
        }
        let is_missing = |name: &&String| {
            refresh.first && !snapshot.pools.iter().any(|pool| pool.name == **name)
        };
        let mut missing = Vec::new();
        for name in args.names.iter().filter(is_missing) {
            let inventory = &snapshot.snapshot.inventory;
            missing.push(pool_not_found(name, inventory, &connection).await);
        }
        let mut selected = snapshot.pools;
        selected.retain(|pool| args.names.is_empty() || args.names.contains(&pool.name));
        let key = args.list.sort_by;
        Ok(listing(selected, key, coverage, &options, context).missing(missing))
    })
    .await
}

impl ListRow for PoolUse {
    const NONE: &'static str = "no pools found";
    type Key = PoolSortKey;
    type Facts = Option<Coverage>;

    fn sort(rows: &mut [Self], key: Option<PoolSortKey>) {
        match key {
            None | Some(PoolSortKey::Name) => {}
            Some(PoolSortKey::Gpus) => rows.sort_by_key(|pool| Reverse(pool.gpus().total)),
            Some(PoolSortKey::Free) => rows.sort_by_key(|pool| Reverse(pool.gpus().free())),
            Some(PoolSortKey::Jobs) => rows.sort_by_key(|pool| Reverse(pool.job_count())),
        }
    }

    fn names(page: &[Self]) -> Vec<String> {
        pools::names(page)
    }

    fn document(page: &[Self], total: usize, coverage: Option<Coverage>) -> impl Serialize {
        pools::list(page, total, coverage)
    }

    fn table(page: &[Self], format: Format, headers: bool, context: &Context) -> String {
        pools::table(page, format, headers, context.terminal.style())
    }

    fn hint(_page: &[Self], total: usize) -> Option<String> {
        (total == 0).then(|| "gpuctl create -f pool.yaml creates one".to_owned())
    }
}
