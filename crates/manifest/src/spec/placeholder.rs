//! Resolves placeholders such as `{{model.name}}` in one pass. A value that contains another
//! placeholder is an error, so resolution cannot loop.

use super::tree::{YamlNode, YamlValue};
use gpuctl_core::error::Problem;

/// Replaces all placeholders in the scalars below `root`.
pub(super) fn resolve(root: &mut YamlNode, problems: &mut Vec<Problem>) {
    let values = root.clone();
    walk(root, &values, problems);
}

fn walk(node: &mut YamlNode, values: &YamlNode, problems: &mut Vec<Problem>) {
    match &mut node.value {
        YamlValue::Null => {}
        YamlValue::List(items) => items
            .iter_mut()
            .for_each(|item| walk(item, values, problems)),
        YamlValue::Map(entries) => entries
            .iter_mut()
            .for_each(|entry| walk(&mut entry.value, values, problems)),
        YamlValue::Scalar { text, .. } => {
            if let Some(replaced) = replace(text, values).unwrap_or_else(|Unresolved(path)| {
                let note =
                    "use a field of this document that contains text, such as {{model.name}}";
                problems.push(Problem::error(
                    node.at,
                    format!("`{{{{{path}}}}}` cannot be resolved"),
                    note,
                ));
                None
            }) {
                *text = replaced;
            }
        }
    }
}

/// A path that does not lead to text in the document.
#[derive(Debug)]
struct Unresolved(String);

/// Replaces the placeholders of a text. Returns `None` if it has none.
fn replace(text: &str, values: &YamlNode) -> Result<Option<String>, Unresolved> {
    let mut rest = text;
    let mut result = String::new();
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((expression, tail)) = after.split_once("}}") else {
            break;
        };
        let path = expression.trim();
        result.push_str(before);
        if is_path(path) {
            let value = lookup(values, path)
                .filter(|value| !value.contains("{{"))
                .ok_or_else(|| Unresolved(path.to_owned()))?;
            result.push_str(value);
        } else {
            result.push_str("{{");
            result.push_str(expression);
            result.push_str("}}");
        }
        rest = tail;
    }
    result.push_str(rest);
    Ok((result != text).then_some(result))
}

/// Returns true if braces contain a path. Other templates, such as `{{ x | upper }}` or `{{#if}}`,
/// are left to the job's program.
fn is_path(text: &str) -> bool {
    text.contains('.')
        && text.split('.').all(|part| {
            part.starts_with(|c: char| c.is_ascii_alphabetic())
                && part
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
        })
}

fn lookup<'t>(mut node: &'t YamlNode, path: &str) -> Option<&'t str> {
    for part in path.split('.') {
        let YamlValue::Map(entries) = &node.value else {
            return None;
        };
        node = &entries.iter().find(|entry| entry.key == part)?.value;
    }
    match &node.value {
        YamlValue::Scalar { text, .. } => Some(text),
        _ => None,
    }
}
