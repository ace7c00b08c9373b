//! Renders the output of commands: tables, text, JSON, YAML and CSV.
//!
//! The structs of JSON output are separate from the model, so that changes of the model do not
//! break scripts.
#![warn(unreachable_pub)]
#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod cockpit;
pub mod files;
pub mod format;
pub mod history;
pub mod jobs;
pub mod nodes;
pub mod program;
pub mod queues;
pub mod score;
#[cfg(test)]
mod tests;
pub mod workloads;

use serde::Serialize;

/// The output format of `-o`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Aligned columns for people.
    #[default]
    Table,
    /// Aligned columns for people, including the optional ones.
    Wide,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
    /// One name per line.
    Name,
    /// CSV as in RFC 4180.
    Csv,
}

impl Format {
    /// Returns true if stdout is one document. Messages on stderr are then JSON objects.
    pub fn is_document(self) -> bool {
        matches!(self, Self::Json | Self::Yaml)
    }
}

/// Formatting options for text, determined once from flags, environment variables and the output
/// stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextStyle {
    /// Width of the terminal in columns, or `None` in a pipe, where text is not truncated or
    /// wrapped.
    pub width: Option<usize>,
    /// Whether colors are enabled.
    pub color: bool,
    /// Whether to draw with ASCII characters, such as `#` and `.`, instead of block characters.
    pub plain: bool,
}

/// Serializes `value` as a JSON document.
///
/// # Panics
/// Never: our structs have only string keys.
pub fn json(value: &impl Serialize) -> String {
    let mut text =
        format::text::escaped(serde_json::to_string_pretty(value).expect("our structs are JSON"));
    text.push('\n');
    text
}

/// Serializes `value` as JSON on one line, without a line break.
///
/// # Panics
/// Never: our structs have only string keys.
pub fn json_line(value: &impl Serialize) -> String {
    format::text::escaped(serde_json::to_string(value).expect("our structs are JSON"))
}

/// Serializes `value` as a YAML document.
///
/// # Panics
/// Never: our structs have only string keys.
pub fn yaml(value: &impl Serialize) -> String {
    let text = serde_saphyr::to_string(value).expect("our structs are YAML");
    // Escape via JSON, because the YAML serializer leaves unsafe characters unescaped and unquoted.
    // JSON is valid YAML, and its strings are always quoted.
    match format::text::is_escaped_in(&text) {
        true => format::text::escaped_in_yaml(format!(
            "{}\n",
            serde_json::to_string_pretty(value).expect("our structs are JSON")
        )),
        false => text,
    }
}

/// Serializes a document as JSON or YAML, or returns `None` for other formats.
pub fn document(format: Format, value: &impl Serialize) -> Option<String> {
    match format {
        Format::Json => Some(json(value)),
        Format::Yaml => Some(yaml(value)),
        _ => None,
    }
}
