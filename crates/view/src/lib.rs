//! How an answer looks: tables, text, JSON, YAML, CSV. JSON structs are separate from the model, so that an internal change
//! breaks no script.
#![warn(unreachable_pub)]

pub mod answers;
pub mod at_time;
pub mod blame;
pub mod bundle;
pub mod changes;
pub mod chart;
pub mod claims;
pub mod cockpit;
pub mod columns;
pub mod config;
pub mod converted;
pub mod copied;
pub mod coverage;
pub mod created;
pub mod csv;
pub mod defaults;
pub mod deleted;
pub mod describe;
pub mod drain;
pub mod efficiency;
pub mod errors;
pub mod events;
pub mod exposition;
pub mod first_error;
pub mod fit;
pub mod free;
#[cfg(any(test, feature = "testing"))]
pub mod fuzz;
pub mod gpu_health;
pub mod gpu_types;
pub mod health;
pub mod heatmap;
pub mod hourly;
pub mod hourly_table;
pub mod jobs;
pub mod labels;
pub mod local_files;
pub mod logs;
pub mod metrics;
pub mod node;
pub mod node_table;
pub mod nodes;
pub mod objects;
pub mod opened;
pub mod overview;
pub mod parts;
pub mod pods;
pub mod pools;
pub mod preemptions;
pub mod queues;
pub mod quotas;
pub mod reference;
pub mod report;
pub mod report_document;
pub mod report_html;
pub mod rights;
pub mod scaled;
pub mod score;
pub mod secret;
mod serving_hours;
pub mod snapshot;
pub mod start;
pub mod table;
#[cfg(test)]
mod tests;
pub mod text;
pub mod top;
pub mod tree;
mod utilization;
pub mod validated;
pub mod version;
pub mod why;
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
    let mut text = text::escaped(serde_json::to_string_pretty(value).expect("our structs are JSON"));
    text.push('\n');
    text
}

/// `value` as JSON on one line, without its end.
///
/// # Panics
/// Never: our structs have only string keys.
pub fn json_line(value: &impl Serialize) -> String {
    text::escaped(serde_json::to_string(value).expect("our structs are JSON"))
}

/// `value` as a YAML document.
///
/// # Panics
/// Never: our structs have only string keys.
pub fn yaml(value: &impl Serialize) -> String {
    let text = serde_saphyr::to_string(value).expect("our structs are YAML");
    // YAML leaves such characters as they are, also outside of quotes. JSON is YAML, and has them in quotes, where they can be escaped.
    match text::is_escaped_in(&text) {
        true => text::escaped_in_yaml(format!("{}\n", serde_json::to_string_pretty(value).expect("our structs are JSON"))),
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
