//! Finds and reads the config file.

mod unknown_keys;

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use serde_json::Value;

use super::keys::{CONTEXTS, OF_CONTEXTS, SettingKey};
use super::safety;
use super::setting_path::SettingPath;
use gpuctl_local::files::trust::{Exposure, config_text, exposure};

/// Content of the config file. Empty if there is no file.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct ConfigFile {
    content: Value,
    path: Option<PathBuf>,
    /// How other users can change the file, or `None` if they cannot.
    exposure: Option<Exposure>,
    contexts: KubeContexts,
    /// A file in the config folder with a name that gpuctl does not read. The user may expect its
    /// `safety` settings to apply.
    misnamed: Option<PathBuf>,
}

/// The contexts of the kubeconfig.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct KubeContexts {
    pub current: Option<String>,
    pub all: Vec<String>,
}

impl ConfigFile {
    /// Reads the given file, which must exist, or else the user's config file, which may be
    /// missing.
    pub(crate) fn read(given: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = given
            .map(Path::to_path_buf)
            .or_else(|| default_path().filter(|path| path.exists()))
        else {
            return Ok(Self {
                misnamed: misnamed_file(),
                ..Self::default()
            });
        };
        let content = parsed(&config_text(&path, given.is_some())?, &path)?;
        let exposure = exposure(&path).map_err(|error| {
            anyhow!("cannot check who can write to {}: {error}", path.display())
        })?;
        Ok(Self {
            content,
            path: Some(path),
            exposure,
            ..Self::default()
        })
    }

    /// Applies the settings of the current kubeconfig context. Settings in `contexts.NAME` override
    /// those at the top level.
    pub(crate) fn for_context(mut self, contexts: impl FnOnce() -> KubeContexts) -> Self {
        if !self.content[CONTEXTS].is_object() {
            return self;
        }
        self.contexts = contexts();
        let Some(sections) = self
            .contexts
            .current
            .as_ref()
            .map(|name| self.content[CONTEXTS][name].clone())
        else {
            return self;
        };
        for (section, keys) in OF_CONTEXTS
            .into_iter()
            .filter_map(|name| Some((name, sections[name].as_object()?.clone())))
        {
            self.overlay(section, keys);
        }
        self
    }

    fn overlay(&mut self, section: &str, keys: serde_json::Map<String, Value>) {
        if !self.content[section].is_object() {
            self.content[section] = serde_json::json!({});
        }
        // The context has a different address, so do not send the top level's credentials there.
        if keys.contains_key("url") {
            self.content[section]
                .as_object_mut()
                .expect("it was made one")
                .retain(|key, _| !OF_ADDRESS.contains(&key.as_str()));
        }
        keys.into_iter()
            .for_each(|(key, value)| self.content[section][key] = value);
    }

    /// Returns the path of the file, or `None` if there is no file.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Reads the value of a key. Fails if the value has the wrong type.
    pub(crate) fn value(&self, key: &SettingKey) -> anyhow::Result<Option<Value>> {
        let value = match key.path() {
            (Some(section), name) => &self.content[section][name],
            (None, name) => &self.content[name],
        };
        accepted(key, key.name, value)
    }

    /// Reads the value at a place of the file, without the values of the current context. Fails if
    /// the value has the wrong type.
    pub(crate) fn value_at(&self, path: &SettingPath) -> anyhow::Result<Option<Value>> {
        let segments = path.segments();
        let value = segments.iter().fold(&self.content, |map, key| &map[*key]);
        accepted(path.key, &path.name(), value)
    }

    /// Fails if other users can change the file, because they could add settings that run a program
    /// or send credentials to another address.
    pub(crate) fn must_be_own(&self, setting: &str) -> anyhow::Result<()> {
        match &self.exposure {
            Some(exposure) => Err(anyhow!(
                "refusing to use `{setting}` from the config file: {}",
                exposure.message()
            )),
            None => Ok(()),
        }
    }

    /// Fails if the file's read-only setting is ambiguous.
    pub(super) fn check_safety(&self) -> anyhow::Result<()> {
        if let Some(path) = &self.misnamed {
            return Err(anyhow!("{}", ignored_message(path)));
        }
        safety::check(&self.content)?;
        safety::check_contexts(&self.content, &self.contexts)?;
        match &self.exposure {
            Some(exposure) => Err(anyhow!("{}", exposure.message())),
            None => Ok(()),
        }
    }

    /// Reads a text. An empty text counts as missing.
    pub(crate) fn text(&self, section: &str, key: &str) -> Option<String> {
        self.content[section][key]
            .as_str()
            .filter(|text| !text.is_empty())
            .map(ToOwned::to_owned)
    }

    /// Reads a path. A relative path starts at the folder of the config file.
    pub(crate) fn file(&self, section: &str, key: &str) -> Option<PathBuf> {
        let folder = self
            .path
            .as_deref()
            .and_then(Path::parent)
            .map(Path::to_path_buf)
            .unwrap_or_default();
        self.text(section, key).map(|path| folder.join(path))
    }
}

/// Checks the type of a value. Returns `None` for null.
fn accepted(key: &SettingKey, name: &str, value: &Value) -> anyhow::Result<Option<Value>> {
    let invalid = || {
        let expected = key.kind.description();
        anyhow!("`{name}` in the config file is not {expected}")
    };
    match value {
        Value::Null => Ok(None),
        value => key.kind.accept(value).map(Some).ok_or_else(invalid),
    }
}

/// Keys that belong to one address: credentials, and the keys that select a cluster.
const OF_ADDRESS: [&str; 11] = [
    "matchers",
    "exact_names",
    "user",
    "password_file",
    "token_file",
    "token_command",
    "aws_region",
    "cert_file",
    "key_file",
    "ca_file",
    "headers",
];

/// Returns the path of the user's config file.
pub(crate) fn default_path() -> Option<PathBuf> {
    Some(dirs::config_dir()?.join("gpuctl/config.yaml"))
}

fn ignored_message(path: &Path) -> String {
    format!(
        "gpuctl does not read {}; rename it to config.yaml",
        path.display()
    )
}

/// Finds a file in the config folder with a name that gpuctl does not read.
fn misnamed_file() -> Option<PathBuf> {
    const NAMES: [&str; 4] = ["config.yml", "config.json", "config", "gpuctl.yaml"];
    let folder = default_path()?.parent()?.to_path_buf();
    NAMES
        .iter()
        .map(|name| folder.join(name))
        .find(|path| path.is_file())
}

pub(super) fn parsed(text: &str, path: &Path) -> anyhow::Result<Value> {
    let content: Option<Value> = serde_saphyr::from_str(text).map_err(|error| {
        // The library's message quotes the file, which may contain a secret.
        let position = error.location().map_or(String::new(), |location| {
            format!(":{}:{}", location.line(), location.column())
        });
        anyhow!("{}{position} is not valid YAML", path.display())
    })?;
    let mut content = content.unwrap_or_default();
    // `prometheus: URL` is short for `prometheus: {url: URL}`.
    if let Some(url) = content["prometheus"].as_str().map(ToOwned::to_owned) {
        content["prometheus"] = serde_json::json!({ "url": url });
    }
    Ok(content)
}

#[cfg(test)]
mod tests;
