//! `gpuctl get defaults`: lists what this site sets for everybody's jobs.

use std::process::ExitCode;

use crate::cli::args::list::PAGE_SIZE;
use crate::cli::defaults::get::{DefaultsSortKey, GetDefaults};
use crate::context::Context;
use crate::deploy::defaults::stored;
use crate::observe::list::{self, Listing, Round};
use gpuctl_core::error::Error;
use gpuctl_view::files::defaults;

pub(crate) async fn run(args: &GetDefaults, context: &Context) -> Result<ExitCode, Error> {
    let options = args.list.options(PAGE_SIZE);
    context.terminal.set_format(options.format);
    let connection = context.connect().await?;
    list::run(&options, context, async |round: Round<'_>| {
        let found = stored(round.ask(|| connection.site_defaults()).await?)?;
        let mut rows = found.map_or_else(Vec::new, |(site, _)| site.rows());
        if let Some(DefaultsSortKey::Field) = args.list.sort_by {
            rows.sort_by_key(|row| row.field);
        }
        let total = rows.len();
        let rows = options.page.of(rows);
        let table =
            |format, headers| defaults::table(&rows, format, headers, context.terminal.look());
        let listing = Listing::new(
            &options,
            &defaults::list(&rows, total),
            "items",
            defaults::names(&rows),
            table,
        );
        Ok(listing
            .none("this site has no defaults; `gpuctl init defaults` prints a file to begin with"))
    })
    .await
}
