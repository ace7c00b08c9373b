//! Detects changes of the config file.

use crate::config::Config;
use crate::context::Context;

/// A parsed config file. Unreadable files are compared by their error.
#[derive(Clone, PartialEq)]
enum ConfigSnapshot {
    Read(Box<Config>),
    Unreadable { message: String },
}

/// The config file in use and at the last check.
pub(super) struct WatchedConfig {
    in_use: ConfigSnapshot,
    last_seen: ConfigSnapshot,
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
    pub(super) fn new(context: &Context) -> Self {
        let in_use = ConfigSnapshot::now(context);
        Self {
            last_seen: in_use.clone(),
            in_use,
        }
    }

    /// Returns true if the file differs from the one in use and is unchanged since the last check.
    /// A file that is being written may be incomplete.
    pub(super) fn has_changed(&mut self, context: &Context) -> bool {
        let current = ConfigSnapshot::now(context);
        let is_stable = std::mem::replace(&mut self.last_seen, current.clone()) == current;
        let changed = is_stable && current != self.in_use;
        if changed {
            self.in_use = current;
        }
        changed
    }
}
