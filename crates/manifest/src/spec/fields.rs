//! Reads a YAML tree field by field. Suggests the nearest known field for an unknown key, and names
//! the expected type for a wrong value. Continues after a problem, so that all problems are
//! reported.

use gpuctl_core::model::GpuType;

use super::other_names;
use super::reference;
use super::shape::{Field, Shape, spellings};
use super::tree::{Entry, YamlNode, YamlValue};
use gpuctl_core::error::{FilePosition, Problem};

/// A value with its position in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located<T> {
    pub value: T,
    pub at: FilePosition,
}

/// A GPU type, with its spelling in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenGpuType {
    /// The text in the file.
    pub text: String,
    pub kind: GpuType,
}

/// Collects problems while a document is read.
#[derive(Debug, Default)]
pub(super) struct Reader {
    pub problems: Vec<Problem>,
}

/// Unread entries of a map. Readers take them one by one, and `finish` reports the rest as unknown.
#[derive(Debug)]
pub(super) struct Fields<'t> {
    /// Path of the map, such as `resources`. Empty for the document itself.
    path: &'static str,
    /// Fields that the map may have, with their spellings.
    table: &'static [Field],
    entries: Vec<&'t Entry>,
    known: Vec<&'static str>,
    pub at: FilePosition,
}

impl<'t> Fields<'t> {
    /// Removes a field in any of its spellings. `name` is its canonical name. Reports a field that
    /// occurs twice.
    pub(super) fn take(&mut self, reader: &mut Reader, name: &'static str) -> Option<&'t YamlNode> {
        let names = spellings(self.table, name);
        debug_assert!(
            name == "kind" || !names.is_empty(),
            "the table of `{}` has no `{name}`",
            self.path
        );
        self.known.push(name);
        let mut found: Option<&Entry> = None;
        self.entries.retain(|entry| {
            if entry.key != name && !names.contains(&entry.key.as_str()) {
                return true;
            }
            if let Some(first) = found {
                reader.problems.push(Problem::error(
                    entry.key_at,
                    format!(
                        "`{}` and `{}` (line {}) are the same field",
                        entry.key, first.key, first.key_at.line
                    ),
                    "keep one of them",
                ));
            } else {
                found = Some(entry);
            }
            false
        });
        // An empty field such as `queue:` counts as missing.
        found
            .or_else(|| self.take_misspelled(reader, name))
            .map(|entry| &entry.value)
            .filter(|node| !matches!(node.value, YamlValue::Null))
    }

    /// Removes the unknown field that is most similar to `name`, and reports it. Its value is read
    /// as if the name were correct, so that a typing mistake causes only one problem.
    fn take_misspelled(&mut self, reader: &mut Reader, name: &str) -> Option<&'t Entry> {
        let names = spellings(self.table, name);
        let all: Vec<&str> = self
            .table
            .iter()
            .flat_map(|field| field.names)
            .copied()
            .collect();
        let resembles = |entry: &&Entry| {
            !all.contains(&entry.key.as_str())
                && self.advice_against(&entry.key, name).is_none()
                && nearest(&entry.key, &all).is_some_and(|near| names.contains(&near))
        };
        let index = self.entries.iter().position(resembles)?;
        let entry = self.entries.remove(index);
        reader.problems.push(Problem::error(
            entry.key_at,
            format!("unknown field `{}`", self.full_path(&entry.key)),
            format!("did you mean `{name}`?"),
        ));
        Some(entry)
    }

    /// Removes a required field, and reports it if it is missing.
    pub(super) fn need(
        &mut self,
        reader: &mut Reader,
        name: &'static str,
        note: &str,
    ) -> Option<&'t YamlNode> {
        let value = self.take(reader, name);
        if value.is_none() {
            reader.problems.push(Problem::error(
                self.at,
                format!("`{}` is missing", self.full_path(name)),
                note,
            ));
        }
        value
    }

    /// Removes a field that does not apply to this kind, and reports it.
    pub(super) fn refuse(
        &mut self,
        reader: &mut Reader,
        name: &'static str,
        message: &str,
        note: &str,
    ) {
        self.entries.retain(|entry| {
            if entry.key == name {
                reader
                    .problems
                    .push(Problem::error(entry.key_at, message, note));
            }
            entry.key != name
        });
    }

    /// Returns the position of a field that has not been taken yet.
    pub(super) fn position_of(&self, name: &str) -> Option<FilePosition> {
        self.entries
            .iter()
            .find(|entry| entry.key == name)
            .map(|entry| entry.key_at)
    }

    /// Reports every entry that has not been taken as unknown.
    pub(super) fn finish(self, reader: &mut Reader) {
        for entry in &self.entries {
            let nearest = nearest(&entry.key, &self.known);
            let advice = self.advice_against(&entry.key, nearest.unwrap_or_default());
            let note = match (advice, self.other_block(&entry.key), nearest) {
                (Some(advice), ..) => advice.to_owned(),
                (None, Some(place), _) => place,
                (None, None, Some(name)) => format!("did you mean `{name}`?"),
                (None, None, None) => format!("known fields: {}", self.known.join(", ")),
            };
            reader.problems.push(Problem::error(
                entry.key_at,
                format!("unknown field `{}`", self.full_path(&entry.key)),
                note,
            ));
        }
    }

    /// Returns advice for a field of another tool, unless it means the similar field `name`. For
    /// example, `timeout` is not a misspelled `hang_timeout`.
    fn advice_against(&self, key: &str, name: &str) -> Option<&'static str> {
        other_names::field_advice(key)
            .filter(|_| self.is_in_job())
            .filter(|advice| name.is_empty() || !advice.contains(&format!(".{name}`")))
    }

    /// Returns true for the top level of a job's document, and for its blocks.
    fn is_in_job(&self) -> bool {
        self.path.is_empty() && has_same_names(self.table, reference::DOCUMENT)
            || reference::DOCUMENT.iter().any(|field| {
                matches!(field.shape, Shape::Block(table) if has_same_names(self.table, table))
            })
    }

    /// Returns the block of a job's document where the field `key` belongs.
    fn other_block(&self, key: &str) -> Option<String> {
        let has = |table: &[Field]| table.iter().any(|field| field.names.contains(&key));
        if !self.is_in_job() {
            return None;
        }
        let block = reference::DOCUMENT.iter().find(|field| {
            matches!(field.shape, Shape::Block(table) if has(table)) && field.name() != self.path
        });
        match block {
            Some(block) => Some(format!("it belongs in `{}:`", block.name())),
            None if !self.path.is_empty() && has(reference::DOCUMENT) => Some(format!(
                "`{key}:` belongs at the top level, next to `{}:`",
                self.path
            )),
            None => None,
        }
    }

    fn full_path(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }
}

