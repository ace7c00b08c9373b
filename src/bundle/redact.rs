//! Takes secrets out of what goes into a bundle: values of environment variables, what a key or a flag calls a token or a password, words
//! that look like credentials, and copies of whole objects. Names, labels, images, addresses and events stay: without them a bundle
//! answers nothing. What has no such form cannot be recognized.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use crate::model::labels::{DEFAULTS, SOURCE};

/// What stands where a secret stood.
pub(crate) const REDACTED: &str = "[redacted]";
/// Annotations that repeat an object as its author wrote it, values of variables included.
const COPIES: [&str; 3] =
    ["kubectl.kubernetes.io/last-applied-configuration", "objectset.rio.cattle.io/applied", "banzaicloud.com/last-applied"];
/// Ends of names whose values are secret, without what is no letter or digit.
const SECRET_ENDS: [&str; 11] = [
    "token",
    "password",
    "passwd",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "accountkey",
    "credentials",
    "clientsecret",
    "authorization",
];
/// Fields with variables of an environment.
const ENVIRONMENTS: [&str; 4] = ["env", "envVars", "runtimeEnvYAML", "runtime_env"];

/// Credentials by their shape, values after a key or a flag that says so, and who logs in by an address.
static SECRETS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let shape = r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|nvapi-[\w-]{16,}|AKIA[0-9A-Z]{16}|xox[abprs]-[\w-]{10,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*)";
    let name = r"(?:token|secret|password|passwd|api[_-]?key|access[_-]?key|secret[_-]?key|account[_-]?key|private[_-]?key|credentials?|authorization)";
    let value = r#"(\\?"[^"]*"|'[^']*'|[^\s"',;&}]+)"#;
    // `TOKEN=x`, `token = x`; `"token":"x"`; `token: x`. The tag of an image, `token:1.2`, is none of them.
    let key = format!(r#"(?i)({name}(?:\s*=\s*|\\?["']:\s*|:\s+)){value}"#);
    let flag = format!(r#"(?i)((?:^|\s)--?[\w-]*{name}\s+)("[^"]*"|'[^']*'|[^\s"'-][^\s"']*)"#);
    let bearer = r"(?i)(\b(?:bearer|basic)\s+)[A-Za-z0-9+/_.=-]{8,}";
    let login = r"(?i)(\blogin\s+)[0-9a-f]{40}\b";
    let address = r#"(://)[^/\s@"']+@"#;
    let private = r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)";
    let pairs = [
        (private, REDACTED),
        (shape, REDACTED),
        (bearer, "$1[redacted]"),
        (&key, "$1[redacted]"),
        (&flag, "$1[redacted]"),
        (login, "$1[redacted]"),
        (address, "$1[redacted]@"),
    ];
    pairs.into_iter().map(|(pattern, with)| (Regex::new(pattern).expect("the patterns are valid"), with)).collect()
});

/// A flag whose value is the next word of a command line.
static FLAG: LazyLock<Regex> = LazyLock::new(|| {
    let name = r"(?:token|secret|password|passwd|api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|credentials?)";
    Regex::new(&format!("(?i)^--?[a-z_-]*{name}$")).expect("the pattern is valid")
});

/// Takes secrets out of an object, a list or an answer.
pub(super) fn redact(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(clean) = scrubbed(text) {
                *text = clean;
            }
        }
        Value::Array(items) => {
            let flags: Vec<bool> = items.iter().map(|item| item.as_str().is_some_and(|word| FLAG.is_match(word))).collect();
            items.iter_mut().for_each(redact);
            let after = items.iter_mut().skip(1).zip(flags).filter(|(item, is_flag)| *is_flag && item.is_string());
            after.for_each(|(item, _)| *item = REDACTED.into());
        }
        Value::Object(fields) => redact_fields(fields),
        _ => {}
    }
}

fn redact_fields(fields: &mut Map<String, Value>) {
    if let Some(Value::Object(annotations)) = fields.get_mut("annotations") {
        COPIES.iter().for_each(|copy| {
            annotations.shift_remove(*copy);
        });
        for (key, text) in annotations.iter_mut() {
            redact_written(text, [SOURCE, DEFAULTS].contains(&key.as_str()));
        }
    }
    if let Some(Value::Object(files)) = fields.get_mut("data") {
        files.values_mut().for_each(|file| redact_written(file, false));
    }
    if fields.get("name").and_then(Value::as_str).is_some_and(is_secret)
        && let Some(value @ Value::String(_)) = fields.get_mut("value")
    {
        *value = REDACTED.into();
    }
    for (key, value) in fields.iter_mut() {
        if ENVIRONMENTS.contains(&key.as_str()) {
            hide_variables(value);
        } else if value.is_string() && (is_secret(key) || key.contains(".env.")) {
            *value = REDACTED.into();
        } else {
            redact(value);
        }
    }
}

