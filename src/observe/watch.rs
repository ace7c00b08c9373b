//! Repeats a list for `-w`. Redraws the list on a terminal, and prints one JSON object per change
//! in a pipe.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;

use crate::context::Context;
use gpuctl_core::error::Error;
use gpuctl_view::{Format, json_line};

/// Polling interval of a watch without change notifications.
pub(crate) const WATCH_INTERVAL: Duration = Duration::from_secs(5);
/// Metrics interval of a watch with change notifications.
pub(crate) const METRICS_INTERVAL: Duration = Duration::from_secs(15);

/// Content of a list at one time.
pub(crate) struct WatchFrame {
    /// The list as text for people.
    pub text: String,
    /// One line of JSON per item, by name.
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

/// Shows frames until the user interrupts the command. `read_frame` receives whether this is the
/// first frame, and whether cached data must be read again.
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

/// Marks an item as deleted in its last JSON line.
fn mark_deleted(line: &str) -> String {
    let mut item: serde_json::Value = serde_json::from_str(line).expect("our own line");
    item["deleted"] = true.into();
    item.to_string()
}
