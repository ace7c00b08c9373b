//! Finds the values of fields in YAML, JSON and prose, such as `token: x` or `"token":"x"`.

use std::ops::Range;

use super::pair::Pair;
use super::secret_names::NameStrength;
use super::secret_values::{
    ValueEnd, block_at, end_of_line, is_count, is_word_of_a_message, line_before, near_end_of_line,
    value_at,
};

/// Returns the value in `token: x` or `"token":"x"`. Ignores `token:1.2`, which is an image with a
/// tag.
pub(super) fn field(pair: &Pair<'_>) -> Option<Range<usize>> {
    let is_path = pair.before() == Some('/') && pair.separator == ":";
    let is_place =
        is_path || pair.rest().starts_with([':', '{', '=']) || pair.rest().starts_with("//");
    if is_place || !is_field_name(pair) {
        return None;
    }
    if let Some(block) = block_at(
        pair.text,
        pair.value_at,
        line_before(pair.text, pair.name_at).0,
    ) {
        return Some(block);
    }
    if pair.rest().starts_with(['\n', '\r']) {
        return next_line(pair);
    }
    let is_collection = pair.rest().starts_with('[') && matches!(pair.name, "tokens" | "secrets");
    let value = pair.value(if pair.has_quoted_name() {
        ValueEnd::List
    } else {
        ValueEnd::Blank
    });
    let content = &pair.text[value.span.clone()];
    // Documents put commands in backticks: "keep it in a secret: `gpuctl create secret x`".
    let is_command = pair.rest().starts_with('`') && content.contains(' ');
    let is_word =
        is_command || (!value.is_quoted && (is_word_of_a_message(content) || is_type(content)));
    if is_collection || is_word || (!value.is_quoted && is_reference(pair, content)) {
        return None;
    }
    let is_phrase = !value.is_quoted && is_phrase_of_yaml(pair);
    pair.accepted(value).map(|span| {
        if is_phrase {
            span.start..end_of_phrase(pair)
        } else {
            span
        }
    })
}

fn is_field_name(pair: &Pair<'_>) -> bool {
    // Everyday words, which indicate a secret only in names of variables and in the `auths` of a
    // Docker config.
    const PROSE: [&str; 8] = ["pwd", "pw", "cred", "creds", "jwt", "pass", "psk", "otp"];
    let name = pair.name.to_ascii_lowercase();
    let is_compound = pair.name.contains('_')
        || !matches!(
            name.as_str(),
            "key" | "keys" | "auth" | "login" | "license" | "pin"
        );
    match pair.strength() {
        NameStrength::Strong => true,
        NameStrength::Weak => {
            PROSE
                .iter()
                .any(|word| name == *word || name.ends_with(&format!("_{word}")))
                || (pair.has_quoted_name() && name == "auth")
                || (pair.is_variable() && is_compound)
        }
        NameStrength::None => false,
    }
}

/// Returns true if a value is a type, as in `token: str = "x"`.
fn is_type(value: &str) -> bool {
    matches!(
        value,
        "str" | "string" | "String" | "bytes" | "SecretStr" | "&str"
    ) || value.starts_with("Optional[")
}

/// Returns true if an unquoted value directly after `name:` is an image tag, a line number in a
/// source file, or the name of a Secret.
fn is_reference(pair: &Pair<'_>, value: &str) -> bool {
    if pair.separator != ":" {
        return false;
    }
    // Object names have at most 253 characters (RFC 1123 subdomains).
    const LONGEST_NAME: usize = 254;
    let name = pair.name.to_ascii_lowercase();
    let is_version = value == "latest"
        || value
            .trim_start_matches('v')
            .starts_with(|c: char| c.is_ascii_digit());
    let is_object = value.len() < LONGEST_NAME
        && matches!(name.as_str(), "secret" | "secrets")
        && !value.contains(|c: char| c.is_uppercase() || c.is_ascii_digit());
    let is_tagged =
        is_version && value.len() < 16 && (name.ends_with("token") || name.ends_with("secret"));
    is_tagged || is_object || (pair.strength() == NameStrength::Weak && is_count(value))
}

/// Returns a value on the line after its name, as in indented JSON. If that line contains another
/// key, the value is an object and not a secret.
fn next_line(pair: &Pair<'_>) -> Option<Range<usize>> {
    let blanks = pair.rest().len() - pair.rest().trim_start().len();
    let value = value_at(pair.text, pair.value_at + blanks, ValueEnd::Blank);
    let line = &pair.text[value.span.start..near_end_of_line(pair.text, value.span.start)];
    let is_nested = line.starts_with(['-', '{', '[', '#'])
        || line.trim_end().ends_with(':')
        || line.contains(": ");
    let is_indented =
        line_before(pair.text, value.span.start).0 > line_before(pair.text, pair.name_at).0;
    let is_value = value.is_quoted
        || (is_indented && !is_nested && !is_word_of_a_message(&pair.text[value.span.clone()]));
    if is_value { pair.accepted(value) } else { None }
}

/// Returns true for a YAML line whose value may contain spaces, such as `password: two words`.
fn is_phrase_of_yaml(pair: &Pair<'_>) -> bool {
    let name = pair.name.to_ascii_lowercase();
    let is_password = ["password", "passwd", "passphrase", "passcode", "pswd"]
        .iter()
        .any(|end| name.ends_with(end));
    is_password
        && pair.separator == ": "
        && matches!(line_before(pair.text, pair.name_at).1, "" | "- ")
}

fn end_of_phrase(pair: &Pair<'_>) -> usize {
    let line = &pair.text[pair.value_at..end_of_line(pair.text, pair.value_at)];
    pair.value_at + line.split(" #").next().unwrap_or(line).trim_end().len()
}
