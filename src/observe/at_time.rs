//! Answers `--at TIME` and `who gpu`: the state at a moment, from kube-state-metrics and exporters in Prometheus.

use std::process::ExitCode;

use jiff::Timestamp;
use serde_json::Value;

use crate::cluster::Connection;
use crate::context::Context;
use crate::error::{Error, Kind};
use crate::observe::history::{Past, Want, clusters};
use crate::observe::times;
use crate::view::snapshot::At;
use crate::view::{Format, document, then as view};

/// What is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    Nodes,
    Jobs,
}

/// Seconds before a time in which it has to have been seen.
const BEFORE: i64 = 300;

/// Looks at a time, and tells what `tell` makes of it.
pub async fn look(at: Option<&str>, context: &Context, tell: impl FnOnce(&At<'_>) -> Option<Value>) -> Result<Value, Error> {
    let now = context.now();
    let time = at.map_or(Ok(now), |text| times::instant(text, now))?.as_second();
    if time > now.as_second() {
        return Err(Error::usage("that time has not come yet"));
    }
    let (cluster, access) = clusters(None, false, context)?.swap_remove(0);
    let connection = Connection::open(&access).await?;
    let past = Past::of(cluster, context, &connection).await?;
    let (ledger, usage) = past.look(time - BEFORE, time, Want { names: true, ..Want::default() }).await?;
    crate::observe::metrics::tell_warnings(context, &past.prometheus);
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
pub async fn list(what: List, at: &str, format: Format, headers: bool, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(format);
    if format == Format::Name {
        return Err(Error::usage("`-o name` is for what is there now"));
    }
    let namespace = context.access.namespace.clone();
    let mut found = look(Some(at), context, |then| match what {
        List::Nodes => Some(view::nodes(then)),
        List::Jobs => Some(view::jobs(then)),
    })
    .await?;
    if let (List::Jobs, Some(namespace), Some(items)) = (what, namespace, found["items"].as_array_mut()) {
        items.retain(|item| item["namespace"] == namespace.as_str());
        found["total"] = found["items"].as_array().map_or(0, Vec::len).into();
    }
    let text = document(format, &found).unwrap_or_else(|| view::table(&found, format, headers, context.terminal.look()));
    context.terminal.print(&text)?;
    if found["total"] == 0 {
        context.terminal.note(if what == List::Jobs { "no GPU was requested then" } else { "no node had GPUs then" });
    }
    Ok(ExitCode::SUCCESS)
}
