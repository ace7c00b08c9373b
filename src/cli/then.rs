//! `--at TIME` of lists, and `who`: how it was at a time, from kube-state-metrics and exporters as Prometheus remembers them.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::Value;

use crate::cluster::Connection;
use crate::error::{Error, Kind};
use crate::view::snapshot::At;
use crate::view::{Format, document, then as view};

use super::past::{Past, Want, clusters};
use super::{OneFormat, World, times};

/// Say who has or had a GPU
#[derive(Debug, Subcommand)]
pub enum Who {
    Gpu(WhoGpu),
}

/// Say who has or had one GPU
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl who gpu gpu-a-01/3
  gpuctl who gpu gpu-a-01/3 --at 2026-01-31T03:00:00Z -o json")]
pub struct WhoGpu {
    /// Node and number of the GPU
    #[arg(value_name = "NODE/INDEX", value_parser = place)]
    gpu: (String, u32),
    /// Time: RFC 3339, Unix seconds, a span before now such as 2h, or yesterday; now without it
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

fn place(text: &str) -> Result<(String, u32), String> {
    let parts = text.rsplit_once('/').filter(|(node, _)| !node.is_empty());
    let number = |text: &str| text.trim_start_matches("gpu-").parse().ok();
    parts
        .and_then(|(node, index)| Some((node.to_owned(), number(index)?)))
        .ok_or_else(|| "a node and a number, such as gpu-a-01/3".to_owned())
}

/// What is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    Nodes,
    Jobs,
}

/// Seconds before a time in which it has to have been seen.
const BEFORE: i64 = 300;

/// Looks at a time, and tells what `tell` makes of it.
async fn look(at: Option<&str>, world: &World, tell: impl FnOnce(&At<'_>) -> Option<Value>) -> Result<Value, Error> {
    let now = world.now();
    let time = at.map_or(Ok(now), |text| times::instant(text, now))?.as_second();
    if time > now.as_second() {
        return Err(Error::usage("that time has not come yet"));
    }
    let (cluster, access) = clusters(None, false, world)?.swap_remove(0);
    let connection = Connection::open(&access).await?;
    let past = Past::of(cluster, world, &connection).await?;
    let (ledger, usage) = past.look(time - BEFORE, time, Want { names: true, ..Want::default() }).await?;
    super::metrics::tell_warnings(world, &past.prometheus);
    let unknown = |message: String| Error::new(Kind::NotFound, "NoHistory", message);
    if ledger.looks() == 0 {
        let error = unknown(format!("Prometheus at {} knows nothing of that time", past.prometheus.server));
        return Err(error.hint("it has to have scraped kube-state-metrics then"));
    }
    let time = Timestamp::from_second(time).unwrap_or(now);
    let then = At { cluster: &past.cluster, time, ledger: &ledger, usage: &usage };
    tell(&then).ok_or_else(|| {
        let nodes = format!("gpuctl get nodes --at {}", time.as_second());
        unknown("there was no such GPU then".to_owned()).hint(format!("`{nodes}` lists nodes with their GPUs"))
    })
}

/// A list as it was.
pub async fn list(what: List, at: &str, format: Format, headers: bool, world: &World) -> Result<ExitCode, Error> {
    world.terminal.set_format(format);
    if format == Format::Name {
        return Err(Error::usage("`-o name` is for what is there now"));
    }
    let namespace = world.access.namespace.clone();
    let mut found = look(Some(at), world, |then| match what {
        List::Nodes => Some(view::nodes(then)),
        List::Jobs => Some(view::jobs(then)),
    })
    .await?;
    if let (List::Jobs, Some(namespace), Some(items)) = (what, namespace, found["items"].as_array_mut()) {
        items.retain(|item| item["namespace"] == namespace.as_str());
        found["total"] = found["items"].as_array().map_or(0, Vec::len).into();
    }
    let text = document(format, &found).unwrap_or_else(|| view::table(&found, format, headers, world.terminal.look()));
    world.terminal.print(&text)?;
    if found["total"] == 0 {
        world.terminal.note(if what == List::Jobs { "no GPU was requested then" } else { "no node had GPUs then" });
    }
    Ok(ExitCode::SUCCESS)
}

pub async fn who(args: &Who, world: &World) -> Result<ExitCode, Error> {
    let Who::Gpu(args) = args;
    let format: Format = args.output.into();
    world.terminal.set_format(format);
    let (node, index) = &args.gpu;
    let found = look(args.at.as_deref(), world, |then| view::device(then, node, *index)).await?;
    world.terminal.print(&document(format, &found).unwrap_or_else(|| view::sentence(&found)))?;
    Ok(ExitCode::SUCCESS)
}
