//! `gpuctl get quotas`: lists what namespaces may use and do use.

use std::cmp::Reverse;
use std::process::ExitCode;

use crate::cli::args::list::PAGE_SIZE;
use crate::cli::quotas::get::{GetQuotas, QuotaSortKey};
use crate::context::Context;
use crate::observe::list::{self, Listing, Round};
use gpuctl_cluster::{Connection, Failure};
use gpuctl_core::error::Error;
use gpuctl_core::model::QuotaUse;
use gpuctl_view::queues::quotas;

pub(crate) async fn run(args: &GetQuotas, context: &Context) -> Result<ExitCode, Error> {
    let options = args.list.options(PAGE_SIZE);
    context.terminal.set_format(options.format);
    let connection = context.connect().await?;
    list::run(&options, context, async |round: Round<'_>| {
        let (mut found, narrowed) = round.ask(|| read(&connection)).await?;
        if narrowed && round.first {
            let home = &connection.namespace;
            context.terminal.lack(&format!(
                "you may not list quotas of all namespaces; only `{home}` is shown"
            ));
        }
        sort(&mut found, args.list.sort_by);
        let total = found.len();
        let found = options.page.of(found);
        let table =
            |format, headers| quotas::table(&found, format, headers, context.terminal.look());
        let listing = Listing::new(
            &options,
            &quotas::list(&found, total),
            "items",
            quotas::names(&found),
            table,
        );
        Ok(listing.none("no quotas found"))
    })
    .await
}

/// Reads the quotas of all namespaces, or where that is forbidden those of the own one; then the
/// flag is true.
async fn read(connection: &Connection) -> Result<(Vec<QuotaUse>, bool), Failure> {
    let named = connection
        .namespace_is_explicit
        .then_some(connection.namespace.as_str());
    match connection.quotas(named).await {
        Err(failure) if failure.is_forbidden() && named.is_none() => {
            Ok((connection.quotas(Some(&connection.namespace)).await?, true))
        }
        other => Ok((other?, false)),
    }
}

fn sort(found: &mut [QuotaUse], key: Option<QuotaSortKey>) {
    match key {
        None | Some(QuotaSortKey::Namespace) => {}
        Some(QuotaSortKey::Name) => found.sort_by(|a, b| a.name.cmp(&b.name)),
        Some(QuotaSortKey::Used) => found.sort_by_key(|quota| Reverse(quotas::fullest(quota))),
    }
}
