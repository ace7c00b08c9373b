//! Finds secrets in a command line that is a list of words, such as `["docker", "login", "-p",
//! "x"]`.

use super::secret_names::holds_secret;
use super::secret_text::secret_spans;
use super::secret_tools::secret_words;
use super::secret_values::is_count;

/// Returns the indexes of the words that are secrets or that join a short flag with a secret, as in
/// `-pSECRET`. [`secret_spans`] finds other secrets within a word.
pub fn argument_secrets(words: &[&str]) -> Vec<usize> {
    let mut secrets: Vec<usize> = (1..words.len())
        .filter(|index| follows_secret_flag(words[index - 1], words[*index]))
        .collect();
    let in_programs = secret_words(words.iter().map(|word| (*word, false)));
    secrets.extend(in_programs.into_iter().map(|secret| secret.index));
    // A name and its secret can be separate words, so also search the words joined into one line.
    let line = words.join(" ");
    let spans = secret_spans(&line);
    let mut start = 0;
    for (index, word) in words.iter().enumerate() {
        let end = start + word.len();
        if !word.is_empty()
            && spans
                .iter()
                .any(|span| span.start <= start && end <= span.end)
        {
            secrets.push(index);
        }
        start = end + 1;
    }
    secrets.sort_unstable();
    secrets.dedup();
    secrets
}

/// Returns true if `word` is the value of a flag whose name indicates a secret.
fn follows_secret_flag(flag: &str, word: &str) -> bool {
    let is_flag = flag.starts_with('-') && !flag.contains(['=', ' ', '\n']);
    // `--max-tokens 8192` is a count.
    let counts_tokens = flag.trim_end_matches('s').ends_with("token") && is_count(word);
    is_flag && !word.starts_with("--") && holds_secret(flag, word) && !counts_tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_flags_and_logins_are_found() {
        for (words, secrets) in [
            (
                vec!["train", "--wandb-key", "X Y", "--epochs", "3"],
                vec![2],
            ),
            (
                vec![
                    "docker",
                    "login",
                    "-u",
                    "me",
                    "-p",
                    "X",
                    "registry.example.com",
                ],
                vec![5],
            ),
            (vec!["wandb", "login", "X"], vec![2]),
            (vec!["curl", "-u", "me:X", "https://host"], vec![2]),
            (vec!["mysql", "-pX", "db"], vec![1]),
            (vec!["curl", "-sSLu", "me:X Y", "https://host"], vec![2]),
            (vec!["hf", "auth", "login", "X"], vec![3]),
            (vec!["htpasswd", "-b", "f", "u", "X"], vec![4]),
            (
                vec![
                    "train",
                    "--tokens",
                    "4096",
                    "--auth",
                    "/X+y==",
                    "--hf-tokens",
                    "X",
                ],
                vec![4, 6],
            ),
            (
                vec![
                    "train",
                    "--tokens",
                    "8388608",
                    "--tokens-per-gpu",
                    "4096",
                    "--token",
                    "12345678",
                ],
                vec![6],
            ),
            (vec!["echo", "Starting", "|", "tee", "login"], vec![]),
            (
                vec![
                    "train",
                    "--sort-key",
                    "name",
                    "--key",
                    "/etc/tls/key.pem",
                    "--auth",
                    "--verbose",
                ],
                vec![],
            ),
        ] {
            assert_eq!(argument_secrets(&words), secrets, "{words:?}");
        }
    }
}
