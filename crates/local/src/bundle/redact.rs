//! Redacts secrets in a bundle: the values of environment variables, the values of keys and flags
//! for tokens and passwords, words that look like credentials, and copies of objects. Names,
//! labels, images, addresses and events remain, because commands need them. A secret that matches
//! none of these patterns is not recognized.

use serde_json::{Map, Value};

use gpuctl_core::model::contract::labels::{DEFAULTS, SOURCE};
use gpuctl_core::model::secrets::{
    NameStrength, argument_secrets, is_secret_name, is_secret_value, scrubbed, strength_of,
};

/// Placeholder for a secret in a bundle.
pub const REDACTED: &str = "[redacted]";
/// Annotations that hold a copy of the object as its author wrote it, including the values of
/// environment variables.
const COPIES: [&str; 3] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "objectset.rio.cattle.io/applied",
    "banzaicloud.com/last-applied",
];
/// Prefix of the labels that kube-state-metrics creates from annotations.
const METRIC_ANNOTATION: &str = "annotation_";
/// Fields that hold environment variables although their names do not end in `env`, in lower case.
const ENVIRONMENTS: [&str; 5] = [
    "envs",
    "envvars",
    "runtimeenvyaml",
    "environmentvariables",
    "env_vars",
];

/// Redacts the secrets in an object, a list or a response.
pub fn redact(value: &mut Value) {
    match value {
        Value::String(text) => redact_text(text),
        Value::Array(items) => {
            let words: Vec<&str> = items
                .iter()
                .map(|item| item.as_str().unwrap_or_default())
                .collect();
            let secrets = argument_secrets(&words);
            items.iter_mut().for_each(redact);
            secrets
                .into_iter()
                .for_each(|index| items[index] = REDACTED.into());
        }
        Value::Object(fields) => redact_fields(fields),
        _ => {}
    }
}

fn redact_text(text: &mut String) {
    // Parse JSON and YAML that contain variables, because a secret variable can have any name.
    if text.trim_start().starts_with(['{', '['])
        && ["env\"", "env_vars\"", "envVars\""]
            .iter()
            .any(|field| text.contains(field))
    {
        redact_written(text, true);
    } else if text.contains("env:") && text.contains('\n') {
        redact_written(text, false);
    }
    if let Some(clean) = scrubbed(text) {
        *text = clean;
    }
}

fn redact_fields(fields: &mut Map<String, Value>) {
    if let Some(Value::Object(annotations)) = fields.get_mut("annotations") {
        COPIES.iter().for_each(|copy| {
            annotations.shift_remove(*copy);
        });
        annotations
            .iter_mut()
            .for_each(|(key, text)| redact_annotation(key, text));
    }
    if let Some(Value::Object(labels)) = fields.get_mut("metric") {
        redact_series(labels);
    }
    if let Some(Value::Object(files)) = fields.get_mut("data") {
        for file in files.values_mut() {
            if let Value::String(text) = file {
                redact_written(text, false);
            }
        }
    }
    if fields
        .get("name")
        .and_then(Value::as_str)
        .is_some_and(is_secret_name)
        && let Some(value @ Value::String(_)) = fields.get_mut("value")
    {
        *value = REDACTED.into();
    }
    for (key, value) in fields.iter_mut() {
        if key == "metric" && value.is_object() {
            continue;
        }
        redact_field(key, value);
    }
}

fn redact_field(key: &str, value: &mut Value) {
    let lower = key.to_ascii_lowercase();
    if lower.ends_with("env") || ENVIRONMENTS.contains(&lower.as_str()) {
        return hide_variables(value);
    }
    if key.starts_with(METRIC_ANNOTATION) {
        return redact_annotation(key, value);
    }
    let announced = strength_of(key);
    let is_strong = announced.strength == NameStrength::Strong;
    match value {
        Value::String(text)
            if key.contains(".env.") || (is_strong && is_secret_value(announced, text)) =>
        {
            *value = REDACTED.into();
        }
        // A number under a key like `max_token` counts tokens and is not a secret.
        Value::Number(_) if is_strong && !announced.counts_tokens && !lower.ends_with("token") => {
            *value = REDACTED.into();
        }
        // An Event's name can look like a bootstrap token, which also has 23 characters.
        Value::String(text)
            if key == "name"
                && scrubbed(text).is_some_and(|clean| clean == REDACTED)
                && is_name(text) => {}
        other => redact(other),
    }
}

