//! Refuses to write if the config file has a key that looks like a misspelled `safety` setting.
//!
//! A misspelled key in another section only has no effect. A misspelled `safety` key would allow
//! the writes that the user wanted to forbid, so gpuctl writes nothing until the key is corrected.

use anyhow::{anyhow, bail};
use serde_json::{Map, Value};

use super::KubeContexts;
use super::keys::{CONTEXTS, KEYS, SettingKey, ValueKind};

const SECTION: &str = "safety";
const KEY: &str = "read_only";

/// Fails if a key in or near `safety` is unknown, is misspelled or has the wrong type.
pub(super) fn check(content: &Value) -> anyhow::Result<()> {
    let sections = match content {
        Value::Null => return Ok(()),
        Value::Object(sections) => sections,
        _ => bail!("the config file has no sections"),
    };
    for (name, value) in sections {
        match name.as_str() {
            SECTION => section(value, SECTION)?,
            CONTEXTS => contexts(value)?,
            _ if SettingKey::sections().contains(&name.as_str()) => {
                refuse_misplaced(name, name, value)?;
            }
            _ => unknown(name, value)?,
        }
    }
    Ok(())
}

/// Returns true if a name resembles a `safety` key in another spelling or wording, such as
/// `readonly`, `saftey`, `Read-Only` or `no_writes`. Names such as `write_timeout` and `overwrite`
/// do not match.
pub(super) fn is_like_read_only(name: &str) -> bool {
    const ALONE: [&str; 10] = [
        "immutable",
        "mutable",
        "protect",
        "protected",
        "protection",
        "safe",
        "write",
        "writes",
        "writable",
        "writeable",
    ];
    const TOGETHER: [&str; 14] = [
        "allow", "block", "can", "deny", "disable", "disabled", "enable", "forbid", "mode",
        "never", "no", "only", "permit", "protect",
    ];
    let letters: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect::<String>()
        .to_ascii_lowercase();
    let is_close = |word: &str| strsim::damerau_levenshtein(&letters, word) <= 2;
    let words = words_of(name);
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    let is_guard = has(&ALONE) && (words.len() == 1 || has(&TOGETHER));
    let is_glued = TOGETHER.iter().any(|first| {
        letters
            .strip_prefix(first)
            .is_some_and(|suffix| ALONE.contains(&suffix))
    });
    letters.contains("safet")
        || letters.contains("readonly")
        || is_close("safety")
        || is_close("readonly")
        || is_guard
        || is_glued
}

