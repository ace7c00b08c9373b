//! `gpuctl get claims`: lists the volume claims that jobs left or use.

use std::cmp::Reverse;
use std::process::ExitCode;

use crate::cli::args::list::PAGE_SIZE;
use crate::cli::claims::get::{ClaimSortKey, GetClaims};
use crate::context::Context;
use crate::observe::list::{self, Listing, Round};
use gpuctl_cluster::{Connection, Failure};
use gpuctl_core::error::Error;
use gpuctl_core::model::Claim;
use gpuctl_core::model::values::quantity;
use gpuctl_view::jobs::claims;

pub(crate) async fn run(args: &GetClaims, context: &Context) -> Result<ExitCode, Error> {
    let options = args.list.options(PAGE_SIZE);
    context.terminal.set_format(options.format);
    let connection = context.connect().await?;
    list::run(&options, context, async |round: Round<'_>| {
        let (found, narrowed) = round.ask(|| read(&connection, args.all)).await?;
        if narrowed && round.first {
            let home = &connection.namespace;
            context.terminal.lack(&format!(
                "you may not list claims of all namespaces; only `{home}` is shown"
            ));
        }
        let mut found: Vec<Claim> = found
            .into_iter()
            .filter(|claim| !args.unused || claim.pods.as_ref().is_some_and(Vec::is_empty))
            .collect();
        sort(&mut found, args.list.sort_by);
        let total = found.len();
        let found = options.page.of(found);
        let table = |format, headers| {
            claims::table(
                &found,
                format,
                headers,
                context.terminal.look(),
                context.now(),
            )
        };
        let listing = Listing::new(
            &options,
            &claims::list(&found, total),
            "items",
            claims::names(&found),
            table,
        );
        let orphan = found.iter().find(|claim| claim.job_exists == Some(false));
        let hint = orphan.and_then(|claim| {
            let job = claim.job.as_ref()?;
            Some(format!(
                "{}'s job is deleted; gpuctl delete job {}/{job} --purge",
                claim.name, claim.namespace
            ))
        });
        Ok(listing
            .none("no claims found")
            .hints(hint.into_iter().collect()))
    })
    .await
}

/// Reads the claims of all namespaces, or where that is forbidden those of the own one; then the
/// flag is true.
async fn read(connection: &Connection, everybody: bool) -> Result<(Vec<Claim>, bool), Failure> {
    let named = connection
        .namespace_is_explicit
        .then_some(connection.namespace.as_str());
    match connection.claims(named, everybody).await {
        Err(failure) if failure.is_forbidden() && named.is_none() => Ok((
            connection
                .claims(Some(&connection.namespace), everybody)
                .await?,
            true,
        )),
        other => Ok((other?, false)),
    }
}

fn sort(found: &mut [Claim], key: Option<ClaimSortKey>) {
    let bytes = |claim: &Claim| claim.size.as_deref().and_then(quantity::milli);
    match key {
        None => {}
        Some(ClaimSortKey::Name) => found.sort_by(|a, b| a.name.cmp(&b.name)),
        Some(ClaimSortKey::Size) => found.sort_by_key(|claim| Reverse(bytes(claim))),
        Some(ClaimSortKey::Job) => found.sort_by(|a, b| a.job.cmp(&b.job)),
        Some(ClaimSortKey::Age) => found.sort_by_key(|claim| claim.created_at),
    }
}
