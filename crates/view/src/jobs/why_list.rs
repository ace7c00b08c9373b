//! Renders why each of several jobs waits, failed, hangs or is slow.

use std::collections::BTreeSet;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::why::{WhyItem, WhyRow, item, text};
use crate::TextStyle;
use crate::format::text::{clean, wrapped};

/// The JSON output of `why` for several jobs.
#[derive(JsonSchema, Serialize)]
pub struct WhyList<'a> {
    total: usize,
    items: Vec<WhyItem<'a>>,
}

pub fn list<'a>(rows: &[WhyRow<'a>]) -> WhyList<'a> {
    WhyList {
        total: rows.len(),
        items: rows.iter().map(item).collect(),
    }
}

/// Renders one line per job, for `why --all`.
pub fn lines(rows: &[WhyRow<'_>], style: TextStyle) -> String {
    rows.iter()
        .map(|row| {
            let cause = row
                .answer
                .causes
                .first()
                .map_or("unknown", |cause| cause.word);
            let line = format!(
                "{}/{}  {cause}: {}",
                row.namespace,
                row.name,
                clean(&row.answer.sentence)
            );
            format!("{}\n", wrapped(&line, 2, style).trim_end())
        })
        .collect()
}

/// Renders the full answer of each job, separated by `---`. A block starts with the name of its
/// job. If the jobs are in several namespaces, a line with the full name precedes it.
pub fn blocks(rows: &[WhyRow<'_>], style: TextStyle, now: Timestamp) -> String {
    let namespaces: BTreeSet<&str> = rows.iter().map(|row| row.namespace).collect();
    let block = |row: &WhyRow<'_>| {
        let title = match namespaces.len() {
            0 | 1 => String::new(),
            _ => format!("{}/{}:\n", row.namespace, row.name),
        };
        format!("{title}{}", text(row, style, now))
    };
    rows.iter().map(block).collect::<Vec<_>>().join("---\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuctl_diagnosis::Answer;

    const STYLE: TextStyle = TextStyle {
        width: None,
        color: false,
        plain: false,
    };

    #[test]
    fn blocks_name_the_namespace_only_if_there_are_several() {
        let answer = |sentence: &str| Answer {
            sentence: sentence.to_owned(),
            ..Answer::default()
        };
        let (first, second) = (answer("a waits"), answer("b failed"));
        let row = |name, namespace, answer| WhyRow {
            name,
            namespace,
            kind: "training",
            answer,
        };
        let (style, now) = (STYLE, Timestamp::UNIX_EPOCH);
        let rows = [row("a", "x", &first), row("b", "x", &second)];
        assert_eq!(blocks(&rows, style, now), "a waits\n---\nb failed\n");
        let rows = [row("a", "x", &first), row("b", "y", &second)];
        assert_eq!(
            blocks(&rows, style, now),
            "x/a:\na waits\n---\ny/b:\nb failed\n"
        );
        assert_eq!(serde_json::to_value(list(&rows)).unwrap()["total"], 2);
    }
}
