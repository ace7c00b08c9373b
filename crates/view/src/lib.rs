//! How an answer looks: tables, text, JSON, YAML, CSV. JSON structs are separate from the model, so
//! that an internal change breaks no script.
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

/// What `-o` asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Columns for people.
    #[default]
    Table,
    /// Columns for people, all of them.
    Wide,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
    /// A name a line.
    Name,
    /// RFC 4180.
    Csv,
}

impl Format {
    /// Returns true where stdout is one document and talk on stderr is objects.
    pub fn is_document(self) -> bool {
        matches!(self, Self::Json | Self::Yaml)
    }
}

/// How text for people may look: decided once from flags, environment and the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextStyle {
    /// Columns of the terminal; `None` in a pipe, where nothing is cut or wrapped.
    pub width: Option<usize>,
    /// True when colors are shown.
    pub color: bool,
    /// `#` and `.` instead of block characters.
    pub plain: bool,
}

/// `value` as a JSON document.
///
/// # Panics
/// Never: our structs have only string keys.
pub fn json(value: &impl Serialize) -> String {
    let mut text =
        format::text::escaped(serde_json::to_string_pretty(value).expect("our structs are JSON"));
    text.push('\n');
    text
}

/// `value` as JSON on one line, without its end.
///
/// # Panics
/// Never: our structs have only string keys.
pub fn json_line(value: &impl Serialize) -> String {
    format::text::escaped(serde_json::to_string(value).expect("our structs are JSON"))
}

/// `value` as a YAML document.
///
/// # Panics
/// Never: our structs have only string keys.
pub fn yaml(value: &impl Serialize) -> String {
    let text = serde_saphyr::to_string(value).expect("our structs are YAML");
    // YAML leaves such characters as they are, also outside of quotes. JSON is YAML, and has them
    // in quotes, where they can be escaped.
    match format::text::is_escaped_in(&text) {
        true => format::text::escaped_in_yaml(format!(
            "{}\n",
            serde_json::to_string_pretty(value).expect("our structs are JSON")
        )),
        false => text,
    }
}

/// Returns a document in the format asked for, or `None` where the format is for people.
pub fn document(format: Format, value: &impl Serialize) -> Option<String> {
    match format {
        Format::Json => Some(json(value)),
        Format::Yaml => Some(yaml(value)),
        _ => None,
    }
}
