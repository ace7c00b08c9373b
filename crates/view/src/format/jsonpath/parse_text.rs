//! Parses quoted text in templates.

use super::errors::JsonPathMistake;

/// Returns the position of the first matching character outside quotes and nested brackets.
pub(super) fn unquoted_end(
    chars: &[char],
    start: usize,
    is_end: impl Fn(char) -> bool,
) -> Option<usize> {
    let (mut quote, mut depth, mut is_escaped) = (None, 0_usize, false);
    for (index, c) in chars.iter().copied().enumerate().skip(start) {
        if is_escaped {
            is_escaped = false;
            continue;
        }
        match (c, quote) {
            ('\\', _) => is_escaped = true,
            (c, Some(open)) => quote = (c != open).then_some(open),
            (c, None) if depth == 0 && is_end(c) => return Some(index),
            ('"' | '\'', None) => quote = Some(c),
            ('[' | '(', None) => depth += 1,
            (']' | ')', None) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// Parses quoted text at `at` with Go's escape sequences, and moves `at` past it.
pub(super) fn quoted(chars: &[char], at: &mut usize) -> Result<String, JsonPathMistake> {
    let (start, quote) = (*at, chars[*at]);
    let mut text = String::new();
    loop {
        *at += 1;
        match chars.get(*at) {
            None => {
                return Err(JsonPathMistake {
                    message: format!("the text has no closing {quote}"),
                    position: start + 1,
                    hint: "",
                });
            }
            Some(c) if *c == quote => {
                *at += 1;
                return Ok(text);
            }
            Some('\\') => text.push(escaped(chars, at)?),
            Some(c) => text.push(*c),
        }
    }
}

/// Parses the escape sequence at `at`, and moves `at` to its last character.
fn escaped(chars: &[char], at: &mut usize) -> Result<char, JsonPathMistake> {
    let start = *at;
    let invalid = || JsonPathMistake {
        message: "invalid escape sequence".to_owned(),
        position: start + 1,
        hint: r"use \n, \t, \\, \' or a Unicode number such as \u00e9",
    };
    *at += 1;
    let digits = match chars.get(*at).ok_or_else(invalid)? {
        'n' => return Ok('\n'),
        't' => return Ok('\t'),
        'r' => return Ok('\r'),
        'a' => return Ok('\u{7}'),
        'b' => return Ok('\u{8}'),
        'f' => return Ok('\u{c}'),
        'v' => return Ok('\u{b}'),
        c @ ('\\' | '"' | '\'') => return Ok(*c),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        _ => return Err(invalid()),
    };
    let number = chars.get(*at + 1..=*at + digits).ok_or_else(invalid)?;
    let number: String = number.iter().collect();
    *at += digits;
    u32::from_str_radix(&number, 16)
        .ok()
        .and_then(char::from_u32)
        .ok_or_else(invalid)
}
