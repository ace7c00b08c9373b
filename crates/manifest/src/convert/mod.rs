//! Converts job files of other tools into manifests, and lists what has no equivalent.

mod array;
mod dstack;
mod kubernetes;
mod object;
mod pod;
mod sbatch;
mod script;
mod sets;
mod skypilot;
mod slurm;
mod unsupported;

use serde_json::{Map, Value, json};

/// A generated document, and the parts of the original that it lacks.
#[derive(Clone, Debug, PartialEq)]
pub struct Converted {
    pub document: Value,
    /// Kind and name of the original, such as `Job/train`.
    pub from: String,
    /// Fields of the original without an equivalent, some with a reason.
    pub omitted: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvertError {
    pub message: String,
    pub hint: String,
}

impl ConvertError {
    fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: hint.into(),
        }
    }
}

/// Converts every document of a text. `image` is used for scripts, which do not specify an image.
pub fn convert(text: &str, image: Option<&str>) -> Result<Vec<Converted>, ConvertError> {
    if text
        .lines()
        .any(|line| line.trim_start().starts_with("#SBATCH"))
        || text.starts_with("#!")
    {
        return slurm::convert(text, image);
    }
    let documents: Result<Vec<Value>, _> = serde_saphyr::from_multiple(text);
    let documents = documents.map_err(|error| {
        ConvertError::new(
            format!("it is not valid YAML: {error}"),
            "a Slurm script needs lines that begin with #SBATCH",
        )
    })?;
    // Replace a `List` by its items.
    let objects: Vec<Value> = documents
        .into_iter()
        .flat_map(
            |object| match object.get("items").and_then(Value::as_array) {
                Some(items) => items.clone(),
                None => vec![object],
            },
        )
        .filter(|object| !object.is_null())
        .collect();
    if let [object] = objects.as_slice() {
        if skypilot::is_task(object) {
            return skypilot::convert(object, image).map(|job| vec![job]);
        }
        if dstack::is_configuration(object) {
            return dstack::convert(object, image).map(|job| vec![job]);
        }
        if unsupported::is_compose(object) {
            return Err(unsupported::compose(object));
        }
    }
    kubernetes::convert(&objects)
}

/// A map that ignores null values and empty collections.
#[derive(Default)]
struct FieldMap(Map<String, Value>);

impl FieldMap {
    fn put(&mut self, key: &str, value: impl Into<Option<Value>>) {
        let value: Option<Value> = value.into();
        let empty = |value: &Value| {
            value.is_null()
                || value.as_object().is_some_and(Map::is_empty)
                || value.as_array().is_some_and(Vec::is_empty)
        };
        if let Some(value) = value.filter(|value| !empty(value)) {
            self.0.insert(key.to_owned(), value);
        }
    }

    fn value(self) -> Value {
        Value::Object(self.0)
    }
}

/// Parses `A100:8`, `{A100: 8}` or `A100-80GB` into a type and a count.
fn accelerators(value: &Value) -> Option<(String, u64)> {
    let (kind, count) = match value {
        Value::String(text) => {
            let (kind, count) = text.rsplit_once(':').unwrap_or((text, "1"));
            (kind.to_owned(), count.parse().ok()?)
        }
        // SkyPilot uses the first available type of a list, so convert the first one.
        Value::Array(list) => return accelerators(list.first()?),
        Value::Object(map) => match map.iter().next()? {
            (kind, count) if kind.contains(':') || count.is_null() => {
                return accelerators(&Value::String(kind.clone()));
            }
            (kind, count) => (kind.clone(), count.as_u64()?),
        },
        _ => return None,
    };
    Some((kind, count))
}

/// Unread fields of the original. Converters take fields one by one, and `finish` records the
/// remaining ones as omitted.
struct SourceFields<'v> {
    path: String,
    map: Map<String, Value>,
    omitted: &'v mut Vec<String>,
}

impl<'v> SourceFields<'v> {
    fn new(path: &str, value: &Value, omitted: &'v mut Vec<String>) -> Self {
        Self {
            path: path.to_owned(),
            map: value.as_object().cloned().unwrap_or_default(),
            omitted,
        }
    }

    fn take(&mut self, key: &str) -> Value {
        self.map.remove(key).unwrap_or(Value::Null)
    }

    /// Records a value without an equivalent.
    fn omit(&mut self, field: &str) {
        self.omitted.push(format!("{}.{field}", self.path));
    }

    /// Records every non-empty field that has not been taken.
    fn finish(self) {
        let has_value = |value: &Value| {
            !matches!(value, Value::Null) && *value != json!({}) && *value != json!([])
        };
        self.omitted.extend(
            self.map
                .iter()
                .filter(|(_, value)| has_value(value))
                .map(|(key, _)| format!("{}.{key}", self.path)),
        );
    }
}

#[cfg(test)]
mod tests;
