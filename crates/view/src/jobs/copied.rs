//! Renders the result of `cp`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::format::text::count;

/// A completed copy.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CopyResult {
    pub from: String,
    pub to: String,
    pub files: u64,
    pub bytes: u64,
    /// The first archive members that were skipped, each with the reason.
    pub skipped: Vec<String>,
    /// Number of skipped members.
    pub skipped_count: u64,
}

pub fn text(answer: &CopyResult) -> String {
    format!(
        "copied {}, {}, to {}\n",
        count(answer.files, "file"),
        size(answer.bytes),
        answer.to
    )
}

/// Formats bytes in binary units, such as `12 B` or `1.5 MiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit < UNITS.len() - 1 {
        value /= 1024.0;
        unit += 1;
    }
    // Whole bytes need no fraction.
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (5 << 30, "5.0 GiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
