//! `gpuctl get defaults`: lists the defaults that the site sets for all jobs.

use std::process::ExitCode;

use serde::Serialize;

use crate::cli::args::list::PAGE_SIZE;
use crate::cli::defaults::get::{DefaultsSortKey, GetDefaults};
use crate::context::Context;
use crate::deploy::defaults::parse_stored;
use crate::observe::list;
use crate::observe::rows::{ListRow, listing};
use gpuctl_core::error::Error;
use gpuctl_manifest::spec::DefaultRow;
use gpuctl_view::Format;
use gpuctl_view::files::defaults;

pub(crate) async fn run(args: &GetDefaults, context: &Context) -> Result<ExitCode, Error> {
    let options = args.list.options(PAGE_SIZE);
    context.terminal.set_format(options.format);
    let connection = context.connect().await?;
    list::run(&options, context, async |refresh| {
        let stored = parse_stored(refresh.ask(|| connection.site().defaults()).await?)?;
        let rows = stored.map_or_else(Vec::new, |(site, _)| site.rows());
        Ok(listing(rows, args.list.sort_by, (), &options, context))
    })
    .await
}

impl ListRow for DefaultRow {
    const NONE: &'static str =
        "this site has no defaults; `gpuctl init defaults` prints a starter file";
    type Key = DefaultsSortKey;
    type Facts = ();

    fn sort(rows: &mut [Self], key: Option<DefaultsSortKey>) {
        if let Some(DefaultsSortKey::Field) = key {
            rows.sort_by_key(|row| row.field);
        }
    }

    fn names(page: &[Self]) -> Vec<String> {
        defaults::names(page)
    }

    fn document(page: &[Self], total: usize, (): ()) -> impl Serialize {
        defaults::list(page, total)
    }

    fn table(page: &[Self], format: Format, headers: bool, context: &Context) -> String {
        defaults::table(page, format, headers, context.terminal.style())
    }
}
