//! Decides by the name of a variable, flag or key whether it holds a secret.

/// How reliably a name announces a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NameStrength {
    /// The name does not announce a secret.
    None,
    /// A secret in a flag or a variable, but an everyday word in prose and in API objects: `key`, `login`.
    Weak,
    /// A secret wherever it appears: `password`, `api_key`.
    Strong,
}

/// Suffixes that announce a secret wherever they appear. `PGPASSWORD` and `hftoken` have no
/// separator.
const STRONG_ENDS: [&str; 16] = [
    "token",
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "accountkey",
    "licensekey",
    "authkey",
    "credential",
    "credentials",
    "authorization",
];
/// Words that announce a secret in the name of a flag or variable.
const WEAK: [&str; 20] = [
    "key",
    "keys",
    "auth",
    "pat",
    "license",
    "licence",
    "login",
    "pwd",
    "pw",
    "pass",
    "cred",
    "creds",
    "bearer",
    "jwt",
    "cookie",
    "signature",
    "sig",
    "webhook",
    "otp",
    "pin",
];
/// Words that make `key` a secret wherever the two appear.
const KEY_OWNERS: [&str; 18] = [
    "api",
    "access",
    "secret",
    "private",
    "account",
    "license",
    "wandb",
    "auth",
    "encryption",
    "signing",
    "service",
    "storage",
    "ngc",
    "ssh",
    "client",
    "master",
    "shared",
    "deploy",
];
/// Words that make `key` a column, a field or a sort order, as in `--sort-key` and `--prompt-key`.
const PLAIN_KEYS: [&str; 60] = [
    "answer",
    "attention",
    "audio",
    "cache",
    "candidate",
    "caption",
    "choice",
    "chosen",
    "col",
    "column",
    "config",
    "content",
    "data",
    "dataset",
    "dict",
    "example",
    "feature",
    "field",
    "foreign",
    "group",
    "hash",
    "id",
    "image",
    "index",
    "input",
    "instruction",
    "join",
    "json",
    "kv",
    "label",
    "lang",
    "language",
    "lookup",
    "map",
    "merge",
    "message",
    "messages",
    "metric",
    "monitor",
    "order",
    "output",
    "partition",
    "primary",
    "prompt",
    "public",
    "query",
    "question",
    "reference",
    "rejected",
    "response",
    "reward",
    "row",
    "sort",
    "source",
    "taint",
    "target",
    "text",
    "toleration",
    "topology",
    "video",
];
/// Words that make `token` a symbol of a tokenizer or a number.
const PLAIN_TOKENS: [&str; 27] = [
    "add", "audio", "bos", "cls", "end", "eos", "image", "mask", "max", "min", "new", "next", "num", "n", "pad", "per", "sep",
    "special", "start", "stop", "think", "total", "unk", "video", "first", "last", "prompt",
];
/// Final words of names that describe a secret and do not hold it, as in `--token-file` and
/// `secretName`.
const DESCRIPTIONS: [&str; 50] = [
    "algorithm",
    "audience",
    "budget",
    "cache",
    "class",
    "cost",
    "count",
    "dir",
    "directory",
    "dim",
    "enabled",
    "error",
    "expiry",
    "expiration",
    "file",
    "files",
    "folder",
    "format",
    "id",
    "ids",
    "issuer",
    "keyfile",
    "keystore",
    "kind",
    "len",
    "length",
    "limit",
    "loss",
    "manager",
    "mode",
    "mount",
    "name",
    "names",
    "parallel",
    "path",
    "provider",
    "rate",
    "ratio",
    "ref",
    "request",
    "required",
    "seconds",
    "server",
    "size",
    "sock",
    "source",
    "ttl",
    "type",
    "url",
    "version",
];