/// Returns true if a text with the length of a bootstrap token can be the name of an object.
fn is_name(text: &str) -> bool {
    text.len() == 23
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'.')
}

/// Redacts the labels of a series, except `secret`: that label holds only the name of a Secret.
fn redact_series(labels: &mut Map<String, Value>) {
    for (label, value) in labels.iter_mut().filter(|(label, _)| *label != "secret") {
        redact_field(label, value);
    }
}

/// Redacts an annotation. `key` is its name in Kubernetes or its label in kube-state-metrics.
fn redact_annotation(key: &str, value: &mut Value) {
    let Value::String(text) = value else { return };
    let is = |name: &str| plain(key).trim_start_matches(METRIC_ANNOTATION) == plain(name);
    let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
    if COPIES.iter().any(|copy| is(copy)) || is_secret_value(strength_of(name), text) {
        REDACTED.clone_into(text);
        return;
    }
    redact_written(text, is(SOURCE) || is(DEFAULTS));
    redact_text(text);
}

/// Converts a name to a Prometheus label as kube-state-metrics does: lower case, and `_` for every
/// character other than letters and digits.
fn plain(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '_'
            }
        })
        .collect()
}

/// Hides the values of environment variables, written as a map, as a list or as `NAME=VALUE`
/// strings.
fn hide_variables(variables: &mut Value) {
    match variables {
        Value::Object(map) => map.values_mut().for_each(hide_variable),
        Value::Array(list) => {
            for variable in list {
                match variable {
                    Value::String(text) => {
                        let name = text.split('=').next().unwrap_or_default();
                        *text = format!("{name}={REDACTED}");
                    }
                    other => hide_variable(other),
                }
            }
        }
        Value::String(text) => REDACTED.clone_into(text),
        _ => {}
    }
}

/// Hides the value of one variable, but keeps a reference to a Secret or a field. A map without
/// these fields is a nested environment, as in Ray.
fn hide_variable(variable: &mut Value) {
    match variable {
        Value::Object(fields)
            if ["name", "secret", "valueFrom", "value"]
                .iter()
                .any(|field| fields.contains_key(*field)) =>
        {
            if let Some(value) = fields.get_mut("value") {
                *value = REDACTED.into();
            }
        }
        Value::Object(_) => hide_variables(variable),
        other => *other = REDACTED.into(),
    }
}

/// Redacts YAML or JSON inside a text. If `is_file` is set and the text cannot be parsed, for
/// example because Prometheus truncated it, hides the text completely.
fn redact_written(text: &mut String, is_file: bool) {
    let is_json = text.trim_start().starts_with(['{', '[']);
    let json = serde_json::from_str::<Value>(text).ok().filter(|_| is_json);
    let read = json
        .clone()
        .or_else(|| serde_saphyr::from_str::<Value>(text).ok());
    let Some(original) = read.filter(|value| value.is_object() || value.is_array()) else {
        if is_file {
            REDACTED.clone_into(text);
        }
        return;
    };
    let mut value = original.clone();
    redact(&mut value);
    // Rewriting would lose formatting and comments, so leave a text without secrets unchanged.
    if value != original {
        let rewritten = if json.is_some() {
            Some(value.to_string())
        } else {
            serde_saphyr::to_string(&value).ok()
        };
        *text = rewritten.unwrap_or_else(|| REDACTED.to_owned());
    }
}

