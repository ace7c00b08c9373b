//! Prepares text from the cluster for display: escapes characters that a terminal interprets or
//! hides, and forms plurals.

use std::borrow::Cow;

/// Makes external text safe to display. Replaces line breaks and tabs with spaces, and escapes
/// control characters, direction marks, line separators and invisible characters.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| is_unsafe(c) || is_joiner(c)) {
        return Cow::Borrowed(text);
    }
    let mut result = String::new();
    let mut before = None;
    for (at, c) in text.char_indices() {
        match c {
            '\n' | '\t' | '\r' => result.push(' '),
            c if is_hidden(before, c, &text[at + c.len_utf8()..]) => {
                result.extend(c.escape_unicode());
            }
            c => result.push(c),
        }
        before = Some(c);
    }
    Cow::Owned(result)
}

/// Returns true for joiners and variation selectors, which emoji and Persian and Indic text need.
pub fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
}

/// Returns true for a character that is unsafe in its position. A joiner is legitimate after a
/// visible non-ASCII character, but between ASCII letters it would make two different names look
/// equal.
pub fn is_hidden(before: Option<char>, c: char, after: &str) -> bool {
    if !is_joiner(c) {
        return is_unsafe(c);
    }
    let is_visible =
        |c: char| !c.is_ascii() && !c.is_whitespace() && !is_unsafe(c) && !is_joiner(c);
    // An emoji can have a variation selector before the joiner. In keycap emoji (digit, U+FE0F,
    // U+20E3), the selector follows an ASCII character.
    let joins = c == '\u{200d}' && before == Some('\u{fe0f}');
    let is_keycap = c == '\u{fe0f}' && after.starts_with('\u{20e3}');
    let is_form = matches!(c, '\u{fe00}'..='\u{fe0f}');
    let has_purpose =
        before.is_some_and(is_visible) && (is_form || after.chars().next().is_some_and(is_visible));
    !(has_purpose || joins || is_keycap)
}

/// Returns true for characters that a terminal may interpret or hide.
pub fn is_unsafe(c: char) -> bool {
    // Bidirectional control characters can reorder a whole line. The others are invisible.
    c.is_control()
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{61c}')
        || matches!(c, '\u{feff}' | '\u{e0000}'..='\u{e0fff}' | '\u{200b}' | '\u{2060}'..='\u{206f}' | '\u{ad}')
        || matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{180b}'..='\u{180f}' | '\u{34f}' | '\u{115f}' | '\u{1160}')
        || matches!(
            c,
            '\u{17b4}' | '\u{17b5}' | '\u{3164}' | '\u{ffa0}' | '\u{1d173}'
                ..='\u{1d17a}' | '\u{2800}'
        )
}

/// Formats a number with a noun, such as `1 pod` or `2 pods`.
pub fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Returns true if a text is a valid namespace name, which is a DNS label (RFC 1123).
pub fn is_namespace(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=63).contains(&text.len())
        && text.chars().all(|c| edge(c) || c == '-')
        && text.starts_with(edge)
        && text.ends_with(edge)
}

/// Replaces characters that cannot be part of a name in Kubernetes, because people paste names into
/// shells. Kubernetes validates the names of objects, but not the names in owner references and
/// ConfigMaps.
pub fn plain_name(name: &str) -> Cow<'_, str> {
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':' | '@' | '/');
    if name.chars().all(is_plain) && !name.starts_with('-') {
        return Cow::Borrowed(name);
    }
    let replaced: String = name
        .chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .collect();
    Cow::Owned(
        replaced
            .strip_prefix('-')
            .map(|rest| format!("_{rest}"))
            .unwrap_or(replaced),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_a_dns_label() {
        for name in ["a", "team-a", "0", &"a".repeat(63)] {
            assert!(is_namespace(name), "{name}");
        }
        for text in [
            "",
            "Pml_A",
            "team.a",
            "-a",
            "a-",
            "a/b",
            "é",
            &"a".repeat(64),
        ] {
            assert!(!is_namespace(text), "{text}");
        }
    }
}
