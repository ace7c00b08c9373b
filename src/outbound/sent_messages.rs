//! Records which messages were sent to each webhook, so that a message is not repeated every five
//! minutes. Treats an unreadable record as empty.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Value, json};

use gpuctl_local::files::trust;

use super::OutboundUrl;

/// Time of each sent message in Unix seconds, by message. One record per webhook.
#[derive(Debug)]
pub(crate) struct SentMessages {
    path: Option<PathBuf>,
    sent: BTreeMap<String, i64>,
}

/// Minimum number of seconds to remember a message, in case the next run uses a longer repeat
/// interval.
const KEPT: i64 = 7 * 86_400;
/// Version of the file format. Files of other versions are ignored.
const VERSION: u64 = 1;

impl SentMessages {
    /// Opens the record of a URL in a folder. Without a folder, the record is kept in memory only.
    pub(crate) fn open(address: &OutboundUrl, folder: Option<&Path>) -> Self {
        let hash = digest(&SHA256, address.as_str().as_bytes());
        let name: String = hash
            .as_ref()
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let path = folder.map(|folder| folder.join(format!("told-{name}.json")));
        let sent = path.as_deref().and_then(read).unwrap_or_default();
        Self { path, sent }
    }

    /// Returns true if the message was sent less than `seconds` ago. Ignores times in the future,
    /// which a wrong clock caused.
    pub(crate) fn was_sent(&self, message: &str, now: i64, seconds: i64) -> bool {
        self.sent
            .get(message)
            .is_some_and(|sent_at| *sent_at <= now && now - sent_at < seconds)
    }

    /// Adds the messages that were just sent and writes the record. Keeps recent messages of other
    /// runs. If writing fails, the record remains in memory.
    pub(crate) fn record(&mut self, sent: &[String], now: i64, seconds: i64) -> anyhow::Result<()> {
        // Reread the file: another run may have sent messages in the meantime.
        self.sent
            .extend(self.path.as_deref().and_then(read).unwrap_or_default());
        self.sent
            .extend(sent.iter().map(|message| (message.clone(), now)));
        self.sent
            .retain(|_, sent_at| *sent_at <= now && now - *sent_at < seconds.max(KEPT));
        let Some(path) = &self.path else {
            return Ok(());
        };
        let text = json!({"version": VERSION, "told": self.sent}).to_string();
        Ok(trust::write_own(path, text.as_bytes())?)
    }
}

fn read(path: &Path) -> Option<BTreeMap<String, i64>> {
    let value: Value = serde_json::from_str(&trust::read_trusted(path).ok()?).ok()?;
    if value["version"] != VERSION {
        return None;
    }
    serde_json::from_value(value["told"].clone()).ok()
}