fn is_secret(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    SECRET_ENDS.iter().any(|end| plain.ends_with(end))
}

/// Hides the values of variables, in the forms of Kubernetes, of our files and of others.
fn hide_variables(variables: &mut Value) {
    match variables {
        Value::Object(map) => map.values_mut().filter(|value| !value.is_object()).for_each(|value| *value = REDACTED.into()),
        Value::Array(list) => {
            for one in list {
                match one {
                    Value::String(text) => {
                        let name = text.split('=').next().unwrap_or_default();
                        *text = format!("{name}={REDACTED}");
                    }
                    other => {
                        if let Some(value) = other.get_mut("value") {
                            *value = REDACTED.into();
                        }
                    }
                }
            }
        }
        Value::String(text) => REDACTED.clone_into(text),
        _ => {}
    }
}

/// Redacts a file that an object carries as text. One that is known to be a file and cannot be read is hidden whole.
fn redact_written(value: &mut Value, is_file: bool) {
    let Value::String(text) = value else { return };
    let read = serde_saphyr::from_str::<Value>(text).ok().filter(|written| written.is_object() || written.is_array());
    let Some(before) = read else {
        if is_file {
            REDACTED.clone_into(text);
        }
        return;
    };
    let mut written = before.clone();
    redact(&mut written);
    // What hides nothing stays as its author wrote it.
    if written != before {
        *text = serde_saphyr::to_string(&written).unwrap_or_else(|_| REDACTED.to_owned());
    }
}

/// Hides what files of ConfigMaps have in them, in a list or a single one; their names stay.
pub(super) fn hide_files(body: &mut Value) {
    let hide = |one: &mut Value| {
        for field in ["data", "binaryData"] {
            if let Some(Value::Object(files)) = one.get_mut(field) {
                files.values_mut().for_each(|file| *file = REDACTED.into());
            }
        }
    };
    match body.get_mut("items") {
        Some(Value::Array(items)) => items.iter_mut().for_each(hide),
        _ => hide(body),
    }
}

/// Returns the text without its secrets; `None` when it has none.
pub(crate) fn scrubbed(text: &str) -> Option<String> {
    let mut clean = Cow::Borrowed(text);
    for (pattern, with) in SECRETS.iter() {
        if pattern.is_match(&clean) {
            clean = pattern.replace_all(&clean, *with).into_owned().into();
        }
    }
    matches!(clean, Cow::Owned(_)).then(|| clean.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn no_secret_stays_and_nothing_else_goes() {
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
        assert!(!text.contains("CANARY") && !text.contains("0123456789"), "{text}");
        assert_eq!(pod["event"], "MountVolume.SetUp failed for volume \"my-secret\" : secret \"hf-token\" not found");
        let container = &pod["spec"]["containers"][0];
        assert_eq!((&container["image"], &container["args"][3]), (&json!("registry/token:1.2"), &json!("3")));
        assert_eq!(container["env"][1]["valueFrom"]["secretKeyRef"], json!({"name": "hf-token", "key": "token"}));
        assert_eq!(
            (&pod["spec"]["imagePullSecrets"][0]["name"], &pod["spec"]["rayStartParams"]["port"]),
            (&json!("login"), &json!("1"))
        );
        let annotations = &pod["metadata"]["annotations"];
        assert_eq!((annotations.as_object().unwrap().len(), &annotations["team"]), (3, &json!("nlp")));
        assert!(annotations["gpuctl/source"].as_str().unwrap().contains("PASSPHRASE: \"[redacted]\""), "{text}");
        assert!(text.contains("--epochs 3") && text.contains("@host/x"), "{text}");
    }

    #[test]
    fn files_of_others_keep_their_names_only() {
        let mut list =
            json!({"items": [{"metadata": {"name": "m"}, "data": {"run.sh": "CANARY"}, "binaryData": {"x": "CANARY"}}]});
        hide_files(&mut list);
        assert_eq!(list["items"][0]["data"], json!({"run.sh": REDACTED}));
        assert!(!list.to_string().contains("CANARY"));
    }
}