/// Classifies a name: `--wandb-key`, `HF_TOKEN`, `NotebookApp.token`, `clientSecret`.
#[must_use]
pub fn strength_of(name: &str) -> NameStrength {
    let words = words_of(name);
    let Some(last) = words.last() else { return NameStrength::None };
    // `secretName` and `--token-file` locate a secret; `TOKEN_1` and `password2` hold one.
    if DESCRIPTIONS.contains(&last.as_str()) {
        return NameStrength::None;
    }
    let of_word = |(index, word): (usize, &String)| {
        let before = index.checked_sub(1).map_or("", |before| words[before].as_str());
        match word.as_str() {
            "token" if PLAIN_TOKENS.contains(&before) => NameStrength::None,
            "key" | "keys" if PLAIN_KEYS.contains(&before) => NameStrength::None,
            "key" if KEY_OWNERS.contains(&before) => NameStrength::Strong,
            word if STRONG_ENDS.iter().any(|end| word.ends_with(end)) => NameStrength::Strong,
            word if WEAK.contains(&word) => NameStrength::Weak,
            _ => NameStrength::None,
        }
    };
    words.iter().enumerate().map(of_word).max().unwrap_or(NameStrength::None)
}

/// Whether an environment variable of this name holds a secret.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    // Shells keep the working directory in `PWD`, which resembles a password's name.
    !matches!(name, "PWD" | "OLDPWD") && strength_of(name) > NameStrength::None
}

/// Whether a value after a name of this strength can be a secret. A switch never is. A path is one
/// only after an unambiguous name.
#[must_use]
pub fn is_secret_value(strength: NameStrength, value: &str) -> bool {
    const SWITCHES: [&str; 10] = ["true", "false", "yes", "no", "on", "off", "none", "null", "auto", "disabled"];
    let value = value.trim_matches(['"', '\'']);
    if value.is_empty() || SWITCHES.contains(&value.to_ascii_lowercase().as_str()) {
        return false;
    }
    match strength {
        NameStrength::None => false,
        NameStrength::Weak => !value.starts_with(['/', '.', '~']),
        NameStrength::Strong => true,
    }
}

/// Splits at everything that is not a letter or digit, at changes from lower to upper case, and before trailing digits.
fn words_of(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut last = ' ';
    for letter in name.chars() {
        let starts = !last.is_ascii_alphanumeric() || (last.is_ascii_lowercase() && letter.is_ascii_uppercase());
        if letter.is_ascii_alphanumeric() {
            match words.last_mut() {
                Some(word) if !starts => word.push(letter.to_ascii_lowercase()),
                _ => words.push(letter.to_ascii_lowercase().to_string()),
            }
        }
        last = letter;
    }
    words.iter_mut().for_each(|word| word.truncate(word.trim_end_matches(|c: char| c.is_ascii_digit()).len()));
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_told_from_names_about_them() {
        for name in [
            "--wandb-key",
            "--wandb_key",
            "--auth",
            "--passphrase",
            "--license-key",
            "--pat",
            "--key",
            "--hf-token",
            "--aws-secret-access-key",
            "--ngc-api-key",
            "NotebookApp.token",
            "PGPASSWORD",
            "clientSecret",
            "DB_PW",
            "TOKEN_1",
            "password2",
            "MASTER_KEY",
            "API_KEYS",
            "--login",
            "hftoken",
            "OPENAI_API_KEY_PROD",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "--sort-key",
            "--prompt_key",
            "--max-tokens",
            "--eos-token",
            "--token-file",
            "secretName",
            "PWD",
            "OLDPWD",
            "TOKENIZERS_PARALLELISM",
            "SSH_AUTH_SOCK",
            "--author",
            "--num-key-value-heads-size",
            "--pattern",
            "imagePullSecrets",
            "MAX_TOKENS",
            "--keyframe",
            "automount",
            "",
            "--",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
        assert_eq!(strength_of("key"), NameStrength::Weak);
        assert_eq!(strength_of("wandb_key"), NameStrength::Strong);
    }

    #[test]
    fn switches_and_paths_are_not_secrets() {
        assert!(!is_secret_value(NameStrength::Strong, "true"));
        assert!(!is_secret_value(NameStrength::Weak, "/etc/tls/key.pem"));
        assert!(is_secret_value(NameStrength::Strong, "/b64+key"));
        assert!(is_secret_value(NameStrength::Weak, "123456"));
    }
}
