//! `gpuctl get quotas`: lists namespace quotas and their usage.

use std::cmp::Reverse;
use std::process::ExitCode;

use serde::Serialize;

use crate::cli::args::list::PAGE_SIZE;
use crate::cli::quotas::get::{GetQuotas, QuotaSortKey};
use crate::context::Context;
use crate::lookup;
use crate::observe::list;
use crate::observe::rows::{ListRow, listing, read_namespaces};
use gpuctl_core::error::Error;
use gpuctl_core::model::QuotaUse;
use gpuctl_core::model::values::natural;
use gpuctl_view::Format;
use gpuctl_view::queues::quotas;

pub(crate) async fn run(args: &GetQuotas, context: &Context) -> Result<ExitCode, Error> {
    let options = args.list.options(PAGE_SIZE);
    context.terminal.set_format(options.format);
    let connection = context.connect().await?;
    list::run(&options, context, async |refresh| {
        let read = async |namespace: Option<&str>| connection.quotas().list(namespace).await;
        let quotas = read_namespaces("quotas", &connection, &refresh, context, read).await?;
        let namespace = lookup::explicit_namespace(&connection);
        lookup::check_empty(&connection, namespace, refresh.first && quotas.is_empty()).await?;
        Ok(listing(quotas, args.list.sort_by, (), &options, context))
    })
    .await
}

impl ListRow for QuotaUse {
    const NONE: &'static str = "no quotas found";
    type Key = QuotaSortKey;
    type Facts = ();

    fn sort(rows: &mut [Self], key: Option<QuotaSortKey>) {
        match key {
            None | Some(QuotaSortKey::Namespace) => {}
            Some(QuotaSortKey::Name) => {
                rows.sort_by(|a, b| natural::compare(&a.name, &b.name));
            }
            Some(QuotaSortKey::Used) => rows.sort_by_key(|quota| Reverse(quotas::fullest(quota))),
        }
    }

    fn names(page: &[Self]) -> Vec<String> {
        quotas::names(page)
    }

    fn document(page: &[Self], total: usize, (): ()) -> impl Serialize {
        quotas::list(page, total)
    }

    fn table(page: &[Self], format: Format, headers: bool, context: &Context) -> String {
        quotas::table(page, format, headers, context.terminal.style())
    }
}
