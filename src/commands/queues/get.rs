//! `gpuctl get queues`: lists the queues of Kueue and Volcano.

use std::cmp::Reverse;
use std::process::ExitCode;

use crate::cli::args::list::PAGE_SIZE;
use crate::cli::queues::get::{GetQueues, QueueSortKey};
use crate::context::Context;
use crate::error::Error;
use crate::model::Queue;
use crate::observe::list::{self, Listing, Round};
use crate::view::queues;

pub(crate) async fn run(args: &GetQueues, context: &Context) -> Result<ExitCode, Error> {
    let options = args.list.options(PAGE_SIZE);
    context.terminal.set_format(options.format);
    let connection = context.connect().await?;
    let served = super::served(&connection).await?;
    let named = connection.namespace_is_explicit.then_some(connection.namespace.as_str());
    list::run(&options, context, async |round: Round<'_>| {
        let found = match round.ask(|| connection.queues(&served, named)).await {
            Err(failure) if failure.is_forbidden() && named.is_none() => {
                if round.first {
                    let home = &connection.namespace;
                    context.terminal.lack(&format!("you may not list queues of all namespaces; only `{home}` is shown"));
                }
                connection.queues(&served, Some(&connection.namespace)).await
            }
            other => other,
        };
        let (mut found, unseen) = found?;
        for system in unseen.iter().filter(|_| round.first) {
            context.terminal.lack(&format!("you may not list queues of {}", system.name()));
        }
        sort(&mut found, args.list.sort_by);
        let total = found.len();
        let found = options.page.of(found);
        let table = |format, headers| queues::table(&found, format, headers, context.terminal.look());
        let listing = Listing::new(&options, &queues::list(&found, total), "items", queues::names(&found), table);
        let waits = found.iter().find(|queue| queue.waiting > Some(0));
        let hint = waits.map(|queue| format!("who waits and why: gpuctl describe queue {}", queues::name(queue)));
        Ok(listing.none("no queues found").hints(hint.into_iter().collect()))
    })
    .await
}

fn sort(found: &mut [Queue], key: Option<QueueSortKey>) {
    match key {
        None => {}
        Some(QueueSortKey::Name) => found.sort_by(|a, b| a.name.cmp(&b.name)),
        Some(QueueSortKey::Used) => found.sort_by_key(|queue| Reverse(queue.used)),
        Some(QueueSortKey::Waiting) => found.sort_by_key(|queue| Reverse(queue.waiting)),
    }
}
