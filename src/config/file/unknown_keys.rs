//! Finds keys in the config file that gpuctl does not read.

use serde_json::Value;

use super::{ConfigFile, ignored_message};
use crate::config::keys::{CONTEXTS, KEYS, OF_CONTEXTS, SettingKey};
use crate::config::nearest;
use gpuctl_local::files::trust::Exposure;

impl ConfigFile {
    /// Lists unknown keys and other problems. Suggests the most similar known key for an unknown
    /// one.
    pub(crate) fn unknown(&self) -> Vec<String> {
        let file = self
            .path
            .as_deref()
            .map(|path| path.display().to_string())
            .unwrap_or_default();
        let exposed = |exposure: &Exposure| {
            format!(
                "{}; its credentials and commands are not used",
                exposure.message()
            )
        };
        let mut unknown: Vec<String> = self.exposure.iter().map(exposed).collect();
        unknown.extend(self.misnamed.as_deref().map(ignored_message));
        match &self.content {
            Value::Null => {}
            Value::Object(sections) => {
                let sections = sections.iter().filter(|(section, _)| *section != CONTEXTS);
                let messages = sections.flat_map(|(section, keys)| in_section(section, keys));
                unknown.extend(messages.map(|message| format!("{file}: {message}")));
            }
            _ => unknown.push(format!("{file} has no keys and is ignored")),
        }
        let contexts = self.content[CONTEXTS].as_object().into_iter().flatten();
        let messages = contexts.flat_map(|(context, sections)| in_context(context, sections));
        unknown.extend(messages.map(|message| format!("{file}: {message}")));
        unknown
    }
}

/// Lists the unknown keys of a section. `section` can also be a key at the top level.
fn in_section(section: &str, keys: &Value) -> Vec<String> {
    if SettingKey::find(section).is_some() {
        return Vec::new();
    }
    let known: Vec<&str> = KEYS
        .iter()
        .map(SettingKey::path)
        .filter(|(other, _)| *other == Some(section))
        .map(|(_, name)| name)
        .collect();
    if known.is_empty() {
        let is_alone = |key: &&SettingKey| key.path().0.is_none();
        let alone = KEYS.iter().filter(is_alone).map(|key| key.name);
        let similar = nearest(section, SettingKey::sections().into_iter().chain(alone));
        return vec![unknown_key(section, similar)];
    }
    let keys = match keys {
        Value::Object(keys) => keys,
        Value::Null => return Vec::new(),
        _ => return vec![format!("`{section}` has no keys and is ignored")],
    };
    let unread = keys.keys().filter(|name| !known.contains(&name.as_str()));
    let message = |name: &String| {
        // The key may exist in another section.
        let other_section = KEYS
            .iter()
            .find(|key| key.path().1 == name)
            .map(|key| key.name.to_owned());
        let similar = other_section.or_else(|| {
            nearest(name, known.iter().copied()).map(|similar| format!("{section}.{similar}"))
        });
        unknown_key(&format!("{section}.{name}"), similar.as_deref())
    };
    unread.map(message).collect()
}

fn unknown_key(name: &str, similar: Option<&str>) -> String {
    let similar = similar.map_or(String::new(), |similar| {
        format!("; did you mean `{similar}`?")
    });
    format!("unknown key `{name}`{similar}")
}

/// Lists unknown keys of a context.
fn in_context(context: &str, sections: &Value) -> Vec<String> {
    let sections = sections.as_object().into_iter().flatten();
    let keys = sections.flat_map(|(section, keys)| {
        let keys = keys.as_object().into_iter().flat_map(|keys| keys.keys());
        keys.map(move |key| (section.as_str(), key.as_str()))
    });
    let is_read = |(section, key): &(&str, &str)| {
        OF_CONTEXTS.contains(section)
            && KEYS
                .iter()
                .any(|setting| setting.path() == (Some(*section), *key))
    };
    keys.filter(|key| !is_read(key))
        .map(|(section, key)| {
            format!(
                "unknown key `{CONTEXTS}.{context}.{section}.{key}`: \
                 contexts accept only keys of `cluster`, `prometheus` and `safety`"
            )
        })
        .collect()
}
