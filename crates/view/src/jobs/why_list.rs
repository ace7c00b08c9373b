//! Renders why each of several jobs waits, failed, hangs or is slow.

use std::collections::BTreeSet;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::why::{WhyItem, WhyRow, item, text};
use crate::TextStyle;
use crate::format::text::{clean, count, wrapped};
use gpuctl_core::model::GpuCount;

/// The JSON output of `why` for several jobs.
#[derive(JsonSchema, Serialize)]
pub struct WhyList<'a> {
    total: usize,
    items: Vec<WhyItem<'a>>,
    /// The jobs by their first cause.
    groups: Vec<WhyGroup>,
}

/// Jobs with the same first cause.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct WhyGroup {
    /// `unknown` for jobs without a cause.
    cause: &'static str,
    count: usize,
    /// GPUs that these jobs hold.
    gpus_held: u64,
    /// GPUs that these jobs request and do not hold.
    gpus_lacking: u64,
    /// NAMESPACE/NAME of each job, or NAMESPACE/KIND/NAME of a workload that gpuctl did not create.
    names: Vec<String>,
}

/// Returns the GPUs that some jobs hold and lack.
fn gpus(rows: &[&WhyRow<'_>]) -> (u64, u64) {
    let held: GpuCount = rows.iter().map(|row| row.gpus_held).sum();
    let lacking: GpuCount = rows.iter().map(|row| row.gpus_lacking).sum();
    (held.0, lacking.0)
}

/// Describes the GPUs that some jobs lack and hold. The verbs are in the singular for one job.
fn gpus_text(rows: &[&WhyRow<'_>]) -> Option<String> {
    let (held, lacking) = gpus(rows);
    let plural = if rows.len() == 1 { "s" } else { "" };
    let parts: Vec<String> = [(lacking, "need"), (held, "hold")]
        .into_iter()
        .filter(|(gpus, _)| *gpus > 0)
        .map(|(gpus, verb)| format!("{verb}{plural} {}", count(gpus, "GPU")))
        .collect();
    (!parts.is_empty()).then(|| parts.join(" and "))
}

pub fn list<'a>(rows: &[WhyRow<'a>]) -> WhyList<'a> {
    let group = |(cause, rows): (&'static str, Vec<&WhyRow<'_>>)| {
        let (gpus_held, gpus_lacking) = gpus(&rows);
        WhyGroup {
            cause,
            count: rows.len(),
            gpus_held,
            gpus_lacking,
            names: rows.into_iter().map(WhyRow::full_name).collect(),
        }
    };
    WhyList {
        total: rows.len(),
        items: rows.iter().map(item).collect(),
        groups: by_cause(rows).into_iter().map(group).collect(),
    }
}

/// Groups jobs by their first cause, in the order of the jobs.
fn by_cause<'r, 'a>(rows: &'r [WhyRow<'a>]) -> Vec<(&'static str, Vec<&'r WhyRow<'a>>)> {
    let mut groups: Vec<(&str, Vec<&WhyRow<'_>>)> = Vec::new();
    for row in rows {
        let causes = &row.answer.causes;
        let word = causes.first().map_or("unknown", |cause| cause.word);
        match groups.iter_mut().find(|(cause, _)| *cause == word) {
            Some((_, group)) => group.push(row),
            None => groups.push((word, vec![row])),
        }
    }
    groups
}

/// Maximum number of names in a line of text.
const MAX_NAMES: usize = 10;

/// Renders the jobs of each cause, for `why --all`: a line with the cause and the names of the
/// jobs, and the answer about the first of them.
pub fn lines(rows: &[WhyRow<'_>], style: TextStyle) -> String {
    let line = |line: &str| format!("{}\n", wrapped(line, 2, style).trim_end());
    let render = |(cause, rows): &(&str, Vec<&WhyRow<'_>>)| {
        let sentence = clean(&rows[0].answer.sentence);
        if let [row] = rows.as_slice() {
            let gpus = gpus_text(rows).map_or(String::new(), |gpus| format!(" ({gpus})"));
            return line(&format!("{}  {cause}{gpus}: {sentence}", row.full_name()));
        }
        let names: Vec<String> = rows
            .iter()
            .take(MAX_NAMES)
            .map(|row| row.full_name())
            .collect();
        let more = match rows.len().saturating_sub(MAX_NAMES) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        let jobs = count(rows.len() as u64, "job");
        let gpus = gpus_text(rows).map_or(String::new(), |gpus| format!(" {gpus}"));
        let heading = line(&format!(
            "{cause}  {jobs}{gpus}: {}{more}",
            names.join(", ")
        ));
        format!("{heading}  {}", line(&format!("such as: {sentence}")))
    };
    by_cause(rows).iter().map(render).collect()
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
    fn jobs_are_grouped_by_their_first_cause() {
        use gpuctl_diagnosis::Cause;
        let answer = |word: Option<&'static str>, sentence: &str| Answer {
            sentence: sentence.to_owned(),
            causes: word
                .map(|word| Cause::new(word, "text", "pod"))
                .into_iter()
                .collect(),
            ..Answer::default()
        };
        let short = answer(Some("insufficient-gpu"), "it waits");
        let hung = answer(Some("collective-hang"), "t hangs");
        let unknown = answer(None, "u: the cause is unknown");
        let row = |name, answer| WhyRow {
            name,
            namespace: "x",
            kind: "training",
            is_managed: true,
            gpus_held: GpuCount(0),
            gpus_lacking: GpuCount(8),
            answer,
        };
        let mut rows = vec![row("a", &short), row("t", &hung), row("u", &unknown)];
        (rows[1].gpus_held, rows[1].gpus_lacking) = (GpuCount(8), GpuCount(0));
        rows[2].gpus_lacking = GpuCount(0);
        rows.push(row("b", &short));
        assert_eq!(
            lines(&rows, STYLE),
            "insufficient-gpu  2 jobs need 16 GPUs: x/a, x/b\n  such as: it waits\n\
             x/t  collective-hang (holds 8 GPUs): t hangs\nx/u  unknown: u: the cause is unknown\n"
        );
        assert_eq!(
            serde_json::to_value(list(&rows)).unwrap()["groups"],
            serde_json::json!([
                {"cause": "insufficient-gpu", "count": 2, "gpusHeld": 0, "gpusLacking": 16, "names": ["x/a", "x/b"]},
                {"cause": "collective-hang", "count": 1, "gpusHeld": 8, "gpusLacking": 0, "names": ["x/t"]},
                {"cause": "unknown", "count": 1, "gpusHeld": 0, "gpusLacking": 0, "names": ["x/u"]},
            ])
        );
        // 12 - 10 names are omitted.
        let many: Vec<WhyRow<'_>> = (0..12).map(|_| row("a", &short)).collect();
        let text = lines(&many, STYLE);
        assert!(text.contains(", and 2 more\n"), "{text}");
    }

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
            is_managed: true,
            gpus_held: GpuCount(0),
            gpus_lacking: GpuCount(0),
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
