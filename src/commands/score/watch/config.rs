//! Notices when the config file has changed.

use crate::config::Config;
use crate::context::Context;

/// The config file as it was read; one that cannot be read is known by its message.
#[derive(Clone, PartialEq)]
enum ConfigSnapshot {
    Read(Box<Config>),
    Unreadable { message: String },
}

/// The config file as it is in use, and as it was when it was looked at last.
pub(super) struct WatchedConfig {
    used: ConfigSnapshot,
    seen: ConfigSnapshot,
}

impl ConfigSnapshot {
    fn now(context: &Context) -> Self {
        match context.config() {
            Ok(config) => Self::Read(Box::new(config)),
            Err(error) => Self::Unreadable {
                message: error.to_string(),
            },
        }
    }
}

impl WatchedConfig {
    pub(super) fn of(context: &Context) -> Self {
        let used = ConfigSnapshot::now(context);
        Self {
            seen: used.clone(),
            used,
        }
    }

    /// Returns true when the file is another than the one in use, and the same as at the last look:
    /// a file that is being written may be half there, or empty.
    pub(super) fn has_changed(&mut self, context: &Context) -> bool {
        let now = ConfigSnapshot::now(context);
        let still = std::mem::replace(&mut self.seen, now.clone()) == now;
        let changed = still && now != self.used;
        if changed {
            self.used = now;
        }
        changed
    }
}
