//! Detects changes of the config file.

use crate::config::Config;
use crate::context::Context;

/// The parsed config file. An unreadable file is compared by its error message.
#[derive(Clone, PartialEq)]
enum ConfigSnapshot {
    Read(Box<Config>),
    Unreadable { message: String },
}

/// The config file in use, and its state at the last check.
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

    /// Whether the file differs from the one in use, and has not changed since the last check. A
    /// file that is still being written may be incomplete or empty.
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
