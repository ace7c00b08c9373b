//! Changes the parts of a text that must not influence the verdict: names, numbers and the order
//! of its parts.

use crate::corpus::Text;

/// A change of every text.
#[derive(Clone, Copy, Debug)]
pub enum Mutation {
    /// Replaces names by words without a meaning.
    Names,
    /// Replaces names by words that errors contain, such as `denied`.
    MisleadingNames,
    /// Multiplies counts, so that sums and comparisons of a message stay valid.
    Numbers,
    /// Reverses the parts of a scheduler's message, and the order of conditions.
    Order,
}

impl Mutation {
    pub const ALL: [Self; 4] = [
        Self::Names,
        Self::MisleadingNames,
        Self::Numbers,
        Self::Order,
    ];

    pub fn apply(self, text: &Text) -> Text {
        let mut changed = text.clone();
        let mut names: Vec<&str> = text.names.iter().map(String::as_str).collect();
        // A name may contain a shorter one.
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        match self {
            Self::Names => changed.map_messages(|message| renamed(message, &names, &PLAIN)),
            Self::MisleadingNames => {
                changed.map_messages(|message| renamed(message, &names, &MISLEADING));
            }
            Self::Numbers => changed.map_messages(with_other_numbers),
            Self::Order => {
                changed.map_messages(reordered);
                changed
                    .workload
                    .iter_mut()
                    .for_each(|workload| workload.conditions.reverse());
                changed
                    .pod
                    .iter_mut()
                    .for_each(|pod| pod.conditions.reverse());
            }
        }
        changed
    }
}

const PLAIN: [&str; 5] = ["zq", "vex", "oru", "kib", "wam"];
const MISLEADING: [&str; 5] = ["x401", "denied", "timeout", "killed", "quota"];

/// Replaces each word of each name, and keeps its dots, slashes, colons and hyphens.
fn renamed(message: &str, names: &[&str], words: &[&str]) -> String {
    let mut result = message.to_owned();
    for (index, name) in names.iter().enumerate() {
        let (mut other, mut word, mut used) = (String::new(), String::new(), index);
        for character in name.chars().chain(['\0']) {
            if character.is_ascii_alphanumeric() || character == '_' {
                word.push(character);
                continue;
            }
            if word.bytes().all(|byte| byte.is_ascii_digit()) {
                other.push_str(&word);
            } else {
                other.push_str(words[used % words.len()]);
                used += 1;
            }
            word.clear();
            other.extend(Some(character).filter(|character| *character != '\0'));
        }
        result = result.replace(name, &other);
    }
    result
}

/// Words before a number that is a code and not a count.
const CODES: [&str; 12] = [
    "code", "status", "error", "exit", "signal", "errno", "http", "xid", "line", "err", "rc",
    "version",
];

/// Triples each number that stands alone, except zero and codes such as 404.
fn with_other_numbers(message: &str) -> String {
    let mut result = String::new();
    let mut rest = message;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, tail) = rest.split_at(start);
        let end = tail
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(tail.len());
        let (digits, after) = tail.split_at(end);
        result.push_str(before);
        let is_start = result
            .chars()
            .next_back()
            .is_none_or(|c| c.is_whitespace() || matches!(c, '[' | '/' | '>'));
        let sentence_ends = after.starts_with(". ") || after == ".";
        let is_end = sentence_ends
            || after
                .chars()
                .next()
                .is_none_or(|c| c.is_whitespace() || ",;/])".contains(c));
        let context = result.trim_end().to_ascii_lowercase();
        let is_code = CODES
            .iter()
            .any(|code| context.trim_end_matches([':', '=']).ends_with(code));
        match digits.parse::<u64>() {
            Ok(number) if is_start && is_end && !is_code && !(100..600).contains(&number) => {
                result.push_str(&(number * 3).to_string());
            }
            _ => result.push_str(digits),
        }
        rest = after;
    }
    result + rest
}

/// Reverses the reasons in `0/5 nodes are available: 2 A, 3 B. preemption: …`.
fn reordered(message: &str) -> String {
    const INTRODUCTION: &str = "nodes are available: ";
    let Some((head, reasons)) = message.split_once(INTRODUCTION) else {
        return message.to_owned();
    };
    let end = reasons
        .find(". ")
        .unwrap_or(reasons.trim_end_matches('.').len());
    let (parts, tail) = reasons.split_at(end);
    let starts_with_digit = |part: &&str| part.starts_with(|c: char| c.is_ascii_digit());
    let mut parts: Vec<&str> = parts.split(", ").collect();
    if !parts.iter().all(starts_with_digit) {
        return message.to_owned();
    }
    parts.reverse();
    format!("{head}{INTRODUCTION}{}{tail}", parts.join(", "))
}
