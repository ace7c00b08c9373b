//! `gpuctl get pools`: lists pools with their GPUs and jobs.

use std::cmp::Reverse;
use std::process::ExitCode;

use futures::future::join;

use crate::cli::args::list::PAGE_SIZE;
use crate::cli::pools::get::{GetPools, PoolSortKey};
use crate::context::Context;
use crate::deploy::pools::missing;
use crate::observe::kept::KeptAnswer;
use crate::observe::list::{self, Listing, Round};
use crate::observe::live::OF_NODES;
use crate::observe::optional_metrics::OptionalMetrics;
use crate::observe::pools::{look, warn_of};
use crate::observe::watch::METRICS_STEP;
use gpuctl_core::error::Error;
use gpuctl_view::nodes::pool_use::PoolUse;
use gpuctl_view::nodes::pools;

pub(crate) async fn run(args: &GetPools, context: &Context) -> Result<ExitCode, Error> {
    let options = args.list.options(PAGE_SIZE);
    context.terminal.set_format(options.format);
    let connection = context.connect().await?;
    let cells = OptionalMetrics::new(context, &connection);
    let kept = KeptAnswer::new(options.watch);
    let mut bell = connection.doorbell_of_nodes(METRICS_STEP);
    let pause = async || bell.news(None).await;
    list::run_after(&options, context, pause, async |round: Round<'_>| {
        let (seen, moment) = join(
            kept.or(round.fresh, round.ask(|| look(&connection, None))),
            cells.now(&OF_NODES),
        )
        .await;
        let (mut seen, moment) = (seen?, moment?);
        let coverage = seen.measure(&cells, moment.as_ref());
        if round.first {
            warn_of(&seen, context);
        }
        if let Some(name) = args
            .names
            .iter()
            .find(|name| round.first && !seen.pools.iter().any(|pool| pool.name == **name))
        {
            return Err(missing(name, &seen.stock.inventory, &connection).await);
        }
        let mut found = seen.pools;
        found.retain(|pool| args.names.is_empty() || args.names.contains(&pool.name));
        sort(&mut found, args.list.sort_by);
        let total = found.len();
        let found = options.page.of(found);
        let table =
            |format, headers| pools::table(&found, format, headers, context.terminal.look());
        let listing = Listing::new(
            &options,
            &pools::list(&found, total, coverage),
            "items",
            pools::names(&found),
            table,
        );
        let hints = if total == 0 {
            vec!["gpuctl create -f pool.yaml makes one".to_owned()]
        } else {
            Vec::new()
        };
        Ok(listing.none("no pools found").hints(hints))
    })
    .await
}

fn sort(found: &mut [PoolUse], key: Option<PoolSortKey>) {
    match key {
        None | Some(PoolSortKey::Name) => {}
        Some(PoolSortKey::Gpus) => found.sort_by_key(|pool| Reverse(pool.gpus().total)),
        Some(PoolSortKey::Free) => found.sort_by_key(|pool| Reverse(pool.gpus().free())),
        Some(PoolSortKey::Jobs) => found.sort_by_key(|pool| Reverse(pool.job_count())),
    }
}
