//! Finds and reads the config file.

mod unknown_keys;

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use serde_json::Value;

use super::keys::{CONTEXTS, SettingKey};
use super::safety;
use gpuctl_local::files::trust::{Exposure, config_text, exposure};

/// What the file says; nothing where there is none.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct ConfigFile {
    content: Value,
    path: Option<PathBuf>,
    /// How other users can change it.
    exposure: Option<Exposure>,
    contexts: KubeContexts,
    /// A file in the config folder under a name that gpuctl does not read. It may contain `safety`
    /// settings.
    misnamed: Option<PathBuf>,
}

/// The contexts of the kubeconfig.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct KubeContexts {
    /// The context in use.
    pub current: Option<String>,
    pub all: Vec<String>,
}

impl ConfigFile {
    /// Returns the file that was named, which has to be there, or the one in the user's folder,
    /// which need not.
    pub(crate) fn read(named: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = named
            .map(Path::to_path_buf)
            .or_else(|| usual().filter(|path| path.exists()))
        else {
            return Ok(Self {
                misnamed: misnamed(),
                ..Self::default()
            });
        };
        let content = parsed(&config_text(&path, named.is_some())?, &path)?;
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

    /// Returns the file as it is for one context of the kubeconfig: what `contexts.NAME` says comes
    /// first.
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
        for (section, own) in OF_CONTEXTS
            .into_iter()
            .filter_map(|name| Some((name, sections[name].as_object()?.clone())))
        {
            self.overlay(section, own);
        }
        self
    }

    fn overlay(&mut self, section: &str, own: serde_json::Map<String, Value>) {
        if !self.content[section].is_object() {
            self.content[section] = serde_json::json!({});
        }
        // Another address has credentials of its own.
        if own.contains_key("url") {
            self.content[section]
                .as_object_mut()
                .expect("it was made one")
                .retain(|key, _| !OF_ADDRESS.contains(&key.as_str()));
        }
        own.into_iter()
            .for_each(|(key, value)| self.content[section][key] = value);
    }

    /// Returns where it is; `None` when there is none.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns what it says of a key; an error says what the key wants.
    pub(crate) fn value(&self, key: &SettingKey) -> anyhow::Result<Option<Value>> {
        let (section, name) = key.path();
        match &self.content[section][name] {
            Value::Null => Ok(None),
            value => {
                let wrong = || {
                    anyhow!(
                        "`{}` of the config file is not {}",
                        key.name,
                        key.kind.wants()
                    )
                };
                key.kind.accept(value).map(Some).ok_or_else(wrong)
            }
        }
    }

    /// Fails if other users can change the file. They could add settings that send credentials
    /// elsewhere or run a program.
    pub(crate) fn must_be_own(&self, setting: &str) -> anyhow::Result<()> {
        match &self.exposure {
            Some(exposure) => Err(anyhow!(
                "refusing to use `{setting}` of the config file: {}",
                exposure.message()
            )),
            None => Ok(()),
        }
    }

    /// Fails if the file's read-only setting is ambiguous.
    pub(super) fn check_safety(&self) -> anyhow::Result<()> {
        if let Some(path) = &self.misnamed {
            return Err(anyhow!("{}", ignored(path)));
        }
        safety::check(&self.content)?;
        safety::check_contexts(&self.content, &self.contexts)?;
        match &self.exposure {
            Some(exposure) => Err(anyhow!("{}", exposure.message())),
            None => Ok(()),
        }
    }

    /// Returns a text that is not empty.
    pub(crate) fn text(&self, section: &str, key: &str) -> Option<String> {
        self.content[section][key]
            .as_str()
            .filter(|text| !text.is_empty())
            .map(ToOwned::to_owned)
    }

    /// Returns a path, meant from where the file is.
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

/// The sections that a context may have for itself.
const OF_CONTEXTS: [&str; 2] = ["prometheus", "safety"];
/// Keys that belong to an address: credentials, and what selects the cluster there.
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

/// Returns the file in the user's folder.
pub(crate) fn usual() -> Option<PathBuf> {
    Some(dirs::config_dir()?.join("gpuctl/config.yaml"))
}

fn ignored(path: &Path) -> String {
    format!(
        "gpuctl does not read {}; rename it to config.yaml",
        path.display()
    )
}

/// Finds a file in the config folder under a name that gpuctl does not read.
fn misnamed() -> Option<PathBuf> {
    const NAMES: [&str; 4] = ["config.yml", "config.json", "config", "gpuctl.yaml"];
    let folder = usual()?.parent()?.to_path_buf();
    NAMES
        .iter()
        .map(|name| folder.join(name))
        .find(|path| path.is_file())
}

pub(super) fn parsed(text: &str, path: &Path) -> anyhow::Result<Value> {
    let content: Option<Value> = serde_saphyr::from_str(text).map_err(|error| {
        // The library's words quote the file, which may hold a secret.
        let place = error.location().map_or(String::new(), |at| {
            format!(":{}:{}", at.line(), at.column())
        });
        anyhow!("{}{place} is not valid YAML", path.display())
    })?;
    let mut content = content.unwrap_or_default();
    if let Some(url) = content["prometheus"].as_str().map(ToOwned::to_owned) {
        content["prometheus"] = serde_json::json!({ "url": url });
    }
    Ok(content)
}

#[cfg(test)]
mod tests;
