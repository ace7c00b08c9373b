//! Applies `--set path=value` to a document before the document is read, so that the value gets the
//! same checks as a value in the file.

use super::tree::{self, Entry, YamlNode, YamlValue};
use gpuctl_core::error::{FilePosition, Problem};

/// A new value, and the path of keys to it.
#[derive(Clone, Debug)]
pub struct Override {
    path: Vec<String>,
    value: YamlValue,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOverride {
    #[error("expected a field and its value, such as resources.gpu=4")]
    NoValue,
    #[error("expected a field path, such as resources.gpu, before the `=`")]
    Path,
    #[error("{0}")]
    Value(String),
}

impl Override {
    /// Parses an override such as `resources.gpu=4`. The value is YAML. A path cannot contain a key
    /// with a dot.
    pub fn parse(text: &str) -> Result<Self, InvalidOverride> {
        let (path, value) = text.split_once('=').ok_or(InvalidOverride::NoValue)?;
        let path: Vec<String> = path.trim().split('.').map(ToOwned::to_owned).collect();
        if path
            .iter()
            .any(|part| part.is_empty() || part.contains(char::is_whitespace))
        {
            return Err(InvalidOverride::Path);
        }
        let mut problems = Vec::new();
        let trees = tree::read(value, &mut problems);
        if let Some(problem) = problems.first() {
            return Err(InvalidOverride::Value(problem.message.clone()));
        }
        let value = trees
            .into_iter()
            .next()
            .map_or(YamlValue::Null, |tree| tree.root.value);
        Ok(Self { path, value })
    }

    /// Builds an override to the text `text`, even if the text looks like a number or a boolean.
    pub fn text(path: &[&str], text: &str) -> Self {
        let path = path.iter().map(ToString::to_string).collect();
        Self {
            path,
            value: YamlValue::Scalar {
                text: text.to_owned(),
                plain: false,
            },
        }
    }
}

pub(super) fn apply(root: &mut YamlNode, overrides: &[Override], problems: &mut Vec<Problem>) {
    for change in overrides {
        if let Err(dead_end) = set_value(root, &change.path, &change.value, true) {
            let message = format!("`--set {}`: {dead_end}", change.path.join("."));
            let hint = match dead_end {
                DeadEnd::NoFields(_) => "specify a field of the document",
                DeadEnd::NoEntry { .. } => "entries are numbered from 0",
            };
            problems.push(Problem::error(FilePosition::default(), message, hint));
        }
    }
}

/// Reason why a path does not lead to a value.
#[derive(Debug, thiserror::Error)]
enum DeadEnd<'p> {
    #[error("`{0}` is inside a value that has no fields")]
    NoFields(&'p str),
    #[error("there is no entry `{index}`, because the list has {entries}")]
    NoEntry { index: &'p str, entries: usize },
}

/// Fields whose keys are the user's. Keys below these fields must match exactly. In other fields,
/// case, `-` and `_` are ignored.
const THEIR_OWN: [&str; 7] = [
    "env",
    "labels",
    "annotations",
    "files",
    "pod",
    "nodes",
    "namespace",
];

fn set_value<'p>(
    node: &mut YamlNode,
    path: &'p [String],
    value: &YamlValue,
    ours: bool,
) -> Result<(), DeadEnd<'p>> {
    let Some((key, rest)) = path.split_first() else {
        *node = without_position(value.clone());
        return Ok(());
    };
    if matches!(node.value, YamlValue::Null) {
        *node = without_position(YamlValue::Map(Vec::new()));
    }
    match &mut node.value {
        YamlValue::Map(entries) => {
            let exact = entries.iter().position(|entry| entry.key == *key);
            let other_spelling = || {
                entries
                    .iter()
                    .position(|entry| ours && plain(&entry.key) == plain(key))
            };
            let index = exact.or_else(other_spelling).unwrap_or_else(|| {
                entries.push(Entry {
                    key: key.clone(),
                    key_at: FilePosition::default(),
                    value: without_position(YamlValue::Null),
                });
                entries.len() - 1
            });
            set_value(
                &mut entries[index].value,
                rest,
                value,
                ours && !THEIR_OWN.contains(&key.as_str()),
            )
        }
        YamlValue::List(items) => {
            if let Some(item) = key
                .parse::<usize>()
                .ok()
                .and_then(|index| items.get_mut(index))
            {
                return set_value(item, rest, value, ours);
            }
            // If `env` is a list, `environment.env.LR=0.1` refers to an item by its `name`.
            let has_name = |item: &YamlNode| matches!(field(item, "name"), Some(YamlValue::Scalar { text, .. }) if text == key);
            let named = items.iter().position(has_name);
            // A number that matches no name is an index out of range. Do not add an entry with this
            // name.
            if named.is_none() && key.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(DeadEnd::NoEntry {
                    index: key,
                    entries: items.len(),
                });
            }
            let index = named.unwrap_or_else(|| {
                let name = YamlValue::Scalar {
                    text: key.clone(),
                    plain: false,
                };
                let entry = Entry {
                    key: "name".to_owned(),
                    key_at: FilePosition::default(),
                    value: without_position(name),
                };
                items.push(without_position(YamlValue::Map(vec![entry])));
                items.len() - 1
            });
            match rest {
                [] => set_value(&mut items[index], &["value".to_owned()], value, ours)
                    .map_err(|_| DeadEnd::NoFields(key)),
                rest => set_value(&mut items[index], rest, value, ours),
            }
        }
        YamlValue::Scalar { .. } | YamlValue::Null => Err(DeadEnd::NoFields(key)),
    }
}

