//! Matches whole messages of other programs. A fragment such as `401` or `not found` is not
//! evidence, because it may be part of a name, a digest or an unrelated sentence.

/// Text of a message of another program, with `{}` for any text, and the name of its cause.
pub(super) type MessagePattern = (&'static str, &'static str);

/// Matches a whole message against a pattern. Returns the text for each `{}`, or `None` if the
/// message differs.
pub(super) fn captures<'m>(pattern: &str, message: &'m str) -> Option<Vec<&'m str>> {
    let mut literals = pattern.split("{}");
    let mut rest = message.strip_prefix(literals.next().unwrap_or_default())?;
    let literals: Vec<&str> = literals.collect();
    let Some((last, inner)) = literals.split_last() else {
        return rest.is_empty().then(Vec::new);
    };
    let mut texts = Vec::new();
    for literal in inner {
        let (text, after) = rest.split_once(literal)?;
        texts.push(text);
        rest = after;
    }
    texts.push(rest.strip_suffix(last)?);
    Some(texts)
}

/// Returns the name of the cause of the first pattern that matches the whole message.
pub(super) fn word_of(patterns: &[MessagePattern], message: &str) -> Option<&'static str> {
    patterns
        .iter()
        .find(|(pattern, _)| captures(pattern, message).is_some())
        .map(|(_, word)| *word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_messages_match() {
        assert_eq!(captures("a {} c", "a b c"), Some(vec!["b"]));
        assert_eq!(captures("{}: {}", "x: y: z"), Some(vec!["x", "y: z"]));
        assert_eq!(captures("exact", "exact"), Some(Vec::new()));
        assert_eq!(
            captures("LocalQueue {} gone", "LocalQueue  gone"),
            Some(vec![""])
        );
        assert_eq!(captures("exact", "exactly"), None);
        assert_eq!(captures("{} not found", "x not found here"), None);
        assert_eq!(captures("a{}a", "a"), None);
    }
}
