//! How an answer looks: tables, text, JSON, YAML, CSV. JSON structs are separate from the model, so that an internal change
//! breaks no script.

pub mod answers;
pub(crate) mod at_time;
pub(crate) mod blame;
pub(crate) mod bundle;
pub(crate) mod changes;
pub(crate) mod chart;
pub(crate) mod claims;
pub(crate) mod columns;
pub(crate) mod config;
pub(crate) mod converted;
pub(crate) mod copied;
pub(crate) mod coverage;
pub(crate) mod created;
pub(crate) mod csv;
pub(crate) mod defaults;
pub(crate) mod deleted;
pub(crate) mod describe;
pub(crate) mod drain;
pub(crate) mod efficiency;
pub(crate) mod errors;
pub(crate) mod events;
pub(crate) mod exposition;
pub(crate) mod first_error;
pub(crate) mod fit;
pub(crate) mod free;
pub(crate) mod gpu_health;
pub(crate) mod gpu_types;
pub(crate) mod health;
pub(crate) mod heatmap;
pub(crate) mod hourly;
pub(crate) mod hourly_table;
pub(crate) mod jobs;
pub(crate) mod labels;
pub(crate) mod local_files;
pub(crate) mod logs;
pub(crate) mod metrics;
pub(crate) mod node;
pub(crate) mod node_table;
pub(crate) mod nodes;
pub(crate) mod objects;
pub(crate) mod opened;
pub(crate) mod overview;
pub(crate) mod parts;
pub(crate) mod pods;
pub(crate) mod pools;
pub(crate) mod preemptions;
pub(crate) mod queues;
pub(crate) mod quotas;
pub(crate) mod reference;
pub(crate) mod report;
pub(crate) mod report_document;
pub(crate) mod report_html;
pub(crate) mod rights;
pub(crate) mod scaled;
pub(crate) mod score;
pub(crate) mod secret;
mod serving_hours;
pub(crate) mod snapshot;
pub(crate) mod start;
pub(crate) mod table;
#[cfg(test)]
mod tests;
pub(crate) mod text;
pub(crate) mod top;
pub(crate) mod tree;
mod utilization;
pub mod validated;
pub(crate) mod version;
pub(crate) mod why;
pub(crate) mod workloads;

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
    #[must_use]
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
#[must_use]
pub fn json(value: &impl Serialize) -> String {
    let mut text = text::escaped(serde_json::to_string_pretty(value).expect("our structs are JSON"));
    text.push('\n');
    text
}

/// `value` as JSON on one line, without its end.
///
/// # Panics
/// Never: our structs have only string keys.
#[must_use]
pub(crate) fn json_line(value: &impl Serialize) -> String {
    text::escaped(serde_json::to_string(value).expect("our structs are JSON"))
}

/// `value` as a YAML document.
///
/// # Panics
/// Never: our structs have only string keys.
#[must_use]
pub fn yaml(value: &impl Serialize) -> String {
    let text = serde_saphyr::to_string(value).expect("our structs are YAML");
    // YAML leaves such characters as they are, also outside of quotes. JSON is YAML, and has them in quotes, where they can be escaped.
    match text::is_escaped_in(&text) {
        true => text::escaped_in_yaml(format!("{}\n", serde_json::to_string_pretty(value).expect("our structs are JSON"))),
        false => text,
    }
}

/// Returns a document in the format asked for, or `None` where the format is for people.
#[must_use]
pub fn document(format: Format, value: &impl Serialize) -> Option<String> {
    match format {
        Format::Json => Some(json(value)),
        Format::Yaml => Some(yaml(value)),
        _ => None,
    }
}