fn without_position(value: YamlValue) -> YamlNode {
    YamlNode {
        at: FilePosition::default(),
        value,
    }
}

/// Normalizes a key, so that `gpu_type`, `gpu-type` and `gpuType` are equal.
fn plain(key: &str) -> String {
    key.chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

fn field<'n>(node: &'n YamlNode, key: &str) -> Option<&'n YamlValue> {
    let YamlValue::Map(entries) = &node.value else {
        return None;
    };
    entries
        .iter()
        .find(|entry| entry.key == key)
        .map(|entry| &entry.value.value)
}

/// Writes the document as YAML without comments. gpuctl stores this text with the job.
pub(super) fn write(root: &YamlNode) -> String {
    let mut text = String::new();
    block(root, 0, &mut text);
    text
}

fn block(node: &YamlNode, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    match &node.value {
        YamlValue::Map(entries) if !entries.is_empty() => {
            for entry in entries {
                text.push_str(&format!("{indent}{}:", quoted(&entry.key, true)));
                nested(&entry.value, depth, text);
            }
        }
        YamlValue::List(items) if !items.is_empty() => {
            for item in items {
                text.push_str(&format!("{indent}-"));
                nested(item, depth, text);
            }
        }
        _ => text.push_str(&format!("{indent}{}\n", inline(node))),
    }
}

fn nested(node: &YamlNode, depth: usize, text: &mut String) {
    match &node.value {
        YamlValue::Map(entries) if !entries.is_empty() => {
            text.push('\n');
            block(node, depth + 1, text);
        }
        YamlValue::List(items) if !items.is_empty() => {
            text.push('\n');
            block(node, depth + 1, text);
        }
        _ => text.push_str(&format!(" {}\n", inline(node))),
    }
}

fn inline(node: &YamlNode) -> String {
    match &node.value {
        YamlValue::Null => "null".to_owned(),
        YamlValue::Scalar { text, plain } => quoted(text, *plain),
        YamlValue::List(_) => "[]".to_owned(),
        YamlValue::Map(_) => "{}".to_owned(),
    }
}

