//! Tables of the error messages of runtimes, launchers, servers and systems. Each row matches a
//! literal form of one project.

use std::sync::LazyLock;

use regex::bytes::{RegexSet, RegexSetBuilder};

use super::error::{ErrorPattern, Strength};

mod distributed;
mod languages;
mod launchers;
mod noise;
mod python;
mod serving;
mod system;

/// The tables in order of precedence. Headers and consequences come first, because their lines
/// often name an error, too.
const FAMILIES: [&[ErrorPattern]; 7] = [
    launchers::PATTERNS,
    serving::HEADERS,
    distributed::PATTERNS,
    python::PATTERNS,
    serving::PATTERNS,
    system::PATTERNS,
    languages::PATTERNS,
];

/// Upper bound on the memory of the compiled tables. With less, the search falls back to a slower
/// algorithm.
const CACHE_BYTES: usize = 64 << 20;

fn set<'a>(patterns: impl IntoIterator<Item = &'a str>) -> RegexSet {
    let mut builder = RegexSetBuilder::new(patterns);
    // The messages are in ASCII. Unicode classes would make the automaton many times larger.
    builder.unicode(false).dfa_size_limit(CACHE_BYTES);
    builder
        .size_limit(CACHE_BYTES)
        .build()
        .expect("the patterns are tested")
}

static ERRORS: LazyLock<RegexSet> = LazyLock::new(|| {
    let rows = FAMILIES.iter().copied().flatten();
    set(rows.map(|(pattern, _)| *pattern))
});
static STRENGTHS: LazyLock<Vec<Strength>> = LazyLock::new(|| {
    let rows = FAMILIES.iter().copied().flatten();
    rows.map(|(_, strength)| *strength).collect()
});
static HARMLESS: LazyLock<RegexSet> = LazyLock::new(|| set(noise::PATTERNS.iter().copied()));
static WARNINGS: LazyLock<RegexSet> = LazyLock::new(|| {
    set(distributed::NCCL_WARNINGS
        .iter()
        .map(|(pattern, _)| *pattern))
});

/// Returns what the line proves. `None` if no table has its form.
pub(super) fn strength(text: &str) -> Option<Strength> {
    let first = ERRORS.matches(text.as_bytes()).iter().next()?;
    Some(STRENGTHS[first])
}

/// Returns whether the line looks like an error and is known to be harmless.
pub(super) fn is_harmless(text: &str) -> bool {
    HARMLESS.is_match(text.as_bytes())
}

/// Returns whether the line is a watchdog's about a collective in which other ranks are missing.
pub(super) fn is_timeout(line: &str) -> bool {
    distributed::TIMEOUTS
        .iter()
        .any(|words| line.contains(words))
}

/// Returns what a warning of NCCL or RCCL proves. `None` if the program survives it.
pub(super) fn warning_strength(message: &str) -> Option<Strength> {
    let first = WARNINGS.matches(message.as_bytes()).iter().next()?;
    Some(distributed::NCCL_WARNINGS[first].1)
}
