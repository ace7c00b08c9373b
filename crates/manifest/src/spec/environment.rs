//! Reads the `environment:` and `model:` blocks.

use super::document::{Command, Model};
use super::fields::{Fields, Located, Reader};
use super::reference;
use super::secrets;
use super::storage;
use super::tree::{YamlNode, YamlValue};
use super::values::{EnvValue, EnvVariable};
use gpuctl_core::error::{FilePosition, Problem};

#[derive(Debug, Default)]
pub(super) struct ContainerEnvironment {
    pub image: String,
    pub image_pull_secrets: Vec<String>,
    pub image_pull_policy: Option<&'static str>,
    pub command: Command,
    pub args: Command,
    pub env: Vec<EnvVariable>,
    pub working_dir: Option<String>,
}

pub(super) fn environment(
    reader: &mut Reader,
    document: &mut Fields<'_>,
) -> Option<ContainerEnvironment> {
    let node = document.need(reader, "environment", "it needs at least `image:`")?;
    let mut fields = reader.map(node, "environment", reference::ENVIRONMENT)?;
    let image = fields
        .need(reader, "image", "the container image to run")
        .and_then(|node| reader.text(node, "image"));
    if let Some(image) = image
        .as_ref()
        .filter(|image| image.value.is_empty() || image.value.contains(char::is_whitespace))
    {
        reader.problems.push(Problem::error(
            image.at,
            format!("`{}` is not a valid image reference", image.value),
            "use a reference such as pytorch/pytorch:2.9.0",
        ));
    }
    let (image_pull_secrets, image_pull_policy) = pulling(reader, &mut fields);
    let mut command = |reader: &mut Reader, name| {
        fields
            .take(reader, name)
            .map_or(Command::Image, |node| read_command(reader, node, name))
    };
    let (command, args) = (command(reader, "command"), command(reader, "args"));
    fields.refuse(
        reader,
        "envFrom",
        "`environment.envFrom` is not supported",
        "write an entry of `env` for each key: `- {name: KEY, secret: NAME}`",
    );
    let env = fields
        .take(reader, "env")
        .map_or_else(Vec::new, |node| variables(reader, node));
    let working_dir = fields
        .take(reader, "workingDir")
        .and_then(|node| reader.text(node, "workingDir"));
    fields.finish(reader);
    Some(ContainerEnvironment {
        image: image?.value,
        image_pull_secrets,
        image_pull_policy,
        command,
        args,
        env,
        working_dir: working_dir.map(|dir| dir.value),
    })
}

/// Reads `imagePullSecret` and `imagePullPolicy`.
pub(super) fn pulling(
    reader: &mut Reader,
    fields: &mut Fields<'_>,
) -> (Vec<String>, Option<&'static str>) {
    let secrets = fields
        .take(reader, "imagePullSecret")
        .map_or_else(Vec::new, |node| {
            let items = reader.list_or_one(node);
            items
                .into_iter()
                .filter_map(|item| Some(reader.object_name(item, "imagePullSecret")?.value))
                .collect()
        });
    let policy = fields.take(reader, "imagePullPolicy").and_then(|node| {
        reader.word(
            node,
            "imagePullPolicy",
            &["Always", "IfNotPresent", "Never"],
        )
    });
    (secrets, policy)
}

fn read_command(reader: &mut Reader, node: &YamlNode, name: &str) -> Command {
    let command = match &node.value {
        YamlValue::Scalar { text, .. } => Command::Shell(text.clone()),
        _ => Some(reader.texts(node, name))
            .filter(|words| !words.is_empty())
            .map_or(Command::Image, Command::Exec),
    };
    if secrets::has_mask(&command) {
        let message = format!(
            "a secret in `{name}` was masked when this file was printed, and its value is lost"
        );
        let note = "write the value, or read it from a variable with `secret:` and `key:` in `env`";
        reader.problems.push(Problem::error(node.at, message, note));
    }
    command
}

/// Reads one entry of a list of variables.
fn listed_variable(reader: &mut Reader, item: &YamlNode) -> Option<(Located<String>, EnvValue)> {
    if let YamlValue::Scalar { text, .. } = &item.value {
        reader.problems.push(variable_in_one_word(text, item.at));
        return None;
    }
    let mut fields = reader.map(item, "env", reference::VARIABLE)?;
    for name in KUBERNETES_SOURCES {
        fields.refuse(
            reader,
            name,
            &format!("`env.{name}` is a field of Kubernetes"),
            &reference_note(item, None),
        );
    }
    let name = fields.need(
        reader,
        "name",
        "each entry needs `name:` and one of `value:`, `secret:` and `configmap:`",
    );
    let name = name.and_then(|node| reader.text(node, "name"));
    let mut text = |reader: &mut Reader, name: &'static str| {
        fields
            .take(reader, name)
            .and_then(|node| reader.text(node, name))
            .map(|text| text.value)
    };
    let value = text(reader, "value");
    let (secret, configmap) = (text(reader, "secret"), text(reader, "configmap"));
    let key = text(reader, "key");
    let at = fields.at;
    fields.finish(reader);
    let name = name?;
    let key = || key.clone().unwrap_or_else(|| name.value.clone());
    let value = match (value, secret, configmap) {
        (Some(value), None, None) => EnvValue::Text(value),
        (None, Some(secret), None) => EnvValue::Secret {
            name: secret,
            key: key(),
        },
        (None, None, Some(map)) => EnvValue::ConfigMap {
            name: map,
            key: key(),
        },
        (None, None, None) => EnvValue::Text(String::new()),
        _ => {
            let message = format!(
                "`{}` has more than one of `value`, `secret` and `configmap`",
                name.value
            );
            reader
                .problems
                .push(Problem::error(at, message, "keep one of them"));
            return None;
        }
    };
    Some((name, value))
}

