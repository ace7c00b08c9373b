//! `get quotas` and `describe quota`: what namespaces may use and what they do use.

use std::cmp::Reverse;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use clap_complete::engine::ArgValueCandidates;

use crate::cluster::{Connection, Failure, Patience};
use crate::error::{Error, Kind};
use crate::model::QuotaUse;
use crate::view::{Format, document, quotas};

use super::get_nodes::{Page, WATCH_STEP};
use super::watch::{self, Frame};
use super::{ListFormat, OneFormat, World, completion};

/// List quotas of namespaces: what is allowed and what is used
///
/// Of all namespaces, or of the one that -n names.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get quotas
  gpuctl get quotas --sort-by used
  gpuctl get quotas -n team-a -o json")]
pub struct GetQuotas {
    /// Of all namespaces, as without -n
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Order of the list: `used` has the fullest first
    #[arg(long, value_enum, value_name = "KEY")]
    sort_by: Option<SortKey>,
    #[command(flatten)]
    page: Page,
    /// Go on: redraw on a terminal, one JSON object per change in a pipe
    #[arg(short, long)]
    watch: bool,
    /// Leave the titles out
    #[arg(long)]
    no_headers: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: ListFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SortKey {
    Namespace,
    Name,
    Used,
}

/// Show what one namespace may use and what it does use
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl describe quota team-a
  gpuctl describe quota team-a -o json")]
pub struct DescribeQuota {
    /// Namespace
    #[arg(value_parser = super::object_name, add = ArgValueCandidates::new(completion::quota_namespaces))]
    namespace: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

pub async fn run(args: &GetQuotas, world: &World) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    world.terminal.set_format(format);
    let connection = world.connect().await?;
    if args.watch {
        let patience = Patience::new(|failure| world.terminal.warn(&format!("{failure}; trying again")));
        return watch::watch(format, WATCH_STEP, world, async |first| {
            let seen = patience.ask(|| look(&connection)).await?;
            if first {
                warn_of(&seen, &connection, world);
            }
            let (found, total) = chosen(args, seen.quotas);
            let items = found.iter().map(|quota| (format!("{}/{}", quota.namespace, quota.name), quotas::item(quota)));
            Ok(Frame::new(show(args, &found, total, world), items))
        })
        .await;
    }
    let seen = look(&connection).await?;
    warn_of(&seen, &connection, world);
    let (found, total) = chosen(args, seen.quotas);
    world.terminal.print(&show(args, &found, total, world))?;
    if total == 0 {
        world.terminal.note("no quotas found");
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

fn warn_of(seen: &Seen, connection: &Connection, world: &World) {
    if seen.narrowed {
        let home = &connection.namespace;
        world.terminal.lack(&format!("you may not list quotas of all namespaces; only `{home}` is shown"));
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

fn show(args: &GetQuotas, found: &[QuotaUse], total: usize, world: &World) -> String {
    let format: Format = args.output.into();
    match format {
        Format::Name => quotas::names(found),
        Format::Table | Format::Wide if found.is_empty() => String::new(),
        _ => document(format, &quotas::list(found, total))
            .unwrap_or_else(|| quotas::table(found, format, !args.no_headers, world.terminal.look())),
    }
}

pub async fn describe(args: &DescribeQuota, world: &World) -> Result<ExitCode, Error> {
    world.terminal.set_format(args.output.into());
    let connection = world.connect().await?;
    let found = connection.quotas(Some(&args.namespace)).await?;
    if found.is_empty() {
        let error = Error::new(Kind::NotFound, "QuotaNotFound", format!("namespace `{}` has no quota", args.namespace));
        return Err(error.hint("gpuctl get quotas"));
    }
    let text = document(args.output.into(), &quotas::list(&found, found.len()));
    world.terminal.print(&text.unwrap_or_else(|| quotas::text(&args.namespace, &found, world.terminal.look())))?;
    Ok(ExitCode::SUCCESS)
}
