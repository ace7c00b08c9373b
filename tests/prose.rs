//! Counts phrases that mark unidiomatic English in comments, doc comments, messages and documents.
//! A count above the limit means that sentences should be rewritten, not that a word is forbidden.
#![expect(
    clippy::disallowed_methods,
    reason = "this test reads the project's own files"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

/// Most marks per 1,000 words of one kind of text.
const LIMIT: f64 = 2.0;

/// Phrases that good English avoids in technical prose. Most are literal translations, sentences
/// whose subject is a relative clause, or persons in place of programs.
const MARKS: [&str; 38] = [
    r"whoever",
    r"whomever",
    r"whatever (?:is|was|it) ",
    r"nobody(?:'s)?",
    r"somebody(?:'s)?",
    r"everybody(?:'s)?",
    r"(?:is|are|was|were|be|been) told",
    r"tells? (?:of|it|them|that|which|whether)",
    r"told (?:apart|of|by)",
    r"beside(?:s)? (?:the|it|them|a|an|what)",
    r"of (?:ours|theirs|hers)",
    r"so (?:many|much|long|often) (?:of|a|an|the)",
    r"no more",
    r"any more",
    r"anew",
    r"in all",
    r"for good",
    r"(?:is|are|was|were) no [a-z]+(?: of|,|\.|;|:)",
    r"that there (?:is|are|was|were)",
    r"(?:of|by|from|in) which there",
    r"as it stands",
    r"stands? (?:beside|there|for itself)",
    r"(?:is|are) (?:meant|had|wanted|gone|said|there already)",
    r"takes? (?:it|them) away",
    r"goes on",
    r"at hand",
    r"meanwhile",
    r"shall",
    r"says? (?:so|which|what|how|why)",
    r"may be had",
    r"those (?:that|who) (?:is|are|was|were)",
    r"who (?:waits|asks|serves|wants|may)",
    r"by (?:itself|themselves) alone",
    r"is (?:asked|answered) (?:of|for|by)",
    r"what (?:is|are|was|were) (?:left|kept|seen|read|asked|known|there)",
    r"what of (?:it|the|a)",
    r"each for (?:itself|themselves)",
    r"the more so",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Comment,
    DocComment,
    Message,
    Document,
}

/// Files with an extension below the folders, except build outputs.
fn files(folders: &[&str], extension: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut open: Vec<PathBuf> = folders.iter().map(|folder| root.join(folder)).collect();
    let mut files = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).unwrap();
            let entries = entries.map(|entry| entry.unwrap().path());
            open.extend(entries.filter(|entry| !entry.ends_with("target")));
        } else if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// The prose of a Rust file, line by line.
fn prose_of_code(text: &str) -> Vec<(Kind, usize, String)> {
    let literal = Regex::new(r#""((?:[^"\\]|\\.){18,})""#).unwrap();
    let word = Regex::new("[A-Za-z]{2,}").unwrap();
    let mut prose = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("///") || line.starts_with("//!") {
            prose.push((Kind::DocComment, index + 1, line.to_owned()));
        } else if line.starts_with("//") {
            prose.push((Kind::Comment, index + 1, line.to_owned()));
        } else {
            // A literal of fewer words is a name, a path or a query.
            let literals = literal.captures_iter(line).map(|found| found[1].to_owned());
            let messages = literals.filter(|text| word.find_iter(text).count() >= 4);
            prose.extend(messages.map(|text| (Kind::Message, index + 1, text)));
        }
    }
    prose
}

/// The prose of a document: outside code blocks, without code spans.
fn prose_of_document(text: &str) -> Vec<(Kind, usize, String)> {
    let span = Regex::new("`[^`]*`").unwrap();
    let mut is_code = false;
    let mut prose = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            prose.push((Kind::Document, index + 1, span.replace_all(line, "").into()));
        }
    }
    prose
}

#[test]
fn prose_is_plain_english() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let marks = Regex::new(&format!(r"(?i)\b(?:{})\b", MARKS.join("|"))).unwrap();
    let word = Regex::new("[A-Za-z']+").unwrap();
    let code = files(&["src", "crates", "tests", "benches"], "rs");
    let pages = files(&["docs", "deploy", "tests", "benches"], "md");
    let top = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
    ];
    let mut all = Vec::new();
    // This file quotes the marks.
    for path in code.iter().filter(|path| !path.ends_with("tests/prose.rs")) {
        let prose = prose_of_code(&fs::read_to_string(path).unwrap());
        all.extend(prose.into_iter().map(|piece| (path.clone(), piece)));
    }
    for path in pages.into_iter().chain(top.map(|name| root.join(name))) {
        let prose = prose_of_document(&fs::read_to_string(&path).unwrap());
        all.extend(prose.into_iter().map(|piece| (path.clone(), piece)));
    }
    let mut counts: BTreeMap<Kind, (usize, usize, Vec<String>)> = BTreeMap::new();
    for (path, (kind, line, text)) in all {
        let count = counts.entry(kind).or_default();
        let found = marks.find_iter(&text).count();
        count.0 += found;
        count.1 += word.find_iter(&text).count();
        if found > 0 {
            let path = path.strip_prefix(root).unwrap().display();
            count.2.push(format!("{path}:{line}: {text}"));
        }
    }
    for (kind, (marks, words, lines)) in counts {
        #[expect(clippy::cast_precision_loss, reason = "counts of words are small")]
        let rate = 1000.0 * marks as f64 / words as f64;
        assert!(words > 5_000, "{kind:?}: only {words} words were found");
        assert!(
            rate <= LIMIT,
            "{kind:?}: {rate:.1} marks per 1,000 words:\n{}",
            lines.join("\n")
        );
    }
}
