//! Renders why a job waits, failed, hangs or is slow: a sentence, causes with evidence, and
//! commands that help.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::start::{StartItem, start_item, start_text};
use crate::TextStyle;
use crate::format::text::{age, clean, count, span, wrapped};
use gpuctl_core::model::GpuCount;
use gpuctl_core::model::values::text::plain_name;
use gpuctl_core::stats::logs::stacks::StackGroup;
use gpuctl_diagnosis::{Answer, Cause, HolderTime};

/// Maximum size of an answer in bytes of JSON, so that hundreds of answers can be read at once. The
/// rest of 2 KB is for the indentation in a list.
const LARGEST: usize = 1800;
/// Maximum size of a text in bytes of JSON.
const LONGEST: usize = 240;
/// Maximum number of stack traces in JSON.
const STACKS: usize = 3;

/// The JSON output of `why`.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WhyItem<'a> {
    name: &'a str,
    namespace: &'a str,
    kind: &'a str,
    situation: &'static str,
    since: Option<Timestamp>,
    sentence: String,
    causes: Vec<CauseItem>,
    /// `null` when the job does not wait for capacity, or when there is no history.
    start: Option<StartItem>,
    /// Ranks grouped by identical stacks. `null` without `--stacks`; empty when no stack could be
    /// read.
    stacks: Option<Vec<StackItem>>,
    not_evaluated: Vec<String>,
    coverage: CoverageItem,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct CauseItem {
    cause: &'static str,
    weight: f64,
    nodes: Option<u64>,
    evidence: Vec<EvidenceItem>,
    holders: Vec<BlockingHolderItem>,
    helps: Vec<HelpItem>,
}

#[derive(JsonSchema, Serialize)]
struct StackItem {
    processes: usize,
    /// The first of these processes.
    first: String,
    /// Stack frames, innermost first.
    place: String,
}

#[derive(JsonSchema, Serialize)]
struct EvidenceItem {
    what: String,
    #[serde(rename = "where")]
    seen_in: &'static str,
    at: Option<Timestamp>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "HolderItem")]
struct BlockingHolderItem {
    namespace: String,
    name: String,
    gpus: u64,
    since: Option<Timestamp>,
    ends_by: Option<Timestamp>,
}

#[derive(JsonSchema, Serialize)]
struct HelpItem {
    text: String,
    command: Option<String>,
    proven: bool,
}

#[derive(JsonSchema, Serialize)]
struct CoverageItem {
    /// `null` when the user is not allowed to list nodes.
    nodes: Option<usize>,
    events: &'static str,
}

/// A job and its `why` answer.
#[derive(Clone, Copy)]
pub struct WhyRow<'a> {
    pub name: &'a str,
    pub namespace: &'a str,
    pub kind: &'a str,
    /// Whether gpuctl created the object.
    pub is_managed: bool,
    pub gpus_held: GpuCount,
    pub gpus_lacking: GpuCount,
    pub answer: &'a Answer,
}

impl WhyRow<'_> {
    /// Returns the name that `gpuctl why` accepts: with the kind unless gpuctl created the object.
    pub(super) fn full_name(&self) -> String {
        if self.is_managed {
            return format!("{}/{}", self.namespace, self.name);
        }
        let [kind, name] = [self.kind, self.name].map(plain_name);
        format!("{}/{kind}/{name}", self.namespace)
    }
}

fn clip(text: &str) -> String {
    let text = clean(text);
    if text.len() <= LONGEST {
        return text.into_owned();
    }
    let end = (0..=LONGEST)
        .rev()
        .find(|index| text.is_char_boundary(*index))
        .unwrap_or(0);
    format!("{}…", &text[..end])
}

