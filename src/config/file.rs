//! Finds and reads the config file, and changes it without losing comments.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::anyhow;
use serde_json::Value;
use yaml_edit::YamlFile;
use yaml_edit::path::YamlPath;

use super::keys::{CONTEXTS, KEYS, SettingKey, nearest};
use super::safety;
use gpuctl_local::files::trust::{Exposure, config_text, exposure, is_closed, make_private};
use gpuctl_local::files::{Purpose, replace};

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

    /// Returns what nobody reads, each with the nearest key.
    pub(crate) fn unknown(&self) -> Vec<String> {
        let place = self
            .path
            .as_deref()
            .map(|path| path.display().to_string())
            .unwrap_or_default();
        let told = |name: &str, near: Option<&str>| {
            let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            format!("{place}: unknown key `{name}`{near}")
        };
        let exposed = |exposure: &Exposure| {
            format!(
                "{}; its credentials and commands are not used",
                exposure.message()
            )
        };
        let mut unknown: Vec<String> = self.exposure.iter().map(exposed).collect();
        unknown.extend(self.misnamed.as_deref().map(ignored));
        match &self.content {
            Value::Null => {}
            Value::Object(sections) => {
                for (section, keys) in sections.iter().filter(|(section, _)| *section != CONTEXTS) {
                    let of: Vec<&str> = KEYS
                        .iter()
                        .map(super::keys::SettingKey::path)
                        .filter(|(own, _)| own == section)
                        .map(|(_, name)| name)
                        .collect();
                    if of.is_empty() {
                        unknown.push(told(
                            section,
                            nearest(section, SettingKey::sections().into_iter()),
                        ));
                        continue;
                    }
                    match keys {
                        Value::Object(keys) => {
                            for name in keys.keys().filter(|name| !of.contains(&name.as_str())) {
                                // The key may be right and the section wrong.
                                let elsewhere = KEYS
                                    .iter()
                                    .find(|key| key.path().1 == name)
                                    .map(|key| key.name.to_owned());
                                let near = elsewhere.or_else(|| {
                                    nearest(name, of.iter().copied())
                                        .map(|near| format!("{section}.{near}"))
                                });
                                unknown.push(told(&format!("{section}.{name}"), near.as_deref()));
                            }
                        }
                        Value::Null => {}
                        _ => unknown
                            .push(format!("{place}: `{section}` has no keys and is not read")),
                    }
                }
            }
            _ => unknown.push(format!("{place} has no keys and is not read")),
        }
        let contexts = self.content[CONTEXTS].as_object().into_iter().flatten();
        for (context, section, key) in
            contexts.flat_map(|(context, sections)| of_context(context, sections))
        {
            let known = KEYS
                .iter()
                .any(|one| one.path() == (section.as_str(), key.as_str()));
            if !OF_CONTEXTS.contains(&section.as_str()) || !known {
                unknown.push(format!(
                    "{place}: unknown key `{CONTEXTS}.{context}.{section}.{key}`: contexts have keys of `prometheus` and `safety`"
                ));
            }
        }
        unknown
    }
}

/// The sections that a context may have for itself.
const OF_CONTEXTS: [&str; 2] = ["prometheus", "safety"];
/// Keys that belong to the address beside which they stand: credentials, and which cluster is meant
/// there.
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

/// Returns the keys of one context, as (context, section, key).
fn of_context(context: &str, sections: &Value) -> Vec<(String, String, String)> {
    let each = sections.as_object().into_iter().flatten();
    let keys = each.flat_map(|(section, keys)| {
        keys.as_object()
            .into_iter()
            .flat_map(|keys| keys.keys())
            .map(move |key| (section.clone(), key.clone()))
    });
    keys.map(|(section, key)| (context.to_owned(), section, key))
        .collect()
}

