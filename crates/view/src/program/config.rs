//! Renders `config view`: settings with their origin and masked secrets.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::format::table::{Table, left};
use crate::{Format, TextStyle};
use gpuctl_core::model::secrets::{shown_origin, shown_url};

/// The answer of `config view`: one object per section. With origins, each value is an object.
#[derive(JsonSchema, Serialize)]
pub struct ConfigView {
    namespace: Value,
    #[serde(flatten)]
    sections: BTreeMap<String, BTreeMap<String, Value>>,
}

pub struct Setting {
    /// Section and key, such as `prometheus.url`.
    pub name: String,
    pub value: Value,
    /// Source of the value: `file /path`, `environment PROM_URL` or `default`.
    pub origin: String,
    pub secret: bool,
}

/// Replacement for every secret. It has a fixed length, because the length would be a hint.
const MASK: &str = "********";

impl Setting {
    /// Masks the secret parts of a value.
    fn masked(&self) -> Value {
        match &self.value {
            Value::Null => Value::Null,
            Value::Object(map) => map
                .keys()
                .map(|name| (name.clone(), json!(MASK)))
                .collect::<Map<_, _>>()
                .into(),
            _ if self.secret => json!(MASK),
            // Check for `api_url` first, because it also ends with `url`.
            Value::String(text) if self.name.ends_with("api_url") => json!(origin_of(text)),
            Value::String(text) if self.name.ends_with("url") => json!(without_credentials(text)),
            Value::String(text) if self.name.ends_with("command") => json!(program_of(text)),
            value => value.clone(),
        }
    }

    /// Formats the value as text.
    pub fn shown(&self) -> String {
        match self.masked() {
            Value::Null => "-".to_owned(),
            Value::String(text) => text,
            Value::Object(map) => map
                .keys()
                .map(|name| format!("{name}: {MASK}"))
                .collect::<Vec<_>>()
                .join(", "),
            value => value.to_string(),
        }
    }
}

/// Removes the user and password of a URL, and its query and fragment, which may contain a key.
pub fn without_credentials(url: &str) -> String {
    let shown = shown_url(url);
    let login = if url.contains('@') {
        format!("{MASK}@")
    } else {
        String::new()
    };
    let parameters = if url.contains(['?', '#']) { "?…" } else { "" };
    match shown.split_once("://") {
        Some((scheme, rest)) => format!("{scheme}://{login}{rest}{parameters}"),
        None => format!("{login}{shown}{parameters}"),
    }
}

/// Truncates a URL after its origin, because the path of a webhook contains its secret.
fn origin_of(url: &str) -> String {
    let origin = shown_origin(url);
    if url.trim_end_matches('/') == origin {
        origin
    } else {
        format!("{origin}/…")
    }
}

/// Truncates a command after its program, because arguments and variables can contain secrets.
fn program_of(command: &str) -> String {
    let mut words = command.split_whitespace();
    match words
        .next()
        // A first word such as `TOKEN=secret` sets a variable.
        .filter(|program| !program.contains(['=', '"', '\'', '$', '`']))
    {
        Some(program) if words.next().is_none() => program.to_owned(),
        Some(program) => format!("{program} …"),
        None => MASK.to_owned(),
    }
}

/// Nests settings by section and key. Keys without a section are at the top. With `origins`,
/// includes the origin of each value.
pub fn nested(settings: &[Setting], origins: bool) -> Map<String, Value> {
    let mut sections = Map::new();
    for setting in settings {
        let value = setting.masked();
        let value = if origins {
            json!({"value": value, "origin": setting.origin})
        } else {
            value
        };
        match setting.name.split_once('.') {
            Some((section, key)) => {
                let section = sections.entry(section).or_insert_with(|| json!({}));
                section[key] = value;
            }
            None => drop(sections.insert(setting.name.clone(), value)),
        }
    }
    sections
}

/// Renders settings as a config file, without settings that have no value.
pub fn yaml(settings: &[Setting]) -> String {
    let defined: Map<String, Value> = nested(settings, false)
        .into_iter()
        .filter_map(|(section, keys)| {
            let Value::Object(keys) = keys else {
                return (!keys.is_null()).then_some((section, keys));
            };
            let keys: Map<String, Value> = keys
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .collect();
            (!keys.is_empty()).then_some((section, Value::Object(keys)))
        })
        .collect();
    crate::document(Format::Yaml, &defined).unwrap_or_default()
}

pub fn table(settings: &[Setting], format: Format, style: TextStyle) -> String {
    let mut table = Table::new(vec![left("KEY"), left("VALUE"), left("ORIGIN")]);
    for setting in settings {
        table.row(vec![
            setting.name.clone().into(),
            setting.shown().into(),
            setting.origin.clone().into(),
        ]);
    }
    table.show(format, true, style)
}

/// The JSON output of `config get`, `config set` and `config unset`.
#[derive(JsonSchema, Serialize)]
pub struct SettingItem<'a> {
    /// The section and the key, such as `prometheus.url`.
    key: &'a str,
    /// Masked if it is secret; `null` if it is not set.
    value: Value,
    /// Where the value comes from: `file /path`, `environment PROM_URL` or `default`.
    origin: &'a str,
}

pub fn one(setting: &Setting) -> SettingItem<'_> {
    SettingItem {
        key: &setting.name,
        value: setting.masked(),
        origin: &setting.origin,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_never_shown() {
        let shown_value = |value: Value, secret| {
            Setting {
                name: "a.url".to_owned(),
                value,
                origin: String::new(),
                secret,
            }
            .shown()
        };
        assert_eq!(shown_value(json!("sk-1"), true), MASK);
        assert_eq!(
            shown_value(json!({"X-Key": "sk-1"}), true),
            format!("X-Key: {MASK}")
        );
        assert_eq!(
            shown_value(json!("https://al:pw@h:1/p?key=sk-1"), false),
            "https://********@h:1/p?…"
        );
        assert_eq!(shown_value(json!("http://h:9090"), false), "http://h:9090");
        assert_eq!(
            shown_value(json!("al:pw@h:9090"), false),
            format!("{MASK}@h:9090")
        );
        assert_eq!(shown_value(json!("h:9090"), false), "h:9090");
        let shown_setting = |name: &str, text: &str| {
            Setting {
                name: name.to_owned(),
                value: json!(text),
                origin: String::new(),
                secret: false,
            }
            .shown()
        };
        assert_eq!(
            shown_setting("ai.api_url", "https://al:pw@h:1/secret?key=sk-1"),
            "https://h:1/…"
        );
        assert_eq!(shown_setting("control.api_url", "https://h"), "https://h");
        assert_eq!(
            shown_setting("prometheus.token_command", "gcloud auth print-access-token"),
            "gcloud …"
        );
        assert_eq!(
            shown_setting("prometheus.token_command", "TOKEN=sk-1 login"),
            MASK
        );
        assert_eq!(shown_value(Value::Null, true), "-");
        assert_eq!(shown_value(json!(20), false), "20");
    }
}
