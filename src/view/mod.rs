//! How an answer looks: tables, text, JSON. Values in, text out; no stream, no client. JSON structs are their own, so that
//! a change inside changes no script.

pub mod at_time;
pub mod changes;
pub mod chart;
pub mod columns;
pub mod config;
pub mod copied;
pub mod coverage;
pub mod created;
pub mod csv;
pub mod deleted;
pub mod describe;
pub mod efficiency;
pub mod errors;
pub mod events;
pub mod exposition;
pub mod health;
pub mod heatmap;
pub mod hourly;
pub mod hourly_table;
pub mod jobs;
pub mod labels;
pub mod logs;
pub mod metrics;
pub mod node;
pub mod node_table;
pub mod nodes;
pub mod opened;
pub mod overview;
pub mod pods;
pub mod pools;
pub mod quotas;
pub mod reference;
pub mod report;
pub mod rights;
pub mod scaled;
pub mod score;
pub mod secret;
pub mod snapshot;
pub mod table;
pub mod text;
pub mod top;
pub mod tree;
pub mod validated;
pub mod workloads;

use serde::Serialize;

/// What `-o` asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Table,
    Wide,
    Json,
    Yaml,
    Name,
    Csv,
}

impl Format {
    /// True where stdout is one document and talk on stderr is objects.
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
    let mut text = serde_json::to_string_pretty(value).expect("our structs are JSON");
    text.push('\n');
    text
}

/// `value` as a YAML document.
///
/// # Panics
/// Never: our structs have only string keys.
#[must_use]
pub fn yaml(value: &impl Serialize) -> String {
    serde_saphyr::to_string(value).expect("our structs are YAML")
}

/// A document in the format asked for, or `None` where the format is for people.
#[must_use]
pub fn document(format: Format, value: &impl Serialize) -> Option<String> {
    match format {
        Format::Json => Some(json(value)),
        Format::Yaml => Some(yaml(value)),
        _ => None,
    }
}
