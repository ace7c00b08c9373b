//! Finds the end of a value in text, and recognizes values that are ordinary words, numbers or
//! masks.

use std::ops::Range;

/// Characters that end an unquoted value, in addition to white space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueEnd {
    /// None, as in shell arguments.
    Blank,
    /// `&` or `#`, as in the query of a URL.
    Query,
    /// The separators of a list, as in `a=1,b=2`.
    List,
}

impl ValueEnd {
    fn includes(self, letter: u8) -> bool {
        match self {
            Self::Blank => false,
            Self::Query => matches!(letter, b'&' | b'#' | b'<' | b'>'),
            Self::List => matches!(letter, b',' | b';' | b'&' | b'<' | b'>'),
        }
    }
}

/// The span of a value's content in text, and whether the value is quoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TextValue {
    pub span: Range<usize>,
    pub is_quoted: bool,
}

/// Finds the value that starts at `at`. Prefixes of string literals in Python and C#, as in `b'x'`,
/// do not belong to the value.
pub(super) fn value_at(text: &str, at: usize, end: ValueEnd) -> TextValue {
    let bytes = text.as_bytes();
    let letters = bytes[at..]
        .iter()
        .take(2)
        .take_while(|letter| b"bBrRuUfF$@".contains(letter))
        .count();
    let starts = [at, at + letters.min(1), at + letters];
    let quoted = starts.into_iter().find_map(|start| quoted_at(text, start));
    quoted.unwrap_or_else(|| TextValue {
        span: at..end_of_word(text, at, end),
        is_quoted: false,
    })
}

/// Finds a quoted value at `start`. Its quotes can be escaped, as in JSON inside JSON.
fn quoted_at(text: &str, start: usize) -> Option<TextValue> {
    let bytes = text.as_bytes();
    let level = bytes[start..]
        .iter()
        .take_while(|byte| **byte == b'\\')
        .count();
    let quote = *bytes
        .get(start + level)
        .filter(|byte| matches!(byte, b'"' | b'\'' | b'`'))?;
    let content = start + level + 1;
    // Python's triple quotes.
    if level == 0 && bytes[content..].starts_with(&[quote, quote]) {
        let triple = &text[start..content + 2];
        let length = text[content + 2..]
            .find(triple)
            .unwrap_or(text.len() - content - 2);
        return Some(TextValue {
            span: content + 2..content + 2 + length,
            is_quoted: true,
        });
    }
    let end =
        closing_quote(bytes, content, quote, level).unwrap_or_else(|| end_of_line(text, content));
    Some(TextValue {
        span: content..end,
        is_quoted: true,
    })
}

/// Finds the end of a value whose quotes are escaped by `level` backslashes. Each level of escaping
/// doubles the backslashes in the value, so their number distinguishes a quote in the value from
/// the closing quote.
pub(super) fn closing_quote(
    bytes: &[u8],
    content: usize,
    quote: u8,
    level: usize,
) -> Option<usize> {
    let (mut slashes, mut at) = (0, content);
    while at < bytes.len() {
        let byte = bytes[at];
        if byte == quote {
            let is_escaped = slashes > level
                && (slashes - level).is_multiple_of(level + 1)
                && (slashes - level) / (level + 1) % 2 == 1;
            // YAML and SQL escape a single quote by doubling it.
            let is_doubled =
                quote == b'\'' && level == 0 && at > content && bytes.get(at + 1) == Some(&quote);
            if is_doubled {
                at += 1;
            } else if !is_escaped {
                return Some(at - slashes.min(level));
            }
        }
        slashes = if byte == b'\\' { slashes + 1 } else { 0 };
        at += 1;
    }
    None
}