/// Shows how to write a block of a job's document. Returns an empty string for other maps.
fn block_sample(path: &str) -> String {
    let blocks = reference::DOCUMENT
        .iter()
        .filter(|block| block.name() == path);
    let first_field = blocks.into_iter().find_map(|block| match block.shape {
        Shape::Block(table) => table.first(),
        _ => None,
    });
    first_field.map_or_else(String::new, |field| {
        format!("such as `{path}: {{{}: {}}}`", field.name(), field.sample)
    })
}

fn has_same_names(table: &[Field], other: &[Field]) -> bool {
    let names = |table: &[Field]| -> Vec<&'static str> { table.iter().map(Field::name).collect() };
    names(table) == names(other)
}

/// Finds the known word that `word` probably misspells. The edit distance is at most a third of its
/// length.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '_'], "");
    let word = plain(word);
    let scored = known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&word, &plain(name)), *name));
    scored
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, name)| *distance <= (name.len() / 3).max(1))
        .map(|(_, name)| name)
}

impl Reader {
    pub(super) fn wrong_type(&mut self, node: &YamlNode, name: &str, expected: &str) {
        self.wrong_type_with(node, name, expected, "");
    }

    /// Like `wrong_type`, with an example of a valid value.
    pub(super) fn wrong_type_with(
        &mut self,
        node: &YamlNode,
        name: &str,
        expected: &str,
        note: &str,
    ) {
        let found = match &node.value {
            YamlValue::Scalar { text, .. } if text.len() <= 40 => format!("`{text}`"),
            _ => node.description().to_owned(),
        };
        self.problems.push(Problem::error(
            node.at,
            format!("`{name}` must be {expected}, not {found}"),
            note,
        ));
    }

    /// Reads a map with these fields.
    pub(super) fn map<'t>(
        &mut self,
        node: &'t YamlNode,
        path: &'static str,
        table: &'static [Field],
    ) -> Option<Fields<'t>> {
        match &node.value {
            YamlValue::Map(entries) => Some(Fields {
                path,
                table,
                entries: entries.iter().collect(),
                known: Vec::new(),
                at: node.at,
            }),
            _ => {
                let name = if path.is_empty() {
                    "the document"
                } else {
                    path
                };
                self.wrong_type_with(node, name, "a map of fields", &block_sample(path));
                None
            }
        }
    }

    pub(super) fn list<'t>(&mut self, node: &'t YamlNode, name: &str) -> Vec<&'t YamlNode> {
        match &node.value {
            YamlValue::List(items) => items.iter().collect(),
            _ => {
                self.wrong_type_with(node, name, "a list", "begin each entry with `- `");
                Vec::new()
            }
        }
    }

    /// Reads a list; a single value counts as a list of one.
    pub(super) fn list_or_one<'t>(&mut self, node: &'t YamlNode) -> Vec<&'t YamlNode> {
        match &node.value {
            YamlValue::List(items) => items.iter().collect(),
            _ => vec![node],
        }
    }

    pub(super) fn texts(&mut self, node: &YamlNode, name: &str) -> Vec<String> {
        self.list(node, name)
            .into_iter()
            .filter_map(|item| Some(self.text(item, name)?.value))
            .collect()
    }

    /// Reads a map of text to text.
    pub(super) fn text_map(
        &mut self,
        node: &YamlNode,
        name: &'static str,
    ) -> Vec<(Located<String>, Located<String>)> {
        let Some(fields) = self.map(node, name, &[]) else {
            return Vec::new();
        };
        let pair = |entry: &&Entry| {
            let key = Located {
                value: entry.key.clone(),
                at: entry.key_at,
            };
            match &entry.value.value {
                YamlValue::Null => Some((
                    key,
                    Located {
                        value: String::new(),
                        at: entry.value.at,
                    },
                )),
                _ => Some((key, self.text(&entry.value, name)?)),
            }
        };
        fields.entries.iter().filter_map(pair).collect()
    }
}
