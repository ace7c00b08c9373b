//! Truncates text from servers and other programs before it becomes part of a message.

use std::borrow::Cow;

/// Maximum length of a message from a server in bytes.
pub const SERVER_MESSAGE: usize = 4 << 10;
/// Maximum length of one part of an error in bytes. A message from a server fits with its context.
pub(crate) const ERROR_PART: usize = 8 << 10;
/// Maximum length of a line on stderr in bytes. An error fits with its causes.
pub const LINE: usize = 32 << 10;

/// Truncates `text` to about `limit` bytes and states the number of omitted bytes. Keeps the end of
/// the text too, because the API server puts the reason there: `spec.template: Invalid value:
/// {...}: field is immutable`.
pub fn excerpt(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    // Take three quarters of the excerpt from the start of the text, and one quarter from its end.
    let end = text.floor_char_boundary(limit - limit / 4);
    let rest = text.ceil_char_boundary(text.len() - limit / 4);
    Cow::Owned(format!(
        "{}… ({} more bytes) …{}",
        &text[..end],
        rest - end,
        &text[rest..]
    ))
}

/// Truncates an owned text like `excerpt`, without copying a short one.
pub fn shortened(text: String, limit: usize) -> String {
    match excerpt(&text, limit) {
        Cow::Borrowed(_) => text,
        Cow::Owned(cut) => cut,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_at_a_character_and_counts_the_rest() {
        assert_eq!(excerpt("short", 5), "short");
        assert_eq!(excerpt("模型模型", 4), "模… (9 more bytes) …");
        let long = "x".repeat(20 << 20);
        let cut = shortened(long, SERVER_MESSAGE);
        assert!(
            cut.len() < SERVER_MESSAGE + 40 && cut.contains("(20967424 more bytes)"),
            "{}",
            cut.len()
        );
        assert_eq!(
            shortened(cut.clone(), ERROR_PART),
            cut,
            "the note is not cut again"
        );
    }
}