/// Kubernetes' fields for a variable whose value comes from another object.
const KUBERNETES_SOURCES: [&str; 3] = ["valueFrom", "secretKeyRef", "configMapKeyRef"];

/// Explains a list entry such as `HF_TOKEN=abc`. The message omits the value, which may be a
/// secret.
fn variable_in_one_word(text: &str, at: FilePosition) -> Problem {
    let name = text.split_once('=').map_or(text, |(name, _)| name).trim();
    let message = if text.contains('=') {
        format!("an entry of `env` must have `name:` and `value:`, not `{name}=…`")
    } else {
        format!("an entry of `env` must have `name:` and `value:`, not only `{name}`")
    };
    let note = format!("write `- {{name: {name}, value: …}}`, or a map: `env: {{{name}: …}}`");
    Problem::error(at, message, note)
}

/// Suggests gpuctl's syntax for a variable in Kubernetes' syntax, such as `secretKeyRef`.
fn reference_note(node: &YamlNode, name: Option<&str>) -> String {
    let source = KUBERNETES_SOURCES[1..].iter().find_map(|field| {
        let kind = if *field == "secretKeyRef" {
            "secret"
        } else {
            "configmap"
        };
        Some((kind, node.find(field)?))
    });
    let Some((kind, reference)) = source else {
        return "a value can come from `secret:` or `configmap:`, with `key:`".to_owned();
    };
    let object = reference.text_of("name").unwrap_or("NAME");
    let key = reference.text_of("key").unwrap_or("KEY");
    match name {
        Some(name) => {
            format!("write `env` as a list: `- {{name: {name}, {kind}: {object}, key: {key}}}`")
        }
        None => format!("write `{kind}: {object}` and `key: {key}` instead"),
    }
}

/// Explains that a variable in the map form cannot have a map or a list as its value.
fn nested_variable(name: &str, value: &YamlNode) -> Problem {
    let message = format!(
        "the variable `{name}` must be text, not {}",
        value.description()
    );
    let own_form = ["secret", "configmap"]
        .into_iter()
        .find_map(|kind| Some((kind, value.text_of(kind)?)));
    let note = match own_form {
        Some((kind, object)) => {
            let key = value.text_of("key").unwrap_or(name);
            format!("write `env` as a list: `- {{name: {name}, {kind}: {object}, key: {key}}}`")
        }
        None if matches!(value.value, YamlValue::Map(_)) => reference_note(value, Some(name)),
        None => "quote the value".to_owned(),
    };
    Problem::error(value.at, message, note)
}

pub(super) fn variables(reader: &mut Reader, node: &YamlNode) -> Vec<EnvVariable> {
    let mut variables: Vec<EnvVariable> = Vec::new();
    let mut add = |reader: &mut Reader, at, name: String, value| {
        if matches!(&value, EnvValue::Text(text) if secrets::is_mask(text)) {
            let message =
                format!("the value of `{name}` was masked when this file was printed, and is lost");
            let note = format!(
                "use `--set environment.env.{name}=VALUE`, or `secret:` and `key:` instead of `value:`"
            );
            reader.problems.push(Problem::error(at, message, note));
        } else if name.is_empty() || name.contains('=') || name.contains(char::is_control) {
            reader.problems.push(Problem::error(
                at,
                format!("`{name}` is not a valid variable name"),
                "",
            ));
        } else if variables.iter().any(|other| other.name == name) {
            reader.problems.push(Problem::error(
                at,
                format!("the variable `{name}` is set twice"),
                "keep one of them",
            ));
        } else {
            variables.push(EnvVariable { name, value });
        }
    };
    if let YamlValue::Map(entries) = &node.value {
        for entry in entries {
            let text = match &entry.value.value {
                YamlValue::Null => String::new(),
                YamlValue::Scalar { text, .. } => text.clone(),
                YamlValue::List(_) | YamlValue::Map(_) => {
                    let problem = nested_variable(&entry.key, &entry.value);
                    reader.problems.push(problem);
                    continue;
                }
            };
            add(
                reader,
                entry.key_at,
                entry.key.clone(),
                EnvValue::Text(text),
            );
        }
        return variables;
    }
    if let YamlValue::Scalar { text, .. } = &node.value {
        reader.problems.push(variable_in_one_word(text, node.at));
        return variables;
    }
    for item in reader.list(node, "env") {
        let Some((name, value)) = listed_variable(reader, item) else {
            continue;
        };
        add(reader, name.at, name.value, value);
    }
    variables
}

pub(super) fn model(reader: &mut Reader, document: &mut Fields<'_>) -> Option<Model> {
    let node = document.take(reader, "model")?;
    let mut fields = reader.map(node, "model", reference::MODEL)?;
    let mut text = |reader: &mut Reader, name| {
        fields
            .take(reader, name)
            .and_then(|node| reader.text(node, name))
            .map(|text| text.value)
    };
    let (source, name, version) = (
        text(reader, "source"),
        text(reader, "name"),
        text(reader, "version"),
    );
    let format = text(reader, "format");
    // An absolute path is a host path and is mounted. Any other value is a name on a model hub,
    // which is only passed to the program.
    let path = fields
        .take(reader, "path")
        .and_then(|node| reader.text(node, "path"))
        .and_then(|path| {
            if !path.value.starts_with('/') {
                return Some(path.value);
            }
            let absolute = storage::absolute(reader, &path.value, path.at)?;
            storage::host_path(reader, &absolute, path.at).map(|()| absolute)
        });
    let cache = fields
        .take(reader, "cache")
        .and_then(|node| reader.boolean(node, "cache"))
        .unwrap_or(false);
    fields.finish(reader);
    Some(Model {
        source,
        name,
        version,
        format,
        cache,
        path,
    })
}
