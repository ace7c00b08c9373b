//! `gpuctl get quotas`: lists what namespaces may use and do use.

use std::cmp::Reverse;
use std::process::ExitCode;

use crate::cli::quotas::get::{GetQuotas, SortKey};
use crate::cluster::{Connection, Failure, Patience};
use crate::context::Context;
use crate::error::Error;
use crate::model::QuotaUse;
use crate::observe::watch::{self, Frame, WATCH_STEP};
use crate::view::{Format, document, quotas};

pub async fn run(args: &GetQuotas, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    let connection = context.connect().await?;
    if args.watch {
        let patience = Patience::new(|failure| context.terminal.warn(&format!("{failure}; trying again")));
        return watch::watch(format, WATCH_STEP, context, async |first| {
            let seen = patience.ask(|| look(&connection)).await?;
            if first {
                warn_of(&seen, &connection, context);
            }
            let (found, total) = chosen(args, seen.quotas);
            let items = found.iter().map(|quota| (format!("{}/{}", quota.namespace, quota.name), quotas::item(quota)));
            Ok(Frame::new(show(args, &found, total, context), items))
        })
        .await;
    }
    let seen = look(&connection).await?;
    warn_of(&seen, &connection, context);
    let (found, total) = chosen(args, seen.quotas);
    context.terminal.print(&show(args, &found, total, context))?;
    if total == 0 {
        context.terminal.note("no quotas found");
    }
    Ok(ExitCode::SUCCESS)
}

/// Quotas, and whether those of other namespaces may not be seen.
struct Seen {
    quotas: Vec<QuotaUse>,
    narrowed: bool,
}

async fn look(connection: &Connection) -> Result<Seen, Failure> {
    let named = connection.namespace_is_explicit.then_some(connection.namespace.as_str());
    match connection.quotas(named).await {
        Err(failure) if failure.is_forbidden() && named.is_none() => {
            Ok(Seen { quotas: connection.quotas(Some(&connection.namespace)).await?, narrowed: true })
        }
        other => Ok(Seen { quotas: other?, narrowed: false }),
    }
}

fn warn_of(seen: &Seen, connection: &Connection, context: &Context) {
    if seen.narrowed {
        let home = &connection.namespace;
        context.terminal.lack(&format!("you may not list quotas of all namespaces; only `{home}` is shown"));
    }
}

/// The quotas of the page in order, and how many there are.
fn chosen(args: &GetQuotas, mut found: Vec<QuotaUse>) -> (Vec<QuotaUse>, usize) {
    match args.sort_by {
        None | Some(SortKey::Namespace) => {}
        Some(SortKey::Name) => found.sort_by(|a, b| a.name.cmp(&b.name)),
        Some(SortKey::Used) => found.sort_by_key(|quota| Reverse(quotas::fullest(quota))),
    }
    let total = found.len();
    (args.page.of(found), total)
}

fn show(args: &GetQuotas, found: &[QuotaUse], total: usize, context: &Context) -> String {
    let format: Format = args.output.into();
    match format {
        Format::Name => quotas::names(found),
        Format::Table | Format::Wide if found.is_empty() => String::new(),
        _ => document(format, &quotas::list(found, total))
            .unwrap_or_else(|| quotas::table(found, format, !args.no_headers, context.terminal.look())),
    }
}