/// Finds the end of an unquoted value. A quote ends the value if the surrounding text is quoted.
/// Otherwise it starts a quoted part, as in the shell's `ab"c d"`.
fn end_of_word(text: &str, start: usize, end: ValueEnd) -> usize {
    let bytes = text.as_bytes();
    let mut at = start;
    while at < bytes.len() && !bytes[at].is_ascii_whitespace() && !end.includes(bytes[at]) {
        if matches!(bytes[at], b'"' | b'\'' | b'`') {
            let next = bytes.get(at + 1).copied().unwrap_or(b' ');
            if end == ValueEnd::Query || !(next.is_ascii_alphanumeric() || next == b'$') {
                break;
            }
            let line = &bytes[at + 1..near_end_of_line(text, at + 1)];
            at += line
                .iter()
                .position(|byte| *byte == bytes[at])
                .map_or(0, |length| length + 1);
        }
        at += 1;
    }
    // Trailing brackets and separators belong to the surrounding text.
    let word = &text[start..at];
    start + word.trim_end_matches(['}', ')', ']', ',', ';', '\\']).len()
}

/// Returns the end of the line that contains `at`.
pub(super) fn end_of_line(text: &str, at: usize) -> usize {
    text[at..]
        .find('\n')
        .map_or(text.len(), |length| at + length)
}

/// Returns the end of the line that contains `at`, or a position at a limited distance in a very
/// long line. Callers search once per name, so scanning long lines completely would take quadratic
/// time.
pub(super) fn near_end_of_line(text: &str, at: usize) -> usize {
    const DISTANCE: usize = 4096;
    let mut limit = text.len().min(at + DISTANCE);
    while !text.is_char_boundary(limit) {
        limit -= 1;
    }
    end_of_line(&text[..limit], at)
}

/// Returns the indentation of the line that contains `at`, and the text between the indentation and
/// `at`. Looks back over a limited distance only, because a text can be a single long line.
pub(super) fn line_before(text: &str, at: usize) -> (usize, &str) {
    const DISTANCE: usize = 256;
    let mut from = at.saturating_sub(DISTANCE);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let line = text[from..at].rsplit('\n').next().unwrap_or_default();
    let rest = line.trim_start_matches([' ', '\t']);
    (line.len() - rest.len(), rest)
}

/// Finds the YAML block scalar whose `
/// ` or `>` is at `at`: the following lines that are indented by more than `indent`.
pub(super) fn block_at(text: &str, at: usize, indent: usize) -> Option<Range<usize>> {
    let header = text[at..near_end_of_line(text, at)].trim_end();
    // Indicators for indentation and chomping can follow the style, as in `
    // 2-`.
    let is_header = header.starts_with(['|', '>'])
        && header.len() < 4
        && !header[1..].contains(|c: char| c.is_alphabetic());
    if !is_header {
        return None;
    }
    let start = end_of_line(text, at) + 1;
    let mut end = start;
    for line in text.get(start..)?.split_inclusive('\n') {
        let blanks = line.len() - line.trim_start_matches([' ', '\t']).len();
        if blanks <= indent && !line.trim().is_empty() {
            break;
        }
        end += line.len();
    }
    let block = &text[start..end];
    let content = start + block.len() - block.trim_start().len();
    Some(content..start + block.trim_end().len()).filter(|span| span.start < span.end)
}

/// Returns true for ordinary words in a message, as in `token is expired` and `password: wrong`.
pub(super) fn is_word_of_a_message(value: &str) -> bool {
    #[rustfmt::skip]
    const WORDS: [&str; 171] = [
        "a", "about", "absent", "accepted", "access", "already", "also", "always", "an", "and", "are", "as",
        "at", "available", "bad", "be", "because", "been", "before", "being", "by", "cached", "can", "cannot",
        "changed", "check", "configured", "connection", "context", "correct", "could", "couldn't", "created",
        "defined", "deleted", "denied", "deprecated", "different", "disabled", "does", "eof", "empty",
        "encrypted", "enter", "error", "expected", "expire", "expired", "expires", "expiring", "failed",
        "failure", "fetching", "for", "forbidden", "found", "from", "generated", "generating", "given", "has",
        "hashed", "have", "hidden", "http", "i/o", "if", "ignored", "in", "incorrect", "invalid", "is", "it",
        "its", "known", "loaded", "login", "longer", "malformed", "managed", "masked", "may", "mismatch",
        "missing", "mounted", "must", "name", "needed", "never", "no", "not", "now", "of", "ok", "on", "only",
        "operation", "optional", "or", "permission", "please", "pods", "present", "provided", "rbac", "read",
        "reading", "ready", "received", "redacted", "refreshed", "rejected", "request", "required", "requires",
        "response", "retrying", "revoked", "rotated", "rpc", "same", "saved", "secret", "secrets", "see",
        "serviceaccount", "serviceaccounts", "set", "should", "signature", "skipped", "skipping", "specified",
        "status", "still", "stored", "succeeded", "success", "successful", "supported", "that", "the", "they",
        "this", "timed", "timeout", "to", "too", "unable", "unauthorized", "undefined", "unexpected",
        "unknown", "unset", "unsupported", "updated", "used", "user", "using", "valid", "value", "verified",
        "was", "weak", "webhook", "when", "will", "with", "wrong", "your", "you",
    ];
    WORDS.contains(
        &value
            .to_ascii_lowercase()
            .trim_end_matches(['.', ':', ',', '!', ')', ';']),
    )
}

