//! Renders the site's defaults, and the defaults that apply to a job or field.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::format::table::{Table, left};
use crate::format::text::clean;
use crate::{Format, TextStyle};
use gpuctl_manifest::spec::{DefaultRow, SiteDefaults, masked};

/// The JSON output of `get defaults`.
#[derive(JsonSchema, Serialize)]
pub struct DefaultsList<'a> {
    total: usize,
    items: Vec<DefaultsItem<'a>>,
}

#[derive(JsonSchema, Serialize)]
struct DefaultsItem<'a> {
    scope: &'a str,
    field: &'a str,
    value: &'a Value,
    enforced: bool,
}

/// Author and creation time of the defaults.
pub struct DefaultsOrigin<'a> {
    pub user: Option<&'a str>,
    pub created_at: Option<Timestamp>,
}

/// The JSON output of `describe defaults`.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WholeDefaults<'a> {
    /// `null` when the object names no user.
    user: Option<&'a str>,
    created_at: Option<Timestamp>,
    source: String,
    items: Vec<Value>,
}

fn item(row: &DefaultRow) -> DefaultsItem<'_> {
    DefaultsItem {
        scope: &row.scope,
        field: row.field,
        value: &row.value,
        enforced: row.enforced,
    }
}

pub fn list(rows: &[DefaultRow], total: usize) -> DefaultsList<'_> {
    DefaultsList {
        total,
        items: rows.iter().map(item).collect(),
    }
}

pub fn names(rows: &[DefaultRow]) -> Vec<String> {
    rows.iter()
        .map(|row| format!("{}/{}", clean(&row.scope).replace(' ', "/"), row.field))
        .collect()
}

/// Formats a value on one line, with text unquoted.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => clean(text).into_owned(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| format!("{}={}", clean(key), plain(value)))
            .collect::<Vec<_>>()
            .join(", "),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join("; "),
        other => other.to_string(),
    }
}

pub fn table(rows: &[DefaultRow], format: Format, headers: bool, style: TextStyle) -> String {
    let mut table = Table::new([
        left("SCOPE"),
        left("FIELD"),
        left("VALUE"),
        left("ENFORCED").yielding(),
    ]);
    for row in rows {
        let enforced = if row.enforced { "yes" } else { "no" };
        // Put each entry of a map in a separate row, so that many variables fit on a terminal.
        let entries: Vec<(String, String)> = match &row.value {
            Value::Object(map) => map
                .iter()
                .map(|(key, value)| (format!("{}.{}", row.field, clean(key)), plain(value)))
                .collect(),
            value => vec![(row.field.to_owned(), plain(value))],
        };
        for (field, value) in entries {
            table.row(vec![
                row.scope.clone().into(),
                field.into(),
                value.into(),
                enforced.into(),
            ]);
        }
    }
    table.show(format, headers, style)
}

/// Renders the site's defaults of a field, for printing below its description.
pub fn below(rows: &[DefaultRow]) -> String {
    let line = |row: &DefaultRow| {
        let enforced = if row.enforced { ", enforced" } else { "" };
        format!(
            "  {} ({}{enforced})\n",
            plain(&row.value),
            clean(&row.scope)
        )
    };
    let lines: String = rows.iter().map(line).collect();
    format!(
        "\nHERE:\n{}",
        if lines.is_empty() {
            "  the site's defaults do not set it\n"
        } else {
            &lines
        }
    )
}

pub fn whole<'a>(site: &'a SiteDefaults, origin: &DefaultsOrigin<'a>) -> WholeDefaults<'a> {
    let value = |row: &DefaultRow| serde_json::to_value(item(row)).expect("our structs are JSON");
    WholeDefaults {
        user: origin.user,
        created_at: origin.created_at,
        source: masked(&site.source),
        items: site.rows().iter().map(value).collect(),
    }
}

/// Renders the defaults file as text, below comments with its author and creation time.
pub fn text(site: &SiteDefaults, origin: &DefaultsOrigin<'_>) -> String {
    let author = origin.user.map_or_else(String::new, |user| {
        format!("# written by {}\n", clean(user))
    });
    let created = origin
        .created_at
        .map_or_else(String::new, |time| format!("# created {time:.0}\n"));
    let source: String = masked(&site.source)
        .lines()
        .map(|line| format!("{}\n", clean(line)))
        .collect();
    format!("{author}{created}{source}")
}