/// Builds the JSON output. Drops the least important parts of an answer larger than 2 KB.
pub fn item<'a>(row: &WhyRow<'a>) -> WhyItem<'a> {
    let answer = row.answer;
    let mut item = WhyItem {
        name: row.name,
        namespace: row.namespace,
        kind: row.kind,
        situation: answer.situation.word(),
        since: answer.since,
        sentence: clip(&answer.sentence),
        causes: answer.causes.iter().map(cause_item).collect(),
        start: answer.start.as_ref().map(start_item),
        stacks: answer
            .stacks
            .as_ref()
            .map(|groups| groups.iter().take(STACKS).map(stack_item).collect()),
        not_evaluated: answer.not_evaluated.iter().map(|text| clip(text)).collect(),
        coverage: CoverageItem {
            nodes: answer.coverage.nodes,
            events: answer.coverage.events,
        },
    };
    // Measure the indented form, which `-o json` prints.
    while serde_json::to_string_pretty(&item).map_or(0, |text| text.len()) >= LARGEST
        && shorten(&mut item)
    {}
    item
}

/// Drops one part of the answer. Returns false if only the first cause with one piece of evidence
/// is left.
fn shorten(item: &mut WhyItem<'_>) -> bool {
    let causes = &mut item.causes;
    // Start with the last causes, which have the smallest weights.
    let trimmable = causes
        .iter_mut()
        .rev()
        .find(|cause| cause.evidence.len() + cause.holders.len() + cause.helps.len() > 1);
    if let Some(cause) = trimmable {
        if cause.evidence.len() > 1 {
            cause.evidence.pop();
        } else if cause.holders.len() > 1 || cause.helps.is_empty() {
            cause.holders.pop();
        } else {
            cause.helps.pop();
        }
        return true;
    }
    if causes.len() > 1 {
        causes.pop();
        return true;
    }
    item.stacks
        .as_mut()
        .is_some_and(|stacks| stacks.pop().is_some())
        || item.not_evaluated.pop().is_some()
}

fn cause_item(cause: &Cause) -> CauseItem {
    CauseItem {
        cause: cause.word,
        weight: cause.weight,
        nodes: cause.nodes,
        evidence: cause
            .evidence
            .iter()
            .map(|evidence| EvidenceItem {
                what: clip(&evidence.text),
                seen_in: evidence.seen_in,
                at: evidence.at,
            })
            .collect(),
        holders: cause.holders.iter().map(holder_item).collect(),
        helps: cause
            .helps
            .iter()
            // Drop a command that would have to be truncated, because the rest would be another
            // command.
            .filter(|help| {
                help.command
                    .as_ref()
                    .is_none_or(|command| command.len() <= LONGEST)
            })
            .map(|help| HelpItem {
                text: clip(&help.text),
                command: help.command.clone(),
                proven: help.proven,
            })
            .collect(),
    }
}

fn stack_item(group: &StackGroup) -> StackItem {
    let first = group.ranks.first().map_or(String::new(), |rank| clip(rank));
    StackItem {
        processes: group.ranks.len(),
        first,
        place: clip(&group.line()),
    }
}

fn holder_item(holder: &HolderTime) -> BlockingHolderItem {
    let (namespace, name) = holder.name.split_once('/').unwrap_or(("", &holder.name));
    BlockingHolderItem {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        gpus: holder.gpus,
        since: holder.since,
        ends_by: holder.ends_by,
    }
}

/// Renders the answer as text.
pub fn text(row: &WhyRow<'_>, style: TextStyle, now: Timestamp) -> String {
    let answer = row.answer;
    let sentence = clean(&answer.sentence);
    let mut text = format!("{}\n", wrapped(&sentence, 2, style).trim_end());
    for (index, cause) in answer.causes.iter().enumerate() {
        // Skip the first evidence of the first cause, which the sentence already contains.
        let skipped = usize::from(index == 0);
        text.push_str(&cause_text(cause, skipped, style, now));
    }
    // Skip stack traces that a cause already shows.
    let in_causes = answer
        .causes
        .iter()
        .flat_map(|cause| &cause.evidence)
        .any(|evidence| evidence.seen_in == "stacks");
    for group in answer.stacks.iter().flatten().filter(|_| !in_causes) {
        let more = group.ranks.len().saturating_sub(1);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let first = group.ranks.first().map_or("", String::as_str);
        text.push_str(&line(2, &format!("{first}{more}: {}", group.line()), style));
    }
    if let Some(start) = &answer.start {
        text.push_str(&line(2, &start_text(start), style));
    }
    // Skip what the sentence already names.
    let gaps = answer.not_evaluated.iter().map(String::as_str);
    let gaps: Vec<&str> = gaps.filter(|gap| !answer.sentence.contains(gap)).collect();
    if !gaps.is_empty() {
        let not_evaluated = format!("not evaluated: {}", gaps.join(", "));
        text.push_str(&line(2, &not_evaluated, style));
    }
    text
}

