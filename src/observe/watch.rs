//! Repeats a list for `-w`. On a terminal, it redraws the list. In a pipe, it prints one JSON
//! object per change.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;

use crate::context::Context;
use gpuctl_core::error::Error;
use gpuctl_view::{Format, json_line};

/// How often a watch without change notifications polls.
pub(crate) const WATCH_INTERVAL: Duration = Duration::from_secs(5);
/// How often a watch with change notifications queries metrics.
pub(crate) const METRICS_INTERVAL: Duration = Duration::from_secs(15);

/// The content of a list at one point in time.
pub(crate) struct WatchFrame {
    /// The list in the format for people.
    pub text: String,
    /// One line of JSON for each item, by the name of the item.
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

/// Shows frames until the user interrupts it. The arguments of `read_frame` state whether this is
/// the first frame, and whether everything must be read again.
pub(crate) async fn watch(
    format: Format,
    mut pause: impl AsyncFnMut() -> bool,
    context: &Context,
    mut read_frame: impl AsyncFnMut(bool, bool) -> Result<WatchFrame, Error>,
) -> Result<ExitCode, Error> {
    context.must_change("remove `--watch`")?;
    context.terminal.stream()?;
    let redraws = context.terminal.stdout_is_terminal() && !format.is_document();
    let mut previous = BTreeMap::new();
    let (mut first, mut fresh) = (true, true);
    loop {
        let frame = read_frame(first, fresh).await?;
        if redraws {
            context.terminal.redraw(&frame.text, first)?;
        } else {
            let changed = frame
                .lines
                .iter()
                .filter(|(name, line)| previous.get(*name) != Some(*line))
                .map(|(_, line)| line.clone());
            let deleted = previous
                .iter()
                .filter(|(name, _)| !frame.lines.contains_key(*name))
                .map(|(_, line)| mark_deleted(line));
            for line in changed.chain(deleted) {
                context.terminal.print(&format!("{line}\n"))?;
            }
            previous = frame.lines;
        }
        first = false;
        fresh = pause().await;
    }
}

/// Marks the last line of an item to show that the item was deleted.
fn mark_deleted(line: &str) -> String {
    let mut item: serde_json::Value = serde_json::from_str(line).expect("our own line");
    item["deleted"] = true.into();
    item.to_string()
}
