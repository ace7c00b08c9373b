//! Finds secrets in a command line that is a list of words: `["docker", "login", "-p", "x"]`.

use super::secret_names::{is_secret_value, strength_of};
use super::secret_text::secret_spans;

/// Indices of words that are entirely secret. [`secret_spans`] finds secrets within a word.
#[must_use]
pub fn argument_secrets(words: &[&str]) -> Vec<usize> {
    let mut found: Vec<usize> = (1..words.len()).filter(|index| follows_secret_flag(words[index - 1], words[*index])).collect();
    // The joined line identifies programs with a secret at a fixed position.
    let line = words.join(" ");
    let spans = secret_spans(&line);
    let mut start = 0;
    for (index, word) in words.iter().enumerate() {
        let end = start + word.len();
        if !word.is_empty() && spans.iter().any(|span| span.start <= start && end <= span.end) {
            found.push(index);
        }
        start = end + 1;
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Whether `word` is the value of a flag that announces a secret.
fn follows_secret_flag(flag: &str, word: &str) -> bool {
    let is_flag = flag.starts_with('-') && !flag.contains(['=', ' ', '\n']);
    is_flag && !word.starts_with("--") && is_secret_value(strength_of(flag), word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_flags_and_logins_are_found() {
        for (words, secrets) in [
            (vec!["train", "--wandb-key", "X Y", "--epochs", "3"], vec![2]),
            (vec!["docker", "login", "-u", "me", "-p", "X", "registry.example.com"], vec![5]),
            (vec!["wandb", "login", "X"], vec![2]),
            (vec!["curl", "-u", "me:X", "https://host"], vec![2]),
            (vec!["train", "--sort-key", "name", "--key", "/etc/tls/key.pem", "--auth", "--verbose"], vec![]),
        ] {
            assert_eq!(argument_secrets(&words), secrets, "{words:?}");
        }
    }
}