/// Renders an indented line, with continuation lines indented by two more columns.
fn line(indent: usize, content: &str, style: TextStyle) -> String {
    format!(
        "{}{}\n",
        " ".repeat(indent),
        wrapped(&clean(content), indent + 2, style).trim_end()
    )
}

/// Renders a cause with its holders, commands that help, and its evidence after the first `skipped`
/// items.
fn cause_text(cause: &Cause, skipped: usize, style: TextStyle, now: Timestamp) -> String {
    let nodes = cause.nodes.map_or(String::new(), |nodes| {
        format!(" on {}", count(nodes, "node"))
    });
    let mut text = line(2, &format!("{}{nodes}", cause.word), style);
    for evidence in cause.evidence.iter().skip(skipped) {
        let source = evidence.at.map_or(String::new(), |time| {
            format!(" ({} ago, {})", age(Some(time), now), evidence.seen_in)
        });
        text.push_str(&line(4, &format!("{}{source}", evidence.text), style));
    }
    for holder in &cause.holders {
        text.push_str(&line(4, &holder_text(holder, now), style));
    }
    for help in &cause.helps {
        let perhaps = if help.proven { "" } else { "perhaps: " };
        text.push_str(&line(4, &format!("{perhaps}{}", help.text), style));
        // Keep a command on one line, so that users can copy it.
        if let Some(command) = &help.command {
            text.push_str(&format!("      {}\n", clean(command)));
        }
    }
    text
}

fn holder_text(holder: &HolderTime, now: Timestamp) -> String {
    let duration = holder.since.map_or(String::new(), |time| {
        format!(" for {}", age(Some(time), now))
    });
    let ends = match holder.ends_by {
        Some(end) if end > now => {
            format!(", and must end within {}", span(end.duration_since(now)))
        }
        _ => String::new(),
    };
    format!(
        "held by {}: {}{duration}{ends}",
        clean(&holder.name),
        count(holder.gpus, "GPU")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However long an answer is, it keeps its situation, its sentence and the first cause.
    #[test]
    fn an_answer_stays_within_its_size() {
        let long_text = "x".repeat(4000);
        let cause = |name| {
            Cause::new(name, long_text.clone(), "logs")
                .and(long_text.clone(), "logs")
                .helps(long_text.clone(), None)
        };
        let group = StackGroup {
            ranks: vec![long_text.clone()],
            frames: vec![long_text.clone()],
        };
        let answer = Answer {
            situation: gpuctl_diagnosis::Situation::Stuck,
            sentence: long_text.clone(),
            causes: vec![cause("collective-hang"), cause("data-stall")],
            stacks: Some(vec![group; 9]),
            not_evaluated: vec![long_text.clone(); 40],
            ..Answer::default()
        };
        let row = WhyRow {
            name: "t",
            namespace: "team-a",
            kind: "training",
            is_managed: true,
            gpus_held: GpuCount(0),
            gpus_lacking: GpuCount(0),
            answer: &answer,
        };
        let json = serde_json::to_string_pretty(&item(&row)).unwrap();
        assert!(json.len() < LARGEST, "{} bytes", json.len());
        let value = serde_json::to_value(item(&row)).unwrap();
        assert_eq!(
            (&value["situation"], &value["causes"][0]["cause"]),
            (&"stuck".into(), &"collective-hang".into())
        );
        let unasked = WhyRow {
            answer: &Answer::default(),
            ..row
        };
        let scheduled = Answer {
            stacks: Some(Vec::new()),
            ..Answer::default()
        };
        assert!(serde_json::to_value(item(&unasked)).unwrap()["stacks"].is_null());
        assert_eq!(
            serde_json::to_value(item(&WhyRow {
                answer: &scheduled,
                ..row
            }))
            .unwrap()["stacks"],
            serde_json::json!([])
        );
    }
}
