//! Renders the difference between two objects, field by field or as a unified diff. Values that
//! look like secrets are masked.

use colored::Color;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use similar::TextDiff;

use gpuctl_manifest::compare::{Masks, changes, changes_asked_for};

use crate::format::text::{clean, paint};
use crate::{TextStyle, yaml};

/// What would become of an object.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Empty for what is in none.
    namespace: String,
    /// `kind/name`.
    object: String,
    /// `created`, `updated`, `removed`, `replaced`.
    change: &'static str,
    fields: Vec<String>,
    before: String,
    after: String,
}

/// An entry of the answer of `diff`.
#[derive(JsonSchema, Serialize)]
pub struct DifferenceItem<'a> {
    /// `kind/name`.
    object: &'a str,
    namespace: Option<&'a str>,
    /// `created`, `updated`, `removed`, `replaced`.
    change: &'static str,
    /// Paths that change.
    fields: &'a [String],
    /// As `diff -u` writes it.
    diff: String,
}

impl Difference {
    /// Lists the fields of an object that does not exist yet.
    pub fn new(namespace: &str, object: &str, wanted: &Value) -> Self {
        Self::between(
            namespace,
            object,
            "created",
            String::new(),
            yaml(&in_order(wanted)),
            Vec::new(),
        )
    }

    /// Lists the fields of an object that the file no longer describes.
    pub fn gone(namespace: &str, object: &str) -> Self {
        Self::between(
            namespace,
            object,
            "removed",
            format!("{object}\n"),
            String::new(),
            Vec::new(),
        )
    }

    /// Compares the file that was submitted with the one at hand; people look at that first.
    pub fn of_file(namespace: &str, document: &str, before: String, after: String) -> Self {
        Self::between(namespace, document, "file", before, after, Vec::new())
    }

    /// Returns true for the difference of a file, which is for people: programs have the objects.
    pub fn is_of_file(&self) -> bool {
        self.change == "file"
    }

    /// Lists the fields that change in place.
    pub fn changed(namespace: &str, object: &str, live: &Value, wanted: &Value) -> Self {
        let fields = changes(live, wanted, &Masks::default());
        Self::between(
            namespace,
            object,
            "updated",
            yaml(&in_order(live)),
            yaml(&in_order(wanted)),
            fields,
        )
    }

    /// Lists the fields that cannot be changed: `wanted` has only what was asked for.
    pub fn fixed(namespace: &str, object: &str, live: &Value, wanted: &Value) -> Self {
        let fields = changes_asked_for(live, wanted, &Masks::default());
        Self::between(
            namespace,
            object,
            "replaced",
            yaml(&in_order(&asked(live, wanted))),
            yaml(&in_order(wanted)),
            fields,
        )
    }

    fn between(
        namespace: &str,
        object: &str,
        change: &'static str,
        before: String,
        after: String,
        fields: Vec<String>,
    ) -> Self {
        Self {
            namespace: namespace.to_owned(),
            object: object.to_owned(),
            change,
            fields,
            before,
            after,
        }
    }

    fn place(&self) -> String {
        if self.namespace.is_empty() {
            self.object.clone()
        } else {
            format!("{}/{}", self.namespace, self.object)
        }
    }

    fn unified(&self) -> String {
        let (live, file) = match self.is_of_file() {
            true => (
                format!("submitted/{}", self.place()),
                format!("file/{}", self.place()),
            ),
            false => (
                format!("live/{}", self.place()),
                format!("file/{}", self.place()),
            ),
        };
        TextDiff::from_lines(&self.before, &self.after)
            .unified_diff()
            .context_radius(3)
            .header(&live, &file)
            .to_string()
    }

    /// Formats it for programs.
    pub fn document(&self) -> DifferenceItem<'_> {
        let namespace = Some(&*self.namespace).filter(|namespace| !namespace.is_empty());
        DifferenceItem {
            object: &self.object,
            namespace,
            change: self.change,
            fields: &self.fields,
            diff: self.unified(),
        }
    }
}

/// Differences one after the other, as `diff -u` writes them.
pub fn text(found: &[Difference], look: TextStyle) -> String {
    let mut text = String::new();
    for line in found
        .iter()
        .map(Difference::unified)
        .collect::<String>()
        .lines()
    {
        let color = match line.as_bytes().first() {
            Some(b'+') => Some(Color::Green),
            Some(b'-') => Some(Color::Red),
            Some(b'@') => Some(Color::Cyan),
            _ => None,
        };
        text.push_str(&paint(&clean(line), color, look));
        text.push('\n');
    }
    text
}

/// Servers and we write keys in different orders, which is no difference.
fn in_order(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let sorted: std::collections::BTreeMap<&String, Value> = map
                .iter()
                .map(|(key, value)| (key, in_order(value)))
                .collect();
            sorted
                .into_iter()
                .map(|(key, value)| (key.clone(), value))
                .collect()
        }
        Value::Array(list) => list.iter().map(in_order).collect(),
        other => other.clone(),
    }
}

/// Returns what of `live` stands where `wanted` says something.
fn asked(live: &Value, wanted: &Value) -> Value {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => wanted
            .iter()
            .filter_map(|(key, wanted)| Some((key.clone(), asked(live.get(key)?, wanted))))
            .collect(),
        (Value::Array(live), Value::Array(wanted)) => {
            let same = |item: &Value| {
                let named = wanted
                    .iter()
                    .find(|wanted| item["name"].is_string() && wanted["name"] == item["name"]);
                named.map_or_else(|| item.clone(), |wanted| asked(item, wanted))
            };
            live.iter().map(same).collect()
        }
        (live, _) => live.clone(),
    }
}
