//! `gpuctl get pools`: lists pools with their GPUs and jobs.

use std::cmp::Reverse;
use std::process::ExitCode;

use futures::future::join;
use serde::Serialize;

use crate::cli::args::list::PAGE_SIZE;
use crate::cli::pools::get::{GetPools, PoolSortKey};
use crate::context::Context;
use crate::deploy::pools::missing;
use crate::observe::kept::KeptAnswer;
use crate::observe::list::{self, Round};
use crate::observe::live::OF_NODES;
use crate::observe::optional_metrics::OptionalMetrics;
use crate::observe::pools::{look, warn_of};
use crate::observe::rows::{ListRow, listing};
use crate::observe::watch::METRICS_STEP;
use gpuctl_core::error::Error;
use gpuctl_view::Format;
use gpuctl_view::format::coverage::Coverage;
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
        let key = args.list.sort_by;
        Ok(listing(found, key, coverage, &options, context))
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
