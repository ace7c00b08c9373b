//! Finds values in a YAML tree by field name.

use super::tree::{YamlNode, YamlValue, read};
use gpuctl_core::error::FilePosition;

impl YamlNode {
    /// Returns the value of the first field with this name, at any depth.
    pub(super) fn find(&self, name: &str) -> Option<&Self> {
        let YamlValue::Map(entries) = &self.value else {
            return None;
        };
        let own = entries.iter().find(|entry| entry.key == name);
        own.map(|entry| &entry.value)
            .or_else(|| entries.iter().find_map(|entry| entry.value.find(name)))
    }

    /// Returns the text of a field of this map.
    pub(super) fn text_of(&self, name: &str) -> Option<&str> {
        let YamlValue::Map(entries) = &self.value else {
            return None;
        };
        let entry = entries.iter().find(|entry| entry.key == name)?;
        match &entry.value.value {
            YamlValue::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }
}

/// Finds the position where the document of `job` mentions `object`: as the value of one of
/// `fields`, or in a list below one. `fields` are in lower case, without separators. Returns `None`
/// if the name comes from another source, such as `--set` or the site's defaults.
pub fn reference_position(
    text: &str,
    job: &str,
    fields: &[&str],
    object: &str,
) -> Option<FilePosition> {
    let trees = read(text, &mut Vec::new());
    let is_of_job = |root: &YamlNode| {
        root.find("job")
            .is_some_and(|head| head.text_of("name") == Some(job))
    };
    // With `--name`, the job's name differs from the one in the file, so use the file's only
    // document.
    let root = match trees.as_slice() {
        [tree] => Some(&tree.root),
        trees => trees
            .iter()
            .map(|tree| &tree.root)
            .find(|root| is_of_job(root)),
    };
    position_in(root?, fields, object)
}

fn position_in(node: &YamlNode, fields: &[&str], object: &str) -> Option<FilePosition> {
    let is_object =
        |node: &&YamlNode| matches!(&node.value, YamlValue::Scalar { text, .. } if text == object);
    match &node.value {
        YamlValue::Map(entries) => entries.iter().find_map(|entry| {
            let key: String = entry
                .key
                .chars()
                .filter(char::is_ascii_alphanumeric)
                .map(|c| c.to_ascii_lowercase())
                .collect();
            let items = match &entry.value.value {
                YamlValue::List(items) => items.as_slice(),
                _ => std::slice::from_ref(&entry.value),
            };
            let named = items
                .iter()
                .find(is_object)
                .filter(|_| fields.contains(&key.as_str()));
            named
                .map(|node| node.at)
                .or_else(|| position_in(&entry.value, fields, object))
        }),
        YamlValue::List(items) => items
            .iter()
            .find_map(|item| position_in(item, fields, object)),
        YamlValue::Null | YamlValue::Scalar { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "kind: training
job: {name: a}
environment: {imagePullSecret: [x, pull], env: [{name: T, secret: hub}]}
---
job: {name: b}
environment: {env: [{name: T, secret: hub}]}
storage: {workdirs: [{path: /m, pvc: hub}]}
";

    #[test]
    fn references_are_found_in_the_document_of_their_job() {
        let line = |job: &str, fields: &[&str], object: &str| {
            reference_position(TEXT, job, fields, object).map(|at| at.line)
        };
        assert_eq!(line("a", &["secret"], "hub"), Some(3));
        assert_eq!(line("b", &["secret"], "hub"), Some(6));
        assert_eq!(line("b", &["pvc"], "hub"), Some(7));
        assert_eq!(line("a", &["imagepullsecret"], "pull"), Some(3));
        assert_eq!(line("a", &["pvc"], "hub"), None);
        assert_eq!(line("c", &["pvc"], "hub"), None);
    }
}
