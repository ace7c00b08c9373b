//! Looks up settings and their origins. The environment overrides the file, which overrides the
//! defaults. Callers apply the flags, which override all three.

use std::path::Path;
use std::time::Duration;

use anyhow::anyhow;
use serde_json::Value;

use super::Environment;
use super::file::{ConfigFile, KubeContexts};
use super::keys::SettingKey;
use gpuctl_core::model::values::quantity;

/// Source of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag,
    /// An environment variable, with its name.
    Environment(&'static str),
    File,
    Default,
}

impl Origin {
    /// Describes the origin for use in a sentence.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Flag => "a flag",
            Self::Environment(_) => "the environment",
            Self::File => "the config file",
            Self::Default => "default",
        }
    }
}

/// Settings from the config file and the environment.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Config {
    pub file: ConfigFile,
}

impl Config {
    /// Reads the config file, and applies the settings for the current kubeconfig context.
    pub(crate) fn read(
        given: Option<&Path>,
        contexts: impl FnOnce() -> KubeContexts,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            file: ConfigFile::read(given)?.for_context(contexts),
        })
    }

    /// Looks up a key. The value is null if the key is not set. Errors name the variable or key
    /// with the invalid value.
    pub(crate) fn find(&self, key: &SettingKey) -> anyhow::Result<(Value, Origin)> {
        // An empty variable counts as unset.
        let set = |name: &&'static str| {
            Some((
                *name,
                Environment::variable(name).filter(|text| !text.trim().is_empty())?,
            ))
        };
        if let Some((variable, text)) = key.variables.iter().find_map(set) {
            let shown_value = if key.secret {
                String::new()
            } else {
                format!(" is `{text}`, which")
            };
            let invalid = || anyhow!("{variable}{shown_value} is not {}", key.kind.description());
            return Ok((
                key.kind.parse(&text).ok_or_else(invalid)?,
                Origin::Environment(variable),
            ));
        }
        let empty = |value: &Value| value.as_str().is_some_and(str::is_empty);
        Ok(match self.file.value(key)?.filter(|value| !empty(value)) {
            Some(value) => (value, Origin::File),
            None => (key.default_value(), Origin::Default),
        })
    }

    /// Returns true if writing is forbidden, with the origin of that setting. Fails if the setting
    /// is ambiguous.
    pub(crate) fn read_only(&self) -> anyhow::Result<(bool, Origin)> {
        let key = SettingKey::by_name("safety.read_only");
        if let Some(name) = Environment::misspelled_read_only() {
            return Err(anyhow!("{name} is set; use GPUCTL_READ_ONLY=1 instead"));
        }
        let (value, origin) = self.find(key)?;
        if !matches!(origin, Origin::Environment(_)) {
            self.file.check_safety()?;
        }
        Ok((value == true, origin))
    }

    fn value(&self, name: &str) -> anyhow::Result<Value> {
        Ok(self.find(SettingKey::by_name(name))?.0)
    }

    /// Reads a text or a word. Returns `None` if the key is not set.
    pub(crate) fn text(&self, name: &str) -> anyhow::Result<Option<String>> {
        Ok(self.value(name)?.as_str().map(ToOwned::to_owned))
    }

    /// Reads a number. The key must have a default.
    pub(crate) fn number(&self, name: &str) -> anyhow::Result<f64> {
        Ok(self
            .value(name)?
            .as_f64()
            .expect("a key of numbers has a default"))
    }

    /// Reads an integer. The key must have a default.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the table bounds it"
    )]
    pub(crate) fn integer(&self, name: &str) -> anyhow::Result<usize> {
        Ok(self.number(name)? as usize)
    }

    pub(crate) fn switch(&self, name: &str) -> anyhow::Result<bool> {
        Ok(self.value(name)?.as_bool().unwrap_or(false))
    }

    /// Reads a duration. The key must have a default.
    pub(crate) fn duration(&self, name: &str) -> anyhow::Result<Duration> {
        let value = self.value(name)?;
        let seconds = value
            .as_f64()
            .or_else(|| value.as_str()?.parse().ok())
            .map(Duration::from_secs_f64);
        Ok(seconds
            .or_else(|| quantity::duration(value.as_str()?))
            .expect("a key of times has a default"))
    }

    /// Reads a map of texts from the file.
    pub(crate) fn map(&self, name: &str) -> anyhow::Result<Vec<(String, String)>> {
        let value = self.value(name)?;
        let pairs = value.as_object().into_iter().flatten();
        Ok(pairs
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
            .collect())
    }
}
