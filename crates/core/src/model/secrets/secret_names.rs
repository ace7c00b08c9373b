//! Determines from the name of a variable, flag or key whether its value is a secret.

use super::name_words::{
    AFTER_KEYS, COUNTS, DESCRIPTIONS, EXTENSIONS, FILE_NAMES, FINAL_ONLY, KEY_LETTERS, KEY_OWNERS,
    NO_PLURAL, PLAIN_KEYS, PLAIN_PASSES, PLAIN_TOKENS, STRONG_ENDS, WEAK,
};
use super::secret_values::is_number_of_tokens;

/// How reliably a name indicates a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NameStrength {
    /// The name does not indicate a secret.
    None,
    /// The name indicates a secret in a flag or variable, but is an everyday word in prose and API
    /// objects, such as `key` or `login`.
    Weak,
    /// The name indicates a secret everywhere, such as `password` or `api_key`.
    Strong,
}

/// Classification of a name. Comparing it with a [`NameStrength`] compares only the strength.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    pub strength: NameStrength,
    /// True if a number after the name is a number of tokens, as in `tokens=8388608`.
    pub counts_tokens: bool,
}

impl From<NameStrength> for Announcement {
    fn from(strength: NameStrength) -> Self {
        Self {
            strength,
            counts_tokens: false,
        }
    }
}

impl PartialEq<NameStrength> for Announcement {
    fn eq(&self, strength: &NameStrength) -> bool {
        self.strength == *strength
    }
}

/// Classifies a name such as `--wandb-key`, `HF_TOKEN`, `NotebookApp.token` or `clientSecret`.
pub fn strength_of(name: &str) -> Announcement {
    let words = words_of(name);
    let Some(last) = words.last() else {
        return NameStrength::None.into();
    };
    let is_file = name
        .rsplit_once('.')
        .is_some_and(|(_, extension)| EXTENSIONS.contains(&extension));
    // Vault's AppRole has a `secret_id`, which is a password. Other ids are public.
    let is_secret_id = words.len() > 1 && last == "id" && words[words.len() - 2] == "secret";
    if is_secret_id {
        return NameStrength::Strong.into();
    }
    // `secretName` and `--token-file` only refer to a secret, while `TOKEN_1` and `password2`
    // contain one.
    if is_file || DESCRIPTIONS.contains(&last.as_str()) {
        return NameStrength::None.into();
    }
    let strengths: Vec<NameStrength> = (0..words.len())
        .map(|index| strength_in(&words, index))
        .collect();
    // In `password_tokens` and `auth_tokens`, another word than `tokens` indicates a secret.
    let counts_tokens =
        strengths
            .iter()
            .zip(&words)
            .enumerate()
            .all(|(index, (strength, word))| {
                let is_counted = word.ends_with("tokens")
                    || (word.ends_with("token") && index + 1 < words.len());
                *strength == NameStrength::None || is_counted
            });
    Announcement {
        strength: strengths.into_iter().max().unwrap_or(NameStrength::None),
        counts_tokens,
    }
}

/// Classifies one word of a name, considering its neighbors.
fn strength_in(words: &[String], index: usize) -> NameStrength {
    let written = words[index].as_str();
    let singular = written
        .strip_suffix('s')
        .filter(|word| !word.ends_with('s') && !NO_PLURAL.contains(word));
    let word = if WEAK.contains(&written) {
        written
    } else {
        singular.unwrap_or(written)
    };
    let before = index
        .checked_sub(1)
        .map_or("", |before| words[before].as_str());
    let after = words.get(index + 1).map_or("", String::as_str);
    if let Some(start) = word.strip_suffix("token") {
        return strength_of_token(&words[..index], start, written != word, after);
    }
    // `imagePullSecret` and `tlsSecret` contain the name of a Secret instead of a secret value.
    if word == "secret" && matches!(before, "pull" | "tls")
        || word.ends_with("pullsecret")
        || word == "tlssecret"
    {
        return NameStrength::None;
    }
    if STRONG_ENDS.iter().any(|end| word.ends_with(end)) {
        return NameStrength::Strong;
    }
    match word.strip_suffix("key") {
        Some(_) if AFTER_KEYS.contains(&after) => NameStrength::None,
        Some("") => strength_of_key(before, false),
        Some(start) => strength_of_key(start, true),
        None => strength_of_word(word, before, after.is_empty()),
    }
}

/// Classifies `token` by the words before and after it. `start` is the text joined to it, as in
/// `hftoken`.
fn strength_of_token(before: &[String], start: &str, is_plural: bool, after: &str) -> NameStrength {
    let owner = if start.is_empty() {
        before.last().map_or("", String::as_str)
    } else {
        start
    };
    let is_counted = is_plural
        && before
            .iter()
            .rev()
            .take(4)
            .any(|word| COUNTS.contains(&word.as_str()));
    // `tokens_seen` is a count, but `HF_TOKENS_PROD` is a list of secrets.
    let is_qualified = is_plural && !after.is_empty() && !KEY_OWNERS.contains(&owner);
    match PLAIN_TOKENS.contains(&owner) || is_counted || is_qualified || after == "per" {
        true => NameStrength::None,
        false => NameStrength::Strong,
    }
}