/// Hides the contents of ConfigMap files, in a list or a single object, but keeps the file names.
pub(super) fn hide_files(body: &mut Value) {
    let hide = |container: &mut Value| {
        for field in ["data", "binaryData"] {
            if let Some(Value::Object(files)) = container.get_mut(field) {
                files.values_mut().for_each(|file| *file = REDACTED.into());
            }
        }
    };
    match body.get_mut("items") {
        Some(Value::Array(items)) => items.iter_mut().for_each(hide),
        _ => hide(body),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_secrets_are_removed() {
        let mut pod = json!({
            "metadata": {"name": "train", "annotations": {
                "gpuctl/source": "kind: training\nenvironment:\n  env: {PASSPHRASE: CANARY}\n",
                "gpuctl/defaults": "{\"environment.env.PASSPHRASE\": \"CANARY\"}",
                "kubectl.kubernetes.io/last-applied-configuration": "{\"env\": \"CANARY\"}", "team": "nlp"}},
            "spec": {"containers": [{"image": "registry/token:1.2", "env": [{"name": "HF_TOKEN", "value": "CANARY"},
                {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "token"}}}],
                "args": ["--hub-token", "CANARY", "--epochs", "3"],
                "livenessProbe": {"httpGet": {"httpHeaders": [{"name": "Authorization", "value": "CANARY"}]}},
                "command": ["sh", "-c", "train --wandb-token CANARY --api_key CANARY -token CANARY --epochs 3 && PASSWORD=CANARY curl https://me:CANARY@host/x https://CANARY@host/y"]}],
                "rayStartParams": {"redis-password": "CANARY", "port": "1"}, "runtimeEnvYAML": "A: CANARY", "imagePullSecrets": [{"name": "login"}]},
            "log": "Authorization: Bearer CANARYCANARY; hf_CANARYCANARYCANARY; \"api_key\": \"CANARY\"; {\"token\":\"CANARY\"}; \\\"password\\\": \\\"CANARY\\\"; aws_secret_access_key = CANARY",
            "key": "-----BEGIN RSA PRIVATE KEY-----\nCANARY\n-----END RSA PRIVATE KEY-----",
            "plain": {"env": ["A=CANARY"]},
            "login": "wandb login 0123456789012345678901234567890123456789",
            "event": "MountVolume.SetUp failed for volume \"my-secret\" : secret \"hf-token\" not found",
        });
        redact(&mut pod);
        let text = pod.to_string();
        assert!(
            !text.contains("CANARY") && !text.contains("0123456789"),
            "{text}"
        );
        assert_eq!(
            pod["event"],
            "MountVolume.SetUp failed for volume \"my-secret\" : secret \"hf-token\" not found"
        );
        let container = &pod["spec"]["containers"][0];
        assert_eq!(
            (&container["image"], &container["args"][3]),
            (&json!("registry/token:1.2"), &json!("3"))
        );
        assert_eq!(
            container["env"][1]["valueFrom"]["secretKeyRef"],
            json!({"name": "hf-token", "key": "token"})
        );
        assert_eq!(
            (
                &pod["spec"]["imagePullSecrets"][0]["name"],
                &pod["spec"]["rayStartParams"]["port"]
            ),
            (&json!("login"), &json!("1"))
        );
        let annotations = &pod["metadata"]["annotations"];
        assert_eq!(
            (annotations.as_object().unwrap().len(), &annotations["team"]),
            (3, &json!("nlp"))
        );
        assert!(
            annotations["gpuctl/source"]
                .as_str()
                .unwrap()
                .contains("PASSPHRASE: \"[redacted]\""),
            "{text}"
        );
        assert!(
            text.contains("--epochs 3") && text.contains("@host/x"),
            "{text}"
        );
    }

    /// kube-state-metrics exports annotations as labels, and Prometheus may truncate them.
    #[test]
    fn labels_of_series_are_redacted_like_annotations() {
        let applied =
            json!({"spec": {"containers": [{"env": [{"name": "A", "value": "CANARY"}]}]}})
                .to_string();
        let mut answer = json!({"data": {"result": [{"value": [1, "1"], "metric": {
            "__name__": "kube_pod_annotations", "namespace": "team-a", "pod": "train-0", "secret": "hf-token",
            "annotation_kubectl_kubernetes_io_last_applied_configuration": applied,
            "annotation_objectset_rio_cattle_io_applied": "CANARY",
            "annotation_gpuctl_source": "kind: training\nenvironment:\n  env: {A: CANARY",
            "label_api_token": "CANARY"}}]}});
        redact(&mut answer);
        assert!(!answer.to_string().contains("CANARY"), "{answer:#}");
        let result = &answer["data"]["result"][0];
        assert_eq!(
            (&result["metric"]["pod"], &result["metric"]["secret"]),
            (&json!("train-0"), &json!("hf-token"))
        );
        assert_eq!(result["value"], json!([1, "1"]));
    }

    #[test]
    fn files_of_others_keep_their_names_only() {
        let mut list = json!({"items": [{"metadata": {"name": "m"}, "data": {"run.sh": "CANARY"}, "binaryData": {"x": "CANARY"}}]});
        hide_files(&mut list);
        assert_eq!(list["items"][0]["data"], json!({"run.sh": REDACTED}));
        assert!(!list.to_string().contains("CANARY"));
    }
}
