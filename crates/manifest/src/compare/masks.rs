//! Masks secrets in objects, so that a diff shows that a secret changes, but not its value.

use serde_json::Value;

use crate::spec::{is_secret_name, masked, secrets_in};

/// Secrets in a job's manifest before and after a change. A diff shows an unchanged secret with the
/// same mask on both sides, and a changed secret with different masks.
#[derive(Clone, Debug, Default)]
pub struct Masks {
    before: Vec<String>,
    after: Vec<String>,
}

impl Masks {
    /// Finds the secrets in the stored manifest of a job and in its replacement.
    pub fn for_change(before: &str, after: &str) -> Self {
        Self {
            before: secrets_in(before),
            after: secrets_in(after),
        }
    }

    /// Masks secrets in a live object.
    pub fn live(&self, object: &Value) -> Value {
        hidden(object, &self.before, &self.after, "*** (before)")
    }

    /// Masks secrets in a desired object.
    pub fn desired(&self, object: &Value) -> Value {
        hidden(object, &self.after, &self.before, "*** (after)")
    }
}

fn hidden(object: &Value, secrets: &[String], other_secrets: &[String], changed: &str) -> Value {
    let mut hidden = object.clone();
    if hidden["kind"] == "Secret" {
        for key in ["data", "stringData"] {
            hidden[key]
                .as_object_mut()
                .into_iter()
                .flatten()
                .for_each(|(_, value)| *value = changed.into());
        }
    }
    // Other tools may have added variables with secret-looking names, which the manifest does not
    // list.
    hide_named(&mut hidden, secrets, changed);
    if let Some(Value::String(source)) = hidden
        .pointer_mut("/metadata/annotations")
        .and_then(|annotations| annotations.get_mut("gpuctl/source"))
    {
        let plain = secrets.iter().all(|secret| source.contains(secret));
        if !plain {
            *source = masked(source);
        }
    }
    hide(&mut hidden, &|text| {
        let mask_of = |secret: &String| {
            if other_secrets.contains(secret) {
                "***"
            } else {
                changed
            }
        };
        secrets.iter().fold(text.to_owned(), |text, secret| {
            text.replace(secret, mask_of(secret))
        })
    });
    hidden
}

/// Masks values of variables with secret-looking names, except known secrets, which are masked
/// later.
fn hide_named(value: &mut Value, secrets: &[String], changed: &str) {
    match value {
        Value::Object(map) => {
            let is_secret = map
                .get("name")
                .and_then(Value::as_str)
                .is_some_and(is_secret_name);
            if let Some(Value::String(text)) = map.get_mut("value").filter(|_| is_secret)
                && !secrets.contains(text)
            {
                changed.clone_into(text);
            }
            map.values_mut()
                .for_each(|value| hide_named(value, secrets, changed));
        }
        Value::Array(list) => list
            .iter_mut()
            .for_each(|value| hide_named(value, secrets, changed)),
        _ => {}
    }
}

fn hide(value: &mut Value, hidden: &impl Fn(&str) -> String) {
    match value {
        Value::Object(map) => map.values_mut().for_each(|value| hide(value, hidden)),
        Value::Array(list) => list.iter_mut().for_each(|value| hide(value, hidden)),
        Value::String(text) => *text = hidden(text),
        _ => {}
    }
}
