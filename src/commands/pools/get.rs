//! `gpuctl get pools`: lists pools with their GPUs and jobs.

use std::cmp::Reverse;
use std::process::ExitCode;

use futures::future::join;

use crate::cli::pools::get::{GetPools, SortKey};
use crate::cluster::Patience;
use crate::context::Context;
use crate::error::Error;
use crate::observe::metrics::{Cells, OF_NODES};
use crate::observe::pools::{look, warn_of};
use crate::observe::watch::{self, Frame, WATCH_STEP};
use crate::view::coverage::Coverage;
use crate::view::pools::{self, PoolItem, PoolUse};
use crate::view::{Format, document};

pub async fn run(args: &GetPools, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    let connection = context.connect().await?;
    let cells = Cells::new(context, &connection);
    if args.watch {
        let patience = Patience::new(|failure| context.terminal.warn(&format!("{failure}; trying again")));
        return watch::watch(format, WATCH_STEP, context, async |first| {
            let (seen, moment) = join(patience.ask(|| look(&connection, None)), cells.now(&OF_NODES)).await;
            let (mut seen, moment) = (seen?, moment?);
            let coverage = seen.measure(&cells, moment.as_ref());
            if first {
                warn_of(&seen, context);
            }
            let (found, total) = chosen(args, seen.pools);
            let items = found.iter().map(|pool| (pool.name.clone(), PoolItem::from(pool)));
            Ok(Frame::new(show(args, &found, total, coverage, context), items))
        })
        .await;
    }
    let (seen, moment) = join(look(&connection, None), cells.now(&OF_NODES)).await;
    let (mut seen, moment) = (seen?, moment?);
    let coverage = seen.measure(&cells, moment.as_ref());
    warn_of(&seen, context);
    let (found, total) = chosen(args, seen.pools);
    context.terminal.print(&show(args, &found, total, coverage, context))?;
    if total == 0 {
        context.terminal.note("no pools found");
        context.terminal.hint("gpuctl create -f pool.yaml makes one");
    }
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

fn show(args: &GetPools, found: &[PoolUse], total: usize, coverage: Option<Coverage>, context: &Context) -> String {
    let format: Format = args.output.into();
    match format {
        Format::Name => pools::names(found),
        Format::Table | Format::Wide if found.is_empty() => String::new(),
        _ => document(format, &pools::list(found, total, coverage))
            .unwrap_or_else(|| pools::table(found, format, !args.no_headers, context.terminal.look())),
    }
}
