//! Finds the values of HTTP headers with credentials. Such a value extends to the end of the line
//! or to the closing quote, because it can contain spaces, for example after a scheme such as
//! `token` or between cookies.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::secret_names::{NameStrength, is_secret_value};
use super::secret_values::{
    ValueEnd, closing_quote, end_of_line, is_count, is_masked, is_word_of_a_message, line_before,
    value_at,
};

static HEADER: LazyLock<Regex> = LazyLock::new(|| {
    let long = r"(?:proxy-|x-)?authorization|(?:set-)?cookie2?";
    let short = r"x-[0-9a-z_-]*(?:token|key|secret|auth|signature|credentials?|password)|(?:private|job|deploy)-token|api-?key|ocp-apim-subscription-key";
    let separator = r#"\\{0,7}["'`]?[ \t]*(?::|=>?)[ \t]*|\\{0,3}["'][ \t]*,[ \t]*|[ \t]+"#;
    Regex::new(&format!(
        r"(?i)(?-u:\b)(?:(?P<long>{long})|(?:{short}))(?P<s>{separator})"
    ))
    .expect("the pattern is tested")
});

/// Adds the spans of the values of credential headers.
pub(super) fn add_headers(text: &str, spans: &mut Vec<Range<usize>>) {
    let mut at = 0;
    while let Some(captures) = HEADER.captures_at(text, at) {
        let (Some(header), Some(separator)) = (captures.get(0), captures.name("s")) else {
            break;
        };
        at = header.end();
        let value = match captures.name("long") {
            Some(name) => long_value(text, name.start(), separator.as_str(), at),
            None => short_value(text, separator.as_str(), at),
        };
        let Some(span) = value else { continue };
        at = at.max(span.end);
        if is_credential(&text[span.clone()]) {
            spans.push(span);
        }
    }
}

/// Returns the value of a header that may contain spaces.
fn long_value(text: &str, name_at: usize, separator: &str, at: usize) -> Option<Range<usize>> {
    let value = value_at(text, at, ValueEnd::Blank);
    if value.is_quoted {
        return Some(value.span);
    }
    // `cookie=x` is a parameter, and a header name without a separator is part of a sentence.
    let is_header = separator.contains(':')
        || (separator.contains('=') && text[name_at..at].to_ascii_lowercase().contains("auth"));
    // Check the first word before searching the end of the line, because one long line can contain
    // many headers.
    if !is_header || text[at..].starts_with('{') || !is_credential(&text[at..value.span.end]) {
        return None;
    }
    let line = text[at..end_of_line(text, at)].trim_end();
    // Go prints the values of a header as a list in brackets.
    if line.starts_with('[') && !is_masked(line) {
        return Some(at + 1..at + line.rfind(']').unwrap_or(line.len()));
    }
    let end = enclosing_quote(text, name_at)
        .and_then(|(quote, level)| closing_quote(text.as_bytes(), at, quote, level));
    Some(at..end.map_or(at + line.len(), |end| end.min(at + line.len())))
}

/// Returns the value of a header that is a single word.
fn short_value(text: &str, separator: &str, at: usize) -> Option<Range<usize>> {
    let value = value_at(text, at, ValueEnd::Blank);
    (value.is_quoted || separator.contains(':')).then_some(value.span)
}

/// Returns the quote that was opened before a header, as in `-H "Authorization: x"`, and the number
/// of backslashes before the quote.
fn enclosing_quote(text: &str, name_at: usize) -> Option<(u8, usize)> {
    let line = line_before(text, name_at).1;
    let opening = line.rfind(['"', '\'', '`'])?;
    let before = line[..opening].trim_end_matches('\\');
    let opens = before.is_empty()
        || before.ends_with([' ', '\t', '=', '(', '[', '{', ',', ':', '$', '"', '\'', 'H']);
    opens.then_some((line.as_bytes()[opening], opening - before.len()))
}

/// Returns true if a value is a credential, and false for messages such as `Authorization:
/// missing`.
fn is_credential(value: &str) -> bool {
    let value = value.trim();
    let first = value.split_whitespace().next().unwrap_or_default();
    let rest = value[first.len()..].trim_start();
    let is_message =
        is_word_of_a_message(first) || is_masked(first) || is_masked(rest) || is_count(first);
    !is_message && !first.is_empty() && is_secret_value(NameStrength::Strong, value)
}
