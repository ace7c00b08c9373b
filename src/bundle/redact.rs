//! Takes secrets out of what goes into a bundle: values of environment variables, words that look like credentials, copies of whole
//! objects in annotations. Names, labels, images, addresses and events stay: without them a bundle answers nothing.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// What stands where a secret stood.
pub(crate) const REDACTED: &str = "[redacted]";
/// Annotations that repeat an object as its author wrote it, values of variables included.
const COPIES: [&str; 1] = ["kubectl.kubernetes.io/last-applied-configuration"];

/// Words that are credentials by their shape, those that follow a key which says so, and passwords in addresses.
static SECRETS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let shape = r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|nvapi-[\w-]{16,}|AKIA[0-9A-Z]{16}|xox[abprs]-[\w-]{10,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*)";
    let key = r#"(?i)((?:token|secret|password|passwd|api[_-]?key|access[_-]?key|credentials?)["']?(?:=|:\s+))("[^"]*"|'[^']*'|[^\s"',;&]+)"#;
    let flag = r#"(?i)(--[a-z-]*(?:token|secret|password|api-key|access-key)\s+)("[^"]*"|'[^']*'|[^\s"'-][^\s"']*)"#;
    let bearer = r"(?i)(\b(?:bearer|basic)\s+)[A-Za-z0-9+/_.=-]{8,}";
    let address = r"(://[^/\s:@]*:)[^/\s@]+@";
    let private = r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)";
    let pairs = [
        (shape, REDACTED),
        (key, "$1[redacted]"),
        (flag, "$1[redacted]"),
        (bearer, "$1[redacted]"),
        (address, "$1[redacted]@"),
        (private, REDACTED),
    ];
    pairs.into_iter().map(|(pattern, with)| (Regex::new(pattern).expect("the patterns are valid"), with)).collect()
});

/// Takes secrets out of an object, a list or an answer.
pub(super) fn redact(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(clean) = scrubbed(text) {
                *text = clean;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact),
        Value::Object(fields) => {
            fields.shift_remove("managedFields");
            if let Some(Value::Object(annotations)) = fields.get_mut("annotations") {
                COPIES.iter().for_each(|copy| {
                    annotations.shift_remove(*copy);
                });
            }
            for texts in ["annotations", "data"] {
                if let Some(Value::Object(texts)) = fields.get_mut(texts) {
                    texts.values_mut().for_each(redact_written);
                }
            }
            if let Some(variables) = fields.get_mut("env") {
                hide_variables(variables);
            }
            fields.values_mut().for_each(redact);
        }
        _ => {}
    }
}

/// Hides the values of variables, as Kubernetes and as our files write them.
fn hide_variables(variables: &mut Value) {
    match variables {
        Value::Object(map) => map.values_mut().for_each(|value| *value = REDACTED.into()),
        Value::Array(list) => {
            list.iter_mut().filter_map(|one| one.get_mut("value")).for_each(|value| *value = REDACTED.into());
        }
        _ => {}
    }
}

/// Redacts a file that an object carries as text, such as the one that a job was submitted with.
fn redact_written(value: &mut Value) {
    let Value::String(text) = value else { return };
    if !text.contains("env") {
        return;
    }
    let Ok(before @ (Value::Object(_) | Value::Array(_))) = serde_saphyr::from_str::<Value>(text) else { return };
    let mut written = before.clone();
    redact(&mut written);
    // What hides nothing stays as its author wrote it.
    if written != before {
        *text = serde_saphyr::to_string(&written).unwrap_or_else(|_| REDACTED.to_owned());
    }
}

/// Returns the text without its secrets; `None` when it has none.
fn scrubbed(text: &str) -> Option<String> {
    let mut clean = std::borrow::Cow::Borrowed(text);
    for (pattern, with) in SECRETS.iter() {
        if pattern.is_match(&clean) {
            clean = pattern.replace_all(&clean, *with).into_owned().into();
        }
    }
    matches!(clean, std::borrow::Cow::Owned(_)).then(|| clean.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn no_secret_stays_and_nothing_else_goes() {
        let mut pod = json!({
            "metadata": {"name": "train", "managedFields": [{"f:spec": {}}], "annotations": {
                "gpuctl/source": "kind: training\nenvironment:\n  env: {PASSPHRASE: CANARY}\n",
                "kubectl.kubernetes.io/last-applied-configuration": "{\"env\": \"CANARY\"}", "team": "nlp"}},
            "spec": {"containers": [{"image": "registry/token:1.2", "env": [{"name": "HF_TOKEN", "value": "CANARY"},
                {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "token"}}}],
                "command": ["sh", "-c", "train --wandb-token CANARY --epochs 3 && PASSWORD=CANARY curl https://me:CANARY@host/x"]}]},
            "log": "Authorization: Bearer CANARYCANARY; hf_CANARYCANARYCANARY; \"api_key\": \"CANARY\"",
            "key": "-----BEGIN RSA PRIVATE KEY-----\nCANARY\n-----END RSA PRIVATE KEY-----",
            "event": "MountVolume.SetUp failed for volume \"x\" : secret \"hf-token\" not found",
        });
        redact(&mut pod);
        let text = pod.to_string();
        assert!(!text.contains("CANARY"), "{text}");
        assert_eq!(pod["event"], "MountVolume.SetUp failed for volume \"x\" : secret \"hf-token\" not found");
        assert_eq!(pod["spec"]["containers"][0]["image"], "registry/token:1.2");
        assert_eq!(pod["spec"]["containers"][0]["env"][1]["valueFrom"]["secretKeyRef"]["name"], "hf-token");
        assert_eq!(pod["metadata"]["annotations"].as_object().unwrap().len(), 2);
        assert!(
            pod["metadata"]["annotations"]["gpuctl/source"].as_str().unwrap().contains("PASSPHRASE: \"[redacted]\""),
            "{text}"
        );
        assert!(text.contains("--epochs 3") && text.contains("@host/x"), "{text}");
    }
}