fn parsed(text: &str, path: &Path) -> anyhow::Result<Value> {
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

/// Writes a value into the file at a path, or into the one in the user's folder, which comes to be.
/// Comments stay. Returns where it was written.
pub(crate) fn set(
    named: Option<&Path>,
    key: &SettingKey,
    value: &Value,
) -> anyhow::Result<PathBuf> {
    let path = named
        .map(Path::to_path_buf)
        .or_else(usual)
        .ok_or_else(|| anyhow!("there is no config folder; --config names a file"))?;
    must_be_closed(&path, named.is_none())?;
    let old = if path.exists() {
        config_text(&path, named.is_some())?
    } else {
        String::new()
    };
    let before = parsed(&old, &path)?;
    let new = changed(&old, key, value).ok_or_else(|| {
        anyhow!(
            "{} has a form that cannot be changed; write it by hand",
            path.display()
        )
    })?;
    let mut wanted = if before.is_object() {
        before
    } else {
        serde_json::json!({})
    };
    let (section, name) = key.path();
    if !wanted[section].is_object() {
        wanted[section] = serde_json::json!({});
    }
    wanted[section][name] = value.clone();
    // The edited text must parse to the old settings with this one changed, or comments or anchors
    // were misread.
    if parsed(&new, &path).ok().as_ref() != Some(&wanted) {
        return Err(anyhow!(
            "{} has a form that cannot be changed; write `{}` by hand",
            path.display(),
            key.name
        ));
    }
    replace(&path, new.as_bytes(), Purpose::Config)?;
    Ok(path)
}

/// Removes other users' access to gpuctl's folder. Fails if they can still change the file:
/// rewriting it would adopt their settings.
fn must_be_closed(path: &Path, is_usual: bool) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| is_usual && folder.exists());
    if let Some(folder) = folder {
        if !is_closed(folder) {
            let why = if folder.is_symlink() {
                "is a symbolic link"
            } else {
                "belongs to another user"
            };
            return Err(anyhow!(
                "{} {why}; remove it, or name the file with --config",
                folder.display()
            ));
        }
        make_private(folder);
    }
    match if path.exists() { exposure(path)? } else { None } {
        Some(exposure) => Err(anyhow!(
            "the config file may hold settings of another user: {}",
            exposure.message()
        )),
        None => Ok(()),
    }
}

fn changed(old: &str, key: &SettingKey, value: &Value) -> Option<String> {
    if old.trim().is_empty() {
        let (section, name) = key.path();
        return Some(format!("{old}{section}:\n  {name}: {value}\n"));
    }
    let file = YamlFile::from_str(old).ok()?;
    let Some(document) = file.document() else {
        // Comments alone.
        let (section, name) = key.path();
        return Some(format!(
            "{}\n{section}:\n  {name}: {value}\n",
            old.trim_end()
        ));
    };
    match value {
        Value::Bool(switch) => document.try_set_path(key.name, *switch),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => document.try_set_path(key.name, whole),
            None => document.try_set_path(key.name, number.as_f64()?),
        },
        Value::String(text) => document.try_set_path(key.name, text.as_str()),
        _ => return None,
    }
    .ok()?;
    Some(file.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn after(old: &str, name: &str, value: &Value) -> String {
        changed(old, SettingKey::named(name), value).unwrap()
    }

    #[test]
    fn a_change_keeps_what_else_is_there() {
        let old =
            "# ours\nprometheus:\n  url: http://a   # the address\n\nthresholds: {idle: 10}\n";
        let new = after(old, "thresholds.idle", &json!(12.5));
        assert_eq!(new, old.replace("10", "12.5"));
        assert_eq!(
            after(old, "prometheus.url", &json!("http://b")),
            old.replace("http://a", "http://b")
        );
        let new = after(old, "ai.enabled", &json!(true));
        assert!(
            new.starts_with(old.trim_end()) && new.ends_with("ai:\n  enabled: true\n"),
            "{new}"
        );
        assert_eq!(after("", "ai.max", &json!(3)), "ai:\n  max: 3\n");
        assert_eq!(
            after("# only words\n", "ai.max", &json!(3)),
            "# only words\nai:\n  max: 3\n"
        );
    }

    #[test]
    fn unknown_keys_have_near_ones() {
        let file = |text: &str| ConfigFile {
            content: parsed(text, Path::new("c")).unwrap(),
            path: Some("c".into()),
            exposure: None,
            ..ConfigFile::default()
        };
        assert_eq!(
            file("promethues: {url: x}").unknown(),
            ["c: unknown key `promethues`; did you mean `prometheus`?"]
        );
        assert_eq!(
            file("scoring: {gpu_weight: 1}").unknown(),
            ["c: unknown key `scoring.gpu_weight`; did you mean `scoring.gpu_util_weight`?"]
        );
        assert_eq!(
            file("ai: {modl: x}").unknown(),
            ["c: unknown key `ai.modl`; did you mean `ai.model`?"]
        );
        assert_eq!(
            file("ai: {interval: 3}").unknown(),
            ["c: unknown key `ai.interval`; did you mean `scheduler.interval`?"]
        );
        assert_eq!(
            file("ai: 3").unknown(),
            ["c: `ai` has no keys and is not read"]
        );
        assert_eq!(file("- 3").unknown(), ["c has no keys and is not read"]);
        assert!(file("prometheus: http://a\nai:\n").unknown().is_empty());
    }
}
