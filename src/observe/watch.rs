//! Repeats a list for `-w`: redraws it on a terminal, and prints one JSON object per change into a
//! pipe.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;

use crate::context::Context;
use gpuctl_core::error::Error;
use gpuctl_view::{Format, json_line};

/// Poll interval of a watch without change notifications.
pub(crate) const WATCH_INTERVAL: Duration = Duration::from_secs(5);
/// Interval at which a watch with change notifications queries metrics.
pub(crate) const METRICS_INTERVAL: Duration = Duration::from_secs(15);

/// The content of a list at one time.
pub(crate) struct WatchFrame {
    /// The list in the format for people.
    pub text: String,
    /// The JSON of each item on one line, by item name.
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

/// Shows frames until interrupted. `read_frame` receives whether it is the first frame, and whether
/// to read everything again.
pub(crate) async fn watch(
    format: Format,
    mut pause: impl AsyncFnMut() -> bool,
    context: &Context,
    mut read_frame: impl AsyncFnMut(bool, bool) -> Result<WatchFrame, Error>,
) -> Result<ExitCode, Error> {
    context.must_change("omit `--watch`")?;
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

/// Marks the last line of a deleted item as such.
fn mark_deleted(line: &str) -> String {
    let mut item: serde_json::Value = serde_json::from_str(line).expect("our own line");
    item["deleted"] = true.into();
    item.to_string()
}
