//! Removes the values of environment variables from a document, before agents and other readers get
//! the document.

use super::tree::{YamlNode, YamlValue, read};
use super::{Problem, Severity, overrides};
use gpuctl_core::model::secrets::is_secret_name;

/// Placeholder for a removed value.
const HIDDEN: &str = "[redacted]";
/// Fields that contain variables in manifests of gpuctl, Kubernetes and Ray. In lower case, without
/// separators.
const ENVIRONMENTS: [&str; 4] = ["env", "envvars", "runtimeenv", "runtimeenvyaml"];
/// Fields with secret-looking names whose values are only names or keys.
const NAMES: [&str; 6] = [
    "secret",
    "secretname",
    "imagepullsecret",
    "imagepullsecrets",
    "key",
    "keys",
];

/// Removes comments and the values of variables from a document, and applies `mask` to all other
/// text. Returns `None` if the text cannot be parsed, because its variables cannot be found then.
pub fn without_variables(source: &str, mask: &dyn Fn(&str) -> String) -> Option<String> {
    let mut problems: Vec<Problem> = Vec::new();
    let trees = read(source, &mut problems);
    if trees.is_empty()
        || problems
            .iter()
            .any(|problem| problem.severity == Severity::Error)
    {
        return None;
    }
    let hidden = trees.into_iter().map(|mut tree| {
        hide(&mut tree.root, mask);
        overrides::write(&tree.root)
    });
    Some(hidden.collect::<Vec<_>>().join("---\n"))
}

fn hide(node: &mut YamlNode, mask: &dyn Fn(&str) -> String) {
    match &mut node.value {
        YamlValue::Null => {}
        YamlValue::Scalar { text, .. } => *text = mask(text),
        YamlValue::List(items) => {
            let secrets: Vec<bool> = items.iter().map(announces_a_secret).collect();
            items.iter_mut().for_each(|item| hide(item, mask));
            let hidden = items
                .iter_mut()
                .skip(1)
                .zip(secrets)
                .filter(|(_, is_secret)| *is_secret);
            hidden
                .filter(|(item, _)| !is_flag(item))
                .for_each(|(item, _)| clear(item));
        }
        YamlValue::Map(entries) => {
            for entry in entries {
                let name = plain_name(&entry.key);
                match &entry.value.value {
                    _ if ENVIRONMENTS.contains(&name.as_str()) => variables(&mut entry.value, mask),
                    YamlValue::Scalar { .. }
                        if !NAMES.contains(&name.as_str())
                            && is_secret_name(&entry.key.replace('-', "_")) =>
                    {
                        clear(&mut entry.value);
                    }
                    _ => hide(&mut entry.value, mask),
                }
            }
        }
    }
}

/// Hides the values of variables. They can be a map, a list of maps with `name` and `value`, a list
/// of `NAME=value`, or a single text.
fn variables(node: &mut YamlNode, mask: &dyn Fn(&str) -> String) {
    match &mut node.value {
        YamlValue::Map(entries) => entries
            .iter_mut()
            .for_each(|entry| variable(&mut entry.value, mask)),
        YamlValue::List(items) => {
            for item in items {
                match &mut item.value {
                    YamlValue::Scalar { text, .. } => {
                        let name = text.split('=').next().unwrap_or_default();
                        *text = format!("{name}={HIDDEN}");
                    }
                    _ => variable(item, mask),
                }
            }
        }
        YamlValue::Scalar { .. } => clear(node),
        YamlValue::Null => {}
    }
}

/// Fields of an item in a list of variables.
const SOURCES: [&str; 5] = ["name", "secret", "key", "valuefrom", "value"];

/// Hides the value of one variable, but keeps references to Secrets and ConfigMaps.
fn variable(node: &mut YamlNode, mask: &dyn Fn(&str) -> String) {
    match &mut node.value {
        // Ray nests variables: `runtime_env: {env_vars: {…}}`.
        YamlValue::Map(entries)
            if !entries
                .iter()
                .any(|entry| SOURCES.contains(&plain_name(&entry.key).as_str())) =>
        {
            variables(node, mask);
        }
        YamlValue::Map(entries) => {
            for entry in entries {
                match plain_name(&entry.key).as_str() {
                    "value" => clear(&mut entry.value),
                    _ => hide(&mut entry.value, mask),
                }
            }
        }
        YamlValue::Null => {}
        YamlValue::Scalar { .. } | YamlValue::List(_) => clear(node),
    }
}

fn clear(node: &mut YamlNode) {
    node.value = YamlValue::Scalar {
        text: HIDDEN.to_owned(),
        plain: false,
    };
}

fn plain_name(key: &str) -> String {
    key.chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

fn is_flag(node: &YamlNode) -> bool {
    matches!(&node.value, YamlValue::Scalar { text, .. } if text.starts_with('-'))
}

/// Returns true if the word after `node` in a command is a secret, as after `--token` or `login`.
fn announces_a_secret(node: &YamlNode) -> bool {
    let YamlValue::Scalar { text, .. } = &node.value else {
        return false;
    };
    let flag = text
        .strip_prefix('-')
        .map(|flag| flag.trim_start_matches('-'));
    text == "login"
        || flag.is_some_and(|flag| !flag.contains('=') && is_secret_name(&flag.replace('-', "_")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(environment: &str) -> String {
        let text = format!("kind: training\nenvironment:\n  image: i\n  {environment}\n");
        without_variables(&text, &|text| text.to_owned()).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn every_form_of_variables_is_hidden() {
        for environment in [
            "env: {A: CANARY, B: {secret: hub, key: K}}",
            "env: [{name: A, value: CANARY}, {name: B, secret: hub}]",
            "env: [A=CANARY]",
            "env: {A: [CANARY, CANARY]}",
            "Env: CANARY",
            "env:\n    A: |\n      CANARY\n      CANARY",
            "env:\n    ? A\n    : >-\n      CANARY",
            "env: {A: \"CAN\\u0041RY\"}",
            "name: x # CANARY",
            "command: [wandb, login, CANARY]",
            "command: [wandb, login, --relogin, x, --token, CANARY]",
            "api_token: CANARY",
            "runtime_env: {env_vars: {A: CANARY}}",
            "env: {A: {B: {C: CANARY}}}",
            "pod: {containers: [{name: main, env: [{name: A, value: CANARY}]}]}",
        ] {
            let output = shown(environment);
            assert!(
                !output.contains("CANARY") && output.contains("image: i"),
                "{environment}: {output}"
            );
            assert_eq!(
                output.contains("secret: hub"),
                environment.contains("hub"),
                "{output}"
            );
        }
    }

    #[test]
    fn other_values_stay_as_they_are_written() {
        let output = shown(
            "version: 1.10\n  name: N\n  on: 010\n  imagePullSecret: registry\n  key: nvidia.com/gpu\n  text: 'yes'",
        );
        assert_eq!(
            output,
            "kind: training\nenvironment:\n  image: i\n  version: 1.10\n  name: N\n  on: 010\n  imagePullSecret: registry\n  \
             key: nvidia.com/gpu\n  text: \"yes\"\n"
        );
        assert_eq!(
            without_variables("env: {A: b", &|text| text.to_owned()),
            None
        );
        assert_eq!(without_variables("", &|text| text.to_owned()), None);
    }
}