/// Returns true for a number with an optional unit.
pub(super) fn is_count(value: &str) -> bool {
    const UNITS: [&str; 14] = [
        "", "k", "m", "b", "t", "/s", "%", "s", "ms", "us", "it/s", "tok/s", "x", "k/s",
    ];
    let unit =
        value.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '_'));
    let number = &value[..value.len() - unit.len()];
    let is_number = number.starts_with(|c: char| c.is_ascii_digit()) && number.len() < 16;
    let is_short = value.len() < 7 || number.contains([',', '_']) || !unit.is_empty();
    is_number && is_short && UNITS.contains(&unit.to_ascii_lowercase().as_str())
}

/// Returns true for a number of tokens after a name such as `tokens`. Unlike `is_count`, accepts
/// long numbers without separators.
pub(super) fn is_number_of_tokens(value: &str) -> bool {
    const LONGEST: usize = 15;
    is_count(value)
        || (value.len() <= LONGEST && value.replace([',', '_'], "").parse::<f64>().is_ok())
}

/// Returns the number at the start of a list of pairs, such as `1.5` in `1.5,lr=0.1`. Reads a
/// limited distance only, because callers search once per name in a long list.
pub(super) fn number_before_pair(text: &str) -> Option<&str> {
    const LONGEST_NUMBER: usize = 15;
    const LONGEST_NAME: usize = 64;
    let bytes = text.as_bytes();
    let is_inner = |at: usize| {
        let is_thousands = bytes[at] == b',' && bytes.get(at + 1).is_some_and(u8::is_ascii_digit);
        is_thousands
            || bytes[at].is_ascii_alphanumeric()
            || matches!(bytes[at], b'.' | b'_' | b'+' | b'-' | b'/' | b'%')
    };
    let length = (0..bytes.len().min(LONGEST_NUMBER + 1))
        .take_while(|at| is_inner(*at))
        .count();
    let is_separated = matches!(bytes.get(length), Some(b',' | b';' | b'&'));
    let rest = bytes.get(length + 1..)?;
    let name = rest
        .iter()
        .take(LONGEST_NAME)
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"_.-/\"'".contains(byte))
        .count();
    let is_pair = name > 0 && matches!(rest.get(name), Some(b'=' | b':'));
    (is_separated && is_pair).then(|| &text[..length])
}

/// Returns true for values that look like ordinary words of a sentence: `packed`, `left-padded`,
/// `Done.`.
pub(super) fn is_plain_word(value: &str) -> bool {
    const LONGEST: usize = 24;
    let word = value.trim_end_matches(['.', ',', ':', ';', '!', '?', ')']);
    let is_inner =
        |letter: char| letter.is_lowercase() || matches!(letter, '-' | '/' | '\'' | '\u{2019}');
    word.len() <= LONGEST
        && word.starts_with(char::is_alphabetic)
        && word.chars().skip(1).all(is_inner)
}

/// Returns true for values that are already masked.
pub(super) fn is_masked(value: &str) -> bool {
    value.starts_with("[redacted") || (value.len() > 1 && value.bytes().all(|byte| byte == b'*'))
}
