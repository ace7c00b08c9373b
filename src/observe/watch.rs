//! Repeats a list for `-w`: redrawn on a terminal, one JSON object per change in a pipe.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;

use crate::context::Context;
use gpuctl_core::error::Error;
use gpuctl_view::{Format, json_line};

/// How often a watch looks that hears of no changes.
pub(crate) const WATCH_STEP: Duration = Duration::from_secs(5);
/// How often a watch that hears of changes asks for metrics.
pub(crate) const METRICS_STEP: Duration = Duration::from_secs(15);

/// What a list shows at one time.
pub(crate) struct WatchFrame {
    /// The list for people.
    pub text: String,
    /// Item → its JSON, on one line.
    pub lines: BTreeMap<String, String>,
}

impl WatchFrame {
    pub(crate) fn new<T: Serialize>(
        text: String,
        items: impl Iterator<Item = (String, T)>,
    ) -> Self {
        Self {
            text,
            lines: items.map(|(name, item)| (name, json_line(&item))).collect(),
        }
    }
}

/// Shows frames until it is interrupted. `look` is told whether it is the first time, and whether
/// to read everything anew.
pub(crate) async fn watch(
    format: Format,
    mut pause: impl AsyncFnMut() -> bool,
    context: &Context,
    mut look: impl AsyncFnMut(bool, bool) -> Result<WatchFrame, Error>,
) -> Result<ExitCode, Error> {
    context.must_change("omit `--watch`")?;
    context.terminal.stream()?;
    let redraws = context.terminal.out_is_terminal() && !format.is_document();
    let mut known = BTreeMap::new();
    let (mut first, mut fresh) = (true, true);
    loop {
        let frame = look(first, fresh).await?;
        if redraws {
            context.terminal.redraw(&frame.text, first)?;
        } else {
            let changed = frame
                .lines
                .iter()
                .filter(|(name, line)| known.get(*name) != Some(*line))
                .map(|(_, line)| line.clone());
            let gone = known
                .iter()
                .filter(|(name, _)| !frame.lines.contains_key(*name))
                .map(|(_, line)| gone(line));
            for line in changed.chain(gone) {
                context.terminal.print(&format!("{line}\n"))?;
            }
            known = frame.lines;
        }
        first = false;
        fresh = pause().await;
    }
}

/// Returns the last line of an item that is gone, marked so.
fn gone(line: &str) -> String {
    let mut item: serde_json::Value = serde_json::from_str(line).expect("our own line");
    item["deleted"] = true.into();
    item.to_string()
}
