//! Remembers which messages were sent, in a small file per webhook, so that nobody gets the same
//! message every five minutes. A file that cannot be read counts as empty.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Value, json};

use gpuctl_local::files::trust;

use super::OutboundUrl;

/// What was told, by what it is about, in Unix seconds.
#[derive(Debug)]
pub(crate) struct SentMessages {
    path: Option<PathBuf>,
    told: BTreeMap<String, i64>,
}

/// Seconds for which a message is remembered at least: the next run may have another idea of how
/// often is too often.
const KEPT: i64 = 7 * 86_400;
/// Written into the file; another version's is not read.
const VERSION: u64 = 1;

impl SentMessages {
    /// Opens the record of an address, in a folder; without a folder it lasts as long as the
    /// program.
    pub(crate) fn of(address: &OutboundUrl, folder: Option<&Path>) -> Self {
        let hash = digest(&SHA256, address.whole().as_bytes());
        let name: String = hash
            .as_ref()
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let path = folder.map(|folder| folder.join(format!("told-{name}.json")));
        let told = path.as_deref().and_then(read).unwrap_or_default();
        Self { path, told }
    }

    /// Returns true when it was told less than `seconds` ago. A time to come is a clock that was
    /// wrong.
    pub(crate) fn knows(&self, what: &str, now: i64, seconds: i64) -> bool {
        self.told
            .get(what)
            .is_some_and(|at| *at <= now && now - at < seconds)
    }

    /// Keeps what was told now, and what was told less than `seconds` ago, by others too. An error
    /// says why it lasts no longer than the program.
    pub(crate) fn keep(
        &mut self,
        told_now: &[String],
        now: i64,
        seconds: i64,
    ) -> anyhow::Result<()> {
        // Another run may have told something meanwhile.
        self.told
            .extend(self.path.as_deref().and_then(read).unwrap_or_default());
        self.told
            .extend(told_now.iter().map(|what| (what.clone(), now)));
        self.told
            .retain(|_, at| *at <= now && now - *at < seconds.max(KEPT));
        let Some(path) = &self.path else {
            return Ok(());
        };
        let text = json!({"version": VERSION, "told": self.told}).to_string();
        Ok(trust::write_own(path, text.as_bytes())?)
    }
}

fn read(path: &Path) -> Option<BTreeMap<String, i64>> {
    let value: Value = serde_json::from_str(&trust::own_text(path).ok()?).ok()?;
    if value["version"] != VERSION {
        return None;
    }
    serde_json::from_value(value["told"].clone()).ok()
}