/// Writes text without quotes if `plain` and the syntax allow that, and otherwise as a JSON string,
/// which is valid YAML.
fn quoted(text: &str, plain: bool) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    let word = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/')
        && text.chars().all(is_plain);
    if plain && word {
        text.to_owned()
    } else {
        serde_json::Value::from(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(text: &str, sets: &[&str]) -> String {
        let mut problems = Vec::new();
        let mut root = tree::read(text, &mut problems).remove(0).root;
        let overrides: Vec<Override> = sets
            .iter()
            .map(|set| Override::parse(set).unwrap())
            .collect();
        apply(&mut root, &overrides, &mut problems);
        assert!(problems.is_empty(), "{problems:?}");
        write(&root)
    }

    #[test]
    fn fields_are_found_in_any_spelling_and_added_if_missing() {
        let text = "resources:\n  gpu: 1\n  gpuType: a10\n";
        assert_eq!(
            changed(text, &["resources.gpu=4"]),
            "resources:\n  gpu: 4\n  gpuType: a10\n"
        );
        assert_eq!(
            changed(text, &["resources.gpu-type=h100"]),
            "resources:\n  gpu: 1\n  gpuType: h100\n"
        );
        assert_eq!(
            changed(text, &["job.name=x"]),
            "resources:\n  gpu: 1\n  gpuType: a10\njob:\n  name: x\n"
        );
        assert_eq!(
            changed("a: [1, 2]", &["a.1=3", "b=[x, \"5\"]"]),
            "a:\n  - 1\n  - 3\nb:\n  - x\n  - \"5\"\n"
        );
        assert_eq!(
            changed("env: {http_proxy: a}", &["env.HTTP_PROXY=b"]),
            "env:\n  http_proxy: a\n  HTTP_PROXY: b\n"
        );
        let env = "env: [{name: A, value: \"1\"}]";
        assert_eq!(
            changed(env, &["env.A=2", "env.B=c d"]),
            "env:\n  -\n    name: A\n    value: 2\n  -\n    name: \"B\"\n    value: \"c d\"\n"
        );
    }

    #[test]
    fn settings_that_cannot_be_changed_are_errors() {
        assert!(
            Override::parse("gpu").is_err()
                && Override::parse("a..b=1").is_err()
                && Override::parse("a=[1").is_err()
        );
        for (set, message) in [
            (
                "a.b=1",
                "`--set a.b`: `b` is inside a value that has no fields",
            ),
            (
                "env.7.secret=x",
                "`--set env.7.secret`: there is no entry `7`, because the list has 2",
            ),
            (
                "env.2=x",
                "`--set env.2`: there is no entry `2`, because the list has 2",
            ),
            (
                "empty.0=x",
                "`--set empty.0`: there is no entry `0`, because the list has 0",
            ),
        ] {
            let text = "a: 1\nenv: [{name: A}, {name: B}]\nempty: []\n";
            let mut problems = Vec::new();
            let mut root = tree::read(text, &mut problems).remove(0).root;
            let source = write(&root);
            apply(&mut root, &[Override::parse(set).unwrap()], &mut problems);
            assert_eq!(problems[0].message, message);
            assert_eq!(write(&root), source, "{set} changes nothing");
        }
        let numbered = "env: [{name: \"7\", value: a}]";
        assert_eq!(
            changed(numbered, &["env.7=b"]),
            "env:\n  -\n    name: \"7\"\n    value: b\n"
        );
    }

    #[test]
    fn written_text_reads_as_the_same_values() {
        let text = "a: \"1\"\nb: 1.10\nc: yes please\nd: |\n  two\n  lines\ne: [{f: null}, {}, []]\n\"g h\": 'true'\nt: true\n";
        let mut problems = Vec::new();
        let root = tree::read(text, &mut problems).remove(0).root;
        let reread = tree::read(&write(&root), &mut problems).remove(0).root;
        assert_eq!(reread.to_json(), root.to_json());
        assert!(write(&root).contains("b: 1.10\n") && problems.is_empty());
    }
}
