//! Scores `gpuctl why` on texts that other people published: messages, statuses and the ends of
//! logs in their literal form. The program is developed with the texts of one half of the projects,
//! and only scored on those of the other half. `docs/why.md` publishes both scores.
//!
//! `cargo test --test texts -- --nocapture` prints each wrong answer of the first half.
#![expect(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    reason = "this test prints its answers, and reads and writes committed files"
)]

mod classes;
mod corpus;
mod mutation;
mod objects;
#[path = "../runner/mod.rs"]
#[allow(dead_code, reason = "this test uses a part of the module")]
mod runner;

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use classes::{is_other, words};
use corpus::Text;
use mutation::Mutation;

/// The answer of `gpuctl why` about one text.
#[derive(Clone, Debug)]
struct Verdict {
    /// The first cause, or `unknown`.
    cause: String,
    /// The first log line that the answer quotes, without a clipped end.
    line: Option<String>,
}

/// Explains all texts with one run of the program.
fn explain(texts: &[Text], name: &str) -> Vec<Verdict> {
    let bundle = std::env::temp_dir().join(format!("gpuctl-texts-{}-{name}", std::process::id()));
    objects::write_bundle(&bundle, texts);
    let mut command = runner::gpuctl();
    command
        .arg("--replay")
        .arg(&bundle)
        .args(["why", "-o", "json"]);
    command.args(texts.iter().map(objects::subject));
    let answers = runner::run(command, "").ok().json();
    std::fs::remove_file(&bundle).unwrap();
    let items = answers["items"].as_array().unwrap();
    assert_eq!(items.len(), texts.len(), "one answer per text");
    let verdict = |text: &Text| {
        let item = items
            .iter()
            .find(|item| item["namespace"] == text.id.as_str());
        verdict(item.unwrap_or_else(|| panic!("{} has no answer", text.id)))
    };
    texts.iter().map(verdict).collect()
}

fn verdict(item: &Value) -> Verdict {
    let cause = item["causes"][0]["cause"].as_str().unwrap_or("unknown");
    let causes = item["causes"].as_array().unwrap().iter();
    let mut evidence = causes.flat_map(|cause| cause["evidence"].as_array().unwrap());
    let from_log = evidence.find(|evidence| evidence["where"] == "logs");
    let line = from_log.and_then(|evidence| {
        // `the first error in the logs, from rank 0: LINE`
        let (_, line) = evidence["what"].as_str()?.split_once(", from ")?;
        Some(line.split_once(": ")?.1.trim_end_matches('…').to_owned())
    });
    Verdict {
        cause: cause.to_owned(),
        line,
    }
}

/// Result of one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Right,
    /// The answer names no cause.
    Other,
    Wrong,
}

fn outcome(text: &Text, verdict: &Verdict) -> Outcome {
    let is_named = !is_other(&verdict.cause);
    if text.log.is_some() {
        let is_expected = |line: &str| text.errors.iter().any(|error| is_same_line(error, line));
        return match verdict.line.as_deref() {
            None if !text.errors.is_empty() => Outcome::Other,
            Some(line) if !is_expected(line) => Outcome::Wrong,
            _ if is_named && words(&text.expect).contains(verdict.cause.as_str()) => Outcome::Right,
            _ if !is_named => Outcome::Other,
            _ => Outcome::Wrong,
        };
    }
    match is_named {
        false => Outcome::Other,
        true if words(&text.expect).contains(verdict.cause.as_str()) => Outcome::Right,
        true => Outcome::Wrong,
    }
}

/// Whether an answer quotes the expected line. An answer clips long lines, and appends how many
/// other ranks logged the same one.
fn is_same_line(expected: &str, quoted: &str) -> bool {
    let normal = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let (expected, quoted) = (normal(expected), normal(quoted));
    expected.starts_with(&quoted) || quoted.starts_with(&expected)
}

/// Scores of one half of the texts.
#[derive(Debug, Default)]
struct Score {
    texts: usize,
    projects: BTreeSet<String>,
    right: usize,
    wrong: usize,
    other: usize,
    changed: usize,
}

impl Score {
    /// Percentage of the right answers among those that name a cause.
    fn accuracy(&self) -> f64 {
        100.0 * self.right as f64 / (self.right + self.wrong).max(1) as f64
    }