/// Classifies `key` by the word before it, which can be joined to it, as in `WANDBKEY` and
/// `monkey`.
fn strength_of_key(owner: &str, is_glued: bool) -> NameStrength {
    if PLAIN_KEYS.contains(&owner) || (is_glued && KEY_LETTERS.contains(&owner)) {
        return NameStrength::None;
    }
    if KEY_OWNERS.contains(&owner) {
        NameStrength::Strong
    } else {
        NameStrength::Weak
    }
}

/// Classifies a word other than `token` and `key`, such as `pin`, or `DBPASS` with an owner joined
/// to it.
fn strength_of_word(word: &str, before: &str, is_last: bool) -> NameStrength {
    if word == "pass" && PLAIN_PASSES.contains(&before) || FINAL_ONLY.contains(&word) && !is_last {
        return NameStrength::None;
    }
    if WEAK.contains(&word) {
        return NameStrength::Weak;
    }
    if let Some(owner) = word.strip_suffix("pass") {
        return if PLAIN_PASSES.contains(&owner) {
            NameStrength::None
        } else {
            NameStrength::Strong
        };
    }
    // Shells store the previous directory in `OLDPWD`.
    let is_glued = (word.ends_with("pw") || word.ends_with("pwd") || word.ends_with("psk"))
        && word != "oldpwd";
    if is_glued {
        NameStrength::Strong
    } else {
        NameStrength::None
    }
}

/// Returns true if an environment variable with this name contains a secret.
pub fn is_secret_name(name: &str) -> bool {
    // Shells store the working directory in `PWD`.
    !matches!(name, "PWD" | "OLDPWD") && strength_of(name) != NameStrength::None
}

/// Returns true if a value can be a secret, given the strength of its name. Switches and numbers of
/// tokens cannot. A path can be a secret only after an unambiguous name. [`holds_secret`] also
/// considers that some names usually precede a file.
pub fn is_secret_value(announced: impl Into<Announcement>, value: &str) -> bool {
    const SWITCHES: [&str; 12] = [
        "true", "false", "yes", "no", "on", "off", "none", "null", "nil", "auto", "disabled",
        "enabled",
    ];
    let value = value.trim_matches(['"', '\'']);
    if value.is_empty() || SWITCHES.contains(&value.to_ascii_lowercase().as_str()) {
        return false;
    }
    let Announcement {
        strength,
        counts_tokens,
    } = announced.into();
    if counts_tokens && is_number_of_tokens(value) {
        return false;
    }
    match strength {
        NameStrength::None => false,
        NameStrength::Weak => !is_path(value),
        NameStrength::Strong => true,
    }
}

/// Returns true if a value can be a secret after this name. The name determines whether a path can
/// be one: the value of `--key` is usually a file, unlike that of `--auth`.
pub(super) fn holds_secret(name: &str, value: &str) -> bool {
    let announced = strength_of(name);
    let takes_file = words_of(name).last().is_some_and(|last| {
        FILE_NAMES
            .iter()
            .any(|end| last.trim_end_matches('s').ends_with(end))
    });
    let strength = if takes_file {
        announced.strength
    } else {
        NameStrength::Strong
    };
    announced != NameStrength::None
        && is_secret_value(
            Announcement {
                strength,
                ..announced
            },
            value,
        )
}

/// Returns true if a value looks like a path. Base64 can also start with a slash, but often
/// contains `+` or `=`.
fn is_path(value: &str) -> bool {
    const EXTENSIONS: [&str; 10] = [
        "pem", "key", "crt", "cer", "lic", "json", "txt", "p12", "pub", "der",
    ];
    // `PATH_MAX` of Linux.
    const LONGEST: usize = 4096;
    let Some(rest) = ["../", "./", "~/", "/"]
        .iter()
        .find_map(|start| value.strip_prefix(start))
    else {
        return false;
    };
    let has_extension = rest
        .rsplit_once('.')
        .is_some_and(|(_, extension)| EXTENSIONS.contains(&extension));
    value.len() <= LONGEST && !value.contains(['+', '=']) && (rest.contains('/') || has_extension)
}

/// Splits a name into words at every character that is neither a letter nor a digit, and at changes
/// from lower to upper case. Removes trailing digits of each word.
fn words_of(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut last = ' ';
    for letter in name.chars() {
        let starts = !last.is_ascii_alphanumeric()
            || (last.is_ascii_lowercase() && letter.is_ascii_uppercase());
        if letter.is_ascii_alphanumeric() {
            match words.last_mut() {
                Some(word) if !starts => word.push(letter.to_ascii_lowercase()),
                _ => words.push(letter.to_ascii_lowercase().to_string()),
            }
        }
        last = letter;
    }
    words
        .iter_mut()
        .for_each(|word| word.truncate(word.trim_end_matches(|c: char| c.is_ascii_digit()).len()));
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests;
