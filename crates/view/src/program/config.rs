//! Renders `config view`: settings with their origin, secrets masked.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::format::table::{Table, left};
use crate::{Format, TextStyle};
use gpuctl_core::model::secrets::{shown_origin, shown_url};

/// One setting.
pub struct Setting {
    /// `prometheus.url`.
    pub name: &'static str,
    pub value: Value,
    /// `file /path`, `environment PROM_URL`, `default`.
    pub origin: String,
    pub secret: bool,
}

/// In place of a secret, whatever its length.
const MASK: &str = "********";

impl Setting {
    /// Returns the value, without what nobody may see.
    fn masked(&self) -> Value {
        match &self.value {
            Value::Null => Value::Null,
            Value::Object(map) => map
                .keys()
                .map(|name| (name.clone(), json!(MASK)))
                .collect::<Map<_, _>>()
                .into(),
            _ if self.secret => json!(MASK),
            Value::String(text) if self.name.ends_with("api_url") => json!(origin_of(text)),
            Value::String(text) if self.name.ends_with("url") => json!(without_credentials(text)),
            Value::String(text) if self.name.ends_with("command") => json!(program_of(text)),
            value => value.clone(),
        }
    }

    /// Formats it for people.
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

/// Returns an address without user, password and parameters, which may hold a key.
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

/// An address without its path, because the path of a webhook is its password.
fn origin_of(url: &str) -> String {
    let origin = shown_origin(url);
    if url.trim_end_matches('/') == origin {
        origin
    } else {
        format!("{origin}/…")
    }
}

/// The program of a command. Omits arguments and variables, which can be secrets of any form.
fn program_of(command: &str) -> String {
    let mut words = command.split_whitespace();
    match words
        .next()
        .filter(|program| !program.contains(['=', '"', '\'', '$', '`']))
    {
        Some(program) if words.next().is_none() => program.to_owned(),
        Some(program) => format!("{program} …"),
        None => MASK.to_owned(),
    }
}

/// Nests as section → key → value, or value and origin.
pub fn nested(settings: &[Setting], origins: bool) -> Map<String, Value> {
    let mut all = Map::new();
    for setting in settings {
        let (section, key) = setting.name.split_once('.').unwrap_or(("", setting.name));
        let value = setting.masked();
        let value = if origins {
            json!({"value": value, "origin": setting.origin})
        } else {
            value
        };
        let section = all.entry(section).or_insert_with(|| json!({}));
        section[key] = value;
    }
    all
}

/// As a config file would say it; what has no value is left out.
pub fn yaml(settings: &[Setting]) -> String {
    let known: Map<String, Value> = nested(settings, false)
        .into_iter()
        .filter_map(|(section, keys)| {
            let Value::Object(keys) = keys else {
                return None;
            };
            let keys: Map<String, Value> = keys
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .collect();
            (!keys.is_empty()).then_some((section, Value::Object(keys)))
        })
        .collect();
    crate::document(Format::Yaml, &known).unwrap_or_default()
}

pub fn table(settings: &[Setting], format: Format, look: TextStyle) -> String {
    let mut table = Table::new(vec![left("KEY"), left("VALUE"), left("ORIGIN")]);
    for setting in settings {
        table.row(vec![
            setting.name.to_owned().into(),
            setting.shown().into(),
            setting.origin.clone().into(),
        ]);
    }
    table.show(format, true, look)
}

/// The answer of `config set`.
#[derive(JsonSchema, Serialize)]
pub struct SettingItem<'a> {
    /// `prometheus.url`.
    key: &'static str,
    /// Masked where it is a secret; null where it is not set.
    value: Value,
    /// `file /path`, `environment PROM_URL`, `default`.
    origin: &'a str,
}

pub fn one(setting: &Setting) -> SettingItem<'_> {
    SettingItem {
        key: setting.name,
        value: setting.masked(),
        origin: &setting.origin,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_sees_a_secret() {
        let shown = |value: Value, secret| {
            Setting {
                name: "a.url",
                value,
                origin: String::new(),
                secret,
            }
            .shown()
        };
        assert_eq!(shown(json!("sk-1"), true), MASK);
        assert_eq!(
            shown(json!({"X-Key": "sk-1"}), true),
            format!("X-Key: {MASK}")
        );
        assert_eq!(
            shown(json!("https://al:pw@h:1/p?key=sk-1"), false),
            "https://********@h:1/p?…"
        );
        assert_eq!(shown(json!("http://h:9090"), false), "http://h:9090");
        assert_eq!(
            shown(json!("al:pw@h:9090"), false),
            format!("{MASK}@h:9090")
        );
        assert_eq!(shown(json!("h:9090"), false), "h:9090");
        let named = |name, text: &str| {
            Setting {
                name,
                value: json!(text),
                origin: String::new(),
                secret: false,
            }
            .shown()
        };
        assert_eq!(
            named("ai.api_url", "https://al:pw@h:1/secret?key=sk-1"),
            "https://h:1/…"
        );
        assert_eq!(named("control.api_url", "https://h"), "https://h");
        assert_eq!(
            named("prometheus.token_command", "gcloud auth print-access-token"),
            "gcloud …"
        );
        assert_eq!(named("prometheus.token_command", "TOKEN=sk-1 login"), MASK);
        assert_eq!(shown(Value::Null, true), "-");
        assert_eq!(shown(json!(20), false), "20");
    }
}
