//! Finds secrets in text such as commands, logs, events, annotations and error messages:
//! credentials with a known form, values after names that indicate a secret, headers, and arguments
//! of programs.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::secret_headers::add_headers;
use super::secret_pairs::add_pairs;
use super::secret_shapes::add_shapes;
use super::secret_tools::add_tools;
use super::secret_values::is_masked;

/// Replacement for a secret where other people may read it.
const REDACTED: &str = "[redacted]";

/// Substrings of every name that indicates a secret. Text without them contains no pairs and no
/// headers.
static STEMS: LazyLock<Regex> = LazyLock::new(|| {
    let stems = "tok|pass|secret|key|cred|auth|pat|licen|login|pwd|pw|bearer|jwt|cookie|sig|hook|otp|pin|psk|sas|pswd|identified|literal\
                 |密码|口令|令牌|密钥";
    Regex::new(&format!("(?i){stems}")).expect("the pattern is tested")
});

/// Returns the spans of all secrets in a text, in order and without overlaps.
pub fn secret_spans(text: &str) -> Vec<Range<usize>> {
    let mut spans: Vec<Range<usize>> = Vec::new();
    add_shapes(text, &mut spans);
    // Most texts in a cluster are names, times and images, which this check excludes cheaply.
    if has_separator(text) && STEMS.is_match(text) {
        add_pairs(text, &mut spans);
        add_headers(text, &mut spans);
    }
    if text.contains([' ', '\t', '\n', '|']) {
        add_tools(text, &mut spans);
    }
    spans.retain(|span| !span.is_empty() && !is_masked(&text[span.clone()]));
    // Of several spans with the same start, the longest comes first and absorbs the others.
    spans.sort_by_key(|span| (span.start, std::cmp::Reverse(span.end)));
    let mut merged: Vec<Range<usize>> = Vec::new();
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.start < last.end => last.end = last.end.max(span.end),
            _ => merged.push(span),
        }
    }
    merged
}

/// Returns true if a text can contain a name and a value.
fn has_separator(text: &str) -> bool {
    text.bytes()
        .any(|byte| !byte.is_ascii_alphanumeric() && !b"-_./+".contains(&byte))
}

/// Replaces the secrets in a text, or returns `None` if it contains none.
pub fn scrubbed(text: &str) -> Option<String> {
    let spans = secret_spans(text);
    if spans.is_empty() {
        return None;
    }
    let (mut clean, mut end) = (String::with_capacity(text.len()), 0);
    for span in spans {
        clean.push_str(&text[end..span.start]);
        clean.push_str(REDACTED);
        end = span.end;
    }
    clean.push_str(&text[end..]);
    Some(clean)
}
