//! Renders the difference between two objects as a list of fields and as a unified diff. Callers
//! must mask secrets in the objects.

use colored::Color;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use similar::TextDiff;

use gpuctl_manifest::compare::{Masks, changes, requested_changes};

use crate::format::text::{clean, paint};
use crate::{TextStyle, yaml};

/// The difference between a live object and the object in a file.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Namespace of the object. Empty for cluster-scoped objects.
    namespace: String,
    /// KIND/NAME of the object.
    object: String,
    /// One of `created`, `updated`, `removed`, `replaced`, or `file` for the job file.
    change: &'static str,
    fields: Vec<String>,
    before: String,
    after: String,
}

/// The JSON output of `diff`.
#[derive(JsonSchema, Serialize)]
pub struct DifferenceList<'a> {
    total: usize,
    items: Vec<DifferenceItem<'a>>,
}

#[derive(JsonSchema, Serialize)]
struct DifferenceItem<'a> {
    /// The object as KIND/NAME.
    object: &'a str,
    namespace: Option<&'a str>,
    /// One of `created`, `updated`, `removed` and `replaced`.
    change: &'static str,
    /// Paths of the fields that change.
    fields: &'a [String],
    /// Unified diff, in the format of `diff -u`.
    diff: String,
}

impl Difference {
    /// Creates the difference for an object that does not exist.
    pub fn new(namespace: &str, object: &str, desired: &Value) -> Self {
        Self::build(
            namespace,
            object,
            "created",
            String::new(),
            yaml(&in_order(desired)),
            Vec::new(),
        )
    }

    /// Creates the difference for an object that the file no longer declares.
    pub fn deleted(namespace: &str, object: &str) -> Self {
        Self::build(
            namespace,
            object,
            "removed",
            format!("{object}\n"),
            String::new(),
            Vec::new(),
        )
    }

    /// Creates the difference between the submitted file and the current file, which is shown
    /// before the objects.
    pub fn of_file(namespace: &str, document: &str, before: String, after: String) -> Self {
        Self::build(namespace, document, "file", before, after, Vec::new())
    }

    /// Returns true if the difference is between two files. JSON output omits it, because the
    /// objects contain the same changes.
    fn is_of_file(&self) -> bool {
        self.change == "file"
    }

    /// Creates the difference for an object that is changed in place.
    pub fn changed(namespace: &str, object: &str, live: &Value, desired: &Value) -> Self {
        let fields = changes(live, desired, &Masks::default());
        Self::build(
            namespace,
            object,
            "updated",
            yaml(&in_order(live)),
            yaml(&in_order(desired)),
            fields,
        )
    }

    /// Creates the difference for an object that is replaced, because immutable fields change.
    /// `desired` has only the fields of the file.
    pub fn fixed(namespace: &str, object: &str, live: &Value, desired: &Value) -> Self {
        let fields = requested_changes(live, desired, &Masks::default());
        Self::build(
            namespace,
            object,
            "replaced",
            yaml(&in_order(&requested_fields(live, desired))),
            yaml(&in_order(desired)),
            fields,
        )
    }

    fn build(
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

    fn location(&self) -> String {
        if self.namespace.is_empty() {
            self.object.clone()
        } else {
            format!("{}/{}", self.namespace, self.object)
        }
    }

    fn unified(&self) -> String {
        let (live, file) = match self.is_of_file() {
            true => (
                format!("submitted/{}", self.location()),
                format!("file/{}", self.location()),
            ),
            false => (
                format!("live/{}", self.location()),
                format!("file/{}", self.location()),
            ),
        };
        TextDiff::from_lines(&self.before, &self.after)
            .unified_diff()
            .context_radius(3)
            .header(&live, &file)
            .to_string()
    }

    fn item(&self) -> DifferenceItem<'_> {
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

/// Builds the JSON output, without the difference of the job file.
pub fn list(differences: &[Difference]) -> DifferenceList<'_> {
    let of_objects = differences
        .iter()
        .filter(|difference| !difference.is_of_file());
    let items: Vec<DifferenceItem<'_>> = of_objects.map(Difference::item).collect();
    DifferenceList {
        total: items.len(),
        items,
    }
}

/// Renders the differences in the format of `diff -u`.
pub fn text(differences: &[Difference], style: TextStyle) -> String {
    let mut text = String::new();
    for line in differences
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
        text.push_str(&paint(&clean(line), color, style));
        text.push('\n');
    }
    text
}

/// Sorts the keys of all maps, because the API server and gpuctl write them in different orders.
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

/// Keeps only the fields of `live` that `desired` also has, because the API server adds defaults.
/// Matches list items by `name`.
fn requested_fields(live: &Value, desired: &Value) -> Value {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => desired
            .iter()
            .filter_map(|(key, desired)| {
                Some((key.clone(), requested_fields(live.get(key)?, desired)))
            })
            .collect(),
        (Value::Array(live), Value::Array(desired)) => {
            let requested_part = |item: &Value| {
                let counterpart = desired.iter().find(|candidate| {
                    item["name"].is_string() && candidate["name"] == item["name"]
                });
                counterpart.map_or_else(|| item.clone(), |desired| requested_fields(item, desired))
            };
            live.iter().map(requested_part).collect()
        }
        (live, _) => live.clone(),
    }
}
