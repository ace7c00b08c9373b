//! A name in text and the value after it.

use std::ops::Range;

use regex::Captures;

use super::secret_names::{NameStrength, holds_secret, is_secret_value, strength_of};
use super::secret_values::{
    TextValue, ValueEnd, is_count, is_number_of_tokens, number_before_pair, value_at,
};

/// A name in text, the separator after it, and the start of its value.
pub(super) struct Pair<'a> {
    pub(super) text: &'a str,
    pub(super) name: &'a str,
    pub(super) name_at: usize,
    pub(super) separator: &'a str,
    pub(super) value_at: usize,
}

impl<'a> Pair<'a> {
    pub(super) fn from_captures(text: &'a str, captures: &Captures<'a>) -> Option<Self> {
        let (name, separator) = (captures.name("n")?, captures.name("s")?);
        Some(Self {
            text,
            name: name.as_str(),
            name_at: name.start(),
            separator: separator.as_str(),
            value_at: separator.end(),
        })
    }

    pub(super) fn strength(&self) -> NameStrength {
        strength_of(self.name).strength
    }

    /// Returns true if the separator consists only of words, such as `is` or `will be`.
    pub(super) fn is_in_sentence(&self) -> bool {
        self.name.is_ascii() && !self.separator.contains([':', '=', '>', '：'])
    }

    /// Returns true for a sentence that states a password, such as `the password is x`. Such a
    /// password can be an ordinary word.
    pub(super) fn tells_password(&self) -> bool {
        let name = self.name.to_ascii_lowercase().replace([' ', '-'], "");
        let says = self.separator.trim().to_ascii_lowercase();
        let is_told = matches!(says.as_str(), "is" | "is now" | "equals") || says.ends_with(" to");
        is_told
            && matches!(
                name.as_str(),
                "password" | "passwd" | "passphrase" | "passcode" | "pin" | "pw" | "pwd"
            )
    }

    pub(super) fn before(&self) -> Option<char> {
        self.text[..self.name_at].chars().next_back()
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.value_at..]
    }

    /// Returns the value. In a list such as `token=None,lr=0.1`, a switch or count before a
    /// separator is a complete value.
    pub(super) fn value(&self, end: ValueEnd) -> TextValue {
        const LONGEST_SWITCH: usize = 8;
        let letters = self
            .rest()
            .bytes()
            .take(LONGEST_SWITCH + 1)
            .take_while(u8::is_ascii_alphabetic)
            .count();
        let is_alone = self.rest()[letters..].starts_with([',', ';', '&', ')']);
        if letters > 0
            && is_alone
            && !is_secret_value(NameStrength::Strong, &self.rest()[..letters])
        {
            return TextValue {
                span: self.value_at..self.value_at + letters,
                is_quoted: false,
            };
        }
        if let Some(number) = number_before_pair(self.rest()).filter(|number| self.counts(number)) {
            return TextValue {
                span: self.value_at..self.value_at + number.len(),
                is_quoted: false,
            };
        }
        value_at(self.text, self.value_at, end)
    }

    pub(super) fn has_quoted_name(&self) -> bool {
        self.separator.contains(['"', '\'', '`'])
    }

    /// Returns true for the name of a variable, such as `DB_PASS`, and false for a word in a
    /// sentence.
    pub(super) fn is_variable(&self) -> bool {
        self.name.len() > 1 && !self.name.contains(|c: char| c.is_lowercase())
    }

    /// Returns true if the value is a number and the name indicates a count.
    pub(super) fn counts(&self, value: &str) -> bool {
        let name = self.name.trim_end_matches('s').to_ascii_lowercase();
        // `PASS=12 FAIL=3` summarizes tests.
        let may_count = name.ends_with("token")
            || name.ends_with("secret")
            || self.name.eq_ignore_ascii_case("pass");
        (may_count && is_count(value))
            || (is_number_of_tokens(value) && strength_of(self.name).counts_tokens)
    }

    /// Returns the span of the value if it can be a secret with this name.
    pub(super) fn accepted(&self, value: TextValue) -> Option<Range<usize>> {
        let content = &self.text[value.span.clone()];
        (!self.counts(content) && holds_secret(self.name, content)).then_some(value.span)
    }
}