/// Splits a name at punctuation and before capital letters.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_lower = false;
    for letter in name.chars() {
        if !letter.is_ascii_alphanumeric() || (is_lower && letter.is_ascii_uppercase()) {
            words.push(String::new());
        }
        is_lower = letter.is_ascii_lowercase();
        words
            .last_mut()
            .expect("there is a first word")
            .extend(letter.to_lowercase().filter(char::is_ascii_alphanumeric));
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns true if a name is a misspelling of the current context, such as `prd` for `prod`. Names
/// that differ in a number or in their last letter, such as `gpu-1` and `gpu-2`, are different
/// clusters.
fn is_misspelled(name: &str, context: &str) -> bool {
    let [name, context] = [name, context].map(|text| text.trim().to_lowercase());
    let series = |text: &str| {
        let text = text.trim_end_matches(|c: char| c.is_ascii_digit());
        let letter = text
            .rsplit_once(['-', '_', '.'])
            .filter(|(_, end)| end.len() <= 1);
        letter.map_or_else(|| text.to_owned(), |(beginning, _)| beginning.to_owned())
    };
    let is_neighbor = name != context && series(&name) == series(&context);
    !is_neighbor
        && strsim::damerau_levenshtein(&name, &context) <= (context.chars().count() / 3).min(2)
}

/// Fails if `safety` settings are given for a context that is not in the kubeconfig, and its name
/// is probably a misspelling of the current context.
pub(super) fn check_contexts(content: &Value, kubeconfig: &KubeContexts) -> anyhow::Result<()> {
    let Some(current) = &kubeconfig.current else {
        return Ok(());
    };
    // If the file also contains the exact name, a similar name belongs to another cluster.
    if content[CONTEXTS].get(current).is_some() {
        return Ok(());
    }
    let entries = content[CONTEXTS].as_object().into_iter().flatten();
    let mut missing = entries
        .filter(|(name, sections)| sections[SECTION].is_object() && !kubeconfig.all.contains(name));
    match missing.find(|(name, _)| is_misspelled(name, current)) {
        Some((name, _)) => bail!(
            "the kubeconfig has no context `{name}`; did you mean `{CONTEXTS}.{current}.{SECTION}`?"
        ),
        None => Ok(()),
    }
}

fn is_like_contexts(name: &str) -> bool {
    let letters = name.to_lowercase();
    strsim::damerau_levenshtein(&letters, CONTEXTS) <= 2 || letters.starts_with("context")
}

/// Checks `safety` at the top level or within a context.
fn section(value: &Value, path: &str) -> anyhow::Result<()> {
    let keys = match value {
        // The section contains only comments.
        Value::Null => return Ok(()),
        Value::Object(keys) => keys,
        _ => bail!("`{path}` in the config file must be a section with the key `{KEY}`"),
    };
    for (name, value) in keys {
        if name != KEY {
            bail!("unknown key `{path}.{name}` in the config file; did you mean `{path}.{KEY}`?");
        }
        if ValueKind::Switch.accept(value).is_none() {
            bail!(
                "`{path}.{KEY}` in the config file is not {}",
                ValueKind::Switch.description()
            );
        }
    }
    Ok(())
}

fn contexts(value: &Value) -> anyhow::Result<()> {
    let form = || {
        anyhow!(
            "`{CONTEXTS}` in the config file must have the form `{CONTEXTS}: {{NAME: {{{SECTION}: {{{KEY}: true}}}}}}`"
        )
    };
    let contexts = match value {
        Value::Null => return Ok(()),
        Value::Object(contexts) => contexts,
        _ => return Err(form()),
    };
    for (context, sections) in contexts {
        let path = format!("{CONTEXTS}.{context}");
        let sections = match sections {
            Value::Null => &Map::new(),
            Value::Object(sections) => sections,
            _ => return Err(form()),
        };
        for (name, value) in sections {
            let inner = format!("{path}.{name}");
            match name.as_str() {
                SECTION => section(value, &inner)?,
                _ => {
                    refuse_misspelled(name, &inner)?;
                    refuse_misplaced(name, &inner, value)?;
                }
            }
        }
    }
    Ok(())
}

/// Checks whether the name of an unknown section is a misspelling of `safety`.
fn unknown(name: &str, value: &Value) -> anyhow::Result<()> {
    refuse_misspelled(name, name)?;
    if is_like_contexts(name) {
        bail!("unknown key `{name}` in the config file; did you mean `{CONTEXTS}`?");
    }
    refuse_misplaced(name, name, value)
}

/// Finds `safety` keys where they have no effect. `key` is the position without the context.
fn refuse_misplaced(key: &str, path: &str, value: &Value) -> anyhow::Result<()> {
    match value {
        // The user chooses the names in a map, such as the names of headers.
        Value::Object(_)
            if KEYS
                .iter()
                .any(|setting| setting.name == key && setting.kind == ValueKind::Map) =>
        {
            Ok(())
        }
        Value::Object(keys) => keys.iter().try_for_each(|(name, value)| {
            let (key, inner) = (format!("{key}.{name}"), format!("{path}.{name}"));
            if KEYS.iter().all(|setting| setting.name != key) {
                refuse_misspelled(name, &inner)?;
            }
            refuse_misplaced(&key, &inner, value)
        }),
        Value::Array(items) => items
            .iter()
            .try_for_each(|item| refuse_misplaced(key, path, item)),
        _ => Ok(()),
    }
}

fn refuse_misspelled(name: &str, path: &str) -> anyhow::Result<()> {
    match is_like_read_only(name) {
        true => Err(anyhow!(
            "unknown key `{path}` in the config file; did you mean `{SECTION}: {{{KEY}: true}}`?"
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_near_safety_forbid_writing() {
        for text in [
            "safety: {readonly: true}",
            "safety: {Read_Only: true}",
            "safety: {read_only: true, readonly: false}",
            "safety: {read_only: }",
            "safety: {read_only: yess}",
            "safety: {read_only: 1}",
            "safety: {read_only: [true]}",
            "safety: true",
            "safety: [read_only]",
            "safety: [{read_only: true}]",
            "saftey: {read_only: true}",
            "Safety: {read_only: true}",
            "safe: {read_only: true}",
            "read-only: true",
            "read_only: true",
            "readonly: true",
            "safety.read_only: true",
            "safety:\nread_only: true",
            "context: {c: {safety: {read_only: true}}}",
            "Contexts: {c: {safety: {read_only: true}}}",
            "contexts: [{c: {safety: {read_only: true}}}]",
            "contexts: {c: [safety]}",
            "contexts: {c: {saftey: {read_only: true}}}",
            "contexts: {c: {read_only: true}}",
            "contexts: {c: {safety: true}}",
            "contexts: {c: {safety: {readonly: true}}}",
            "contexts: {c: {prometheus: {safety: {read_only: true}}}}",
            "contexts: {c: {scoring: [{safety: {read_only: true}}]}}",
            "contexts.c.safety.read_only: true",
            "default: {safety: {read_only: true}}",
            "prometheus: {read_only: true}",
            "log: {level: {safety: true}}",
            "base: &b {read_only: true}\nsafety: {read_only: false}",
            "- safety: {read_only: true}",
            "read only",
            "safeties: {read_only: true}",
            "safe_mode: true",
            "no_writes: true",
            "allow_writes: false",
            "write_protect: true",
            "security: {write: false}",
            "contexts: {c: {prometheus: {no_write: true}}}",
        ] {
            let content: Value = serde_saphyr::from_str(text).unwrap();
            assert!(check(&content).is_err(), "{text}: {content}");
        }
    }

    #[test]
    fn safety_of_a_misspelled_context_forbids_writing() {
        let check = |text: &str, current: &str, contexts: &[&str]| {
            let content: Value = serde_saphyr::from_str(text).unwrap();
            let contexts = contexts.iter().map(|name| (*name).to_owned()).collect();
            check_contexts(
                &content,
                &KubeContexts {
                    current: Some(current.to_owned()),
                    all: contexts,
                },
            )
        };
        let read_only_context =
            |name: &str| format!("contexts: {{'{name}': {{safety: {{read_only: true}}}}}}");
        for (misspelled, current) in [
            ("prd", "prod"),
            ("C", "c"),
            ("c ", "c"),
            ("Production", "production"),
            ("gke-prdo", "gke-prod"),
        ] {
            assert!(
                check(&read_only_context(misspelled), current, &[current]).is_err(),
                "{misspelled} {current}"
            );
        }
        let unrelated = [
            ("prod", "prod"),
            ("staging", "prod"),
            ("d", "c"),
            ("gpu-1", "gpu-2"),
            ("gke-a", "gke-b"),
            ("eu1", "eu12"),
        ];
        for (misspelled, current) in unrelated {
            assert!(
                check(&read_only_context(misspelled), current, &[current]).is_ok(),
                "{misspelled} {current}"
            );
        }
        assert!(
            check(
                &read_only_context("prod-a"),
                "prod-b",
                &["prod-a", "prod-b"]
            )
            .is_ok()
        );
        let two_contexts =
            "contexts: {prd: {safety: {read_only: true}}, prod: {safety: {read_only: false}}}";
        assert!(check(two_contexts, "prod", &["prod"]).is_ok());
    }

    #[test]
    fn other_keys_do_not_forbid_writing() {
        for text in [
            "",
            "# nothing\n",
            "safety:",
            "safety: {read_only: true}",
            "safety: {read_only: \"no\"}",
            "contexts:",
            "contexts: {safety: {safety: {read_only: true}, prometheus: {url: http://a}}}",
            "contexts: {c: }",
            "prometheus: {url: http://a, headers: {safety: x}, matchers: {readonly: a}}",
            "promethues: {url: http://a}",
            "ai: {modl: x}\nscoring: 3",
            "prometheus: none",
            "contexts: {c: {prometheus: {headers: {safety: x}}}}",
            "output: {overwrite: true}",
            "serve: {write_timeout: 5s}",
            "prometheus: {remote_write_url: x}",
            "database: {write_interval: 5}",
            "log: {unsafe_chars: x}",
        ] {
            let content: Option<Value> = serde_saphyr::from_str(text).unwrap();
            check(&content.unwrap_or_default()).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        // The pattern must not match any other key of the table.
        for key in &KEYS {
            assert!(
                key.name == "safety.read_only" || !is_like_read_only(key.path().1),
                "{}",
                key.name
            );
        }
        assert!(
            SettingKey::sections()
                .iter()
                .all(|name| *name == SECTION || !is_like_read_only(name) && !is_like_contexts(name))
        );
    }
}