    fn share_of_other(&self) -> f64 {
        100.0 * self.other as f64 / self.texts.max(1) as f64
    }

    fn row(&self, half: &str) -> String {
        format!(
            "| {half} | {} | {} | {:.1} % | {:.1} % | {} |\n",
            self.texts,
            self.projects.len(),
            self.accuracy(),
            self.share_of_other(),
            self.changed
        )
    }
}

/// Compares each verdict with those about the mutated texts. Returns for each text whether one of
/// them differs.
fn changed_by_mutations(texts: &[Text], verdicts: &[Verdict], details: &mut String) -> Vec<bool> {
    let mut changed = vec![false; texts.len()];
    for mutation in Mutation::ALL {
        let mutated: Vec<Text> = texts.iter().map(|text| mutation.apply(text)).collect();
        let others = explain(&mutated, &format!("{mutation:?}"));
        for (index, (text, other)) in mutated.iter().zip(&others).enumerate() {
            let before = &verdicts[index];
            let is_same = before.cause == other.cause
                && outcome(&texts[index], before) == outcome(text, other);
            if !is_same && texts[index].is_for_development() {
                *details += &format!(
                    "{}: {mutation:?} changes {} to {}\n",
                    text.id, before.cause, other.cause
                );
            }
            changed[index] |= !is_same;
        }
    }
    changed
}

/// Scores both halves: the one for development, and the one that is held back.
fn scores() -> [Score; 2] {
    let texts = corpus::texts();
    let verdicts = explain(&texts, "original");
    let mut details = String::new();
    let changed = changed_by_mutations(&texts, &verdicts, &mut details);
    let mut scores = [Score::default(), Score::default()];
    for ((text, verdict), changed) in texts.iter().zip(&verdicts).zip(changed) {
        let is_develop = text.is_for_development();
        let score = &mut scores[usize::from(!is_develop)];
        score.texts += 1;
        score.projects.insert(text.project.clone());
        score.changed += usize::from(changed);
        let result = outcome(text, verdict);
        match result {
            Outcome::Right => score.right += 1,
            Outcome::Wrong => score.wrong += 1,
            Outcome::Other => score.other += 1,
        }
        let is_expected_other = text.expect.iter().any(|class| class == "other");
        if is_develop
            && (result == Outcome::Wrong || result == Outcome::Other && !is_expected_other)
        {
            details += &format!(
                "{} ({}): {result:?}: expected {:?} {}, got {} {}\n",
                text.id,
                text.family,
                text.expect,
                text.errors.join(" | "),
                verdict.cause,
                verdict.line.as_deref().unwrap_or("")
            );
        }
    }
    println!("{details}");
    scores
}

const BEGIN: &str = "<!-- published texts -->\n";
const END: &str = "<!-- end of published texts -->";

#[test]
fn published_accuracy_is_current() {
    let scores = scores();
    let mut table = "| Projects | Texts | Number of projects | Right | Other | Changed |\n\
                     |---|---|---|---|---|---|\n"
        .to_owned();
    table += &scores[0].row("used for development");
    table += &scores[1].row("held back");
    print!("{table}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/why.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (published, after) = rest.split_once(END).unwrap();
    if std::env::var_os("GPUCTL_REWRITE").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(
        published, table,
        "run `GPUCTL_REWRITE=1 cargo test --test texts`, and explain each number that got worse"
    );
}

#[test]
fn texts_are_complete_and_unique() {
    let texts = corpus::texts();
    let mut ids = BTreeSet::new();
    for text in &texts {
        assert!(ids.insert(text.id.clone()), "{} occurs twice", text.id);
        assert!(
            !text.project.is_empty() && !text.source.is_empty(),
            "{}",
            text.id
        );
        assert!(
            !words(&text.expect).is_empty() || text.expect == ["other"],
            "{}",
            text.id
        );
        let log = text.log.as_deref().unwrap_or_default();
        for error in &text.errors {
            let has_line = log.lines().any(|line| is_same_line(error, line));
            assert!(has_line, "{}: the log does not contain its error", text.id);
        }
        let parts = format!("{text:?}");
        for name in &text.names {
            let count = parts.matches(name.as_str()).count();
            assert!(count > 1, "{}: `{name}` is not in the text", text.id);
        }
    }
}
